"""What all arms start from beside their levels: the data, the settings and the caps.

Fixed settings are alike in all arms, and no version's default decides a comparison by accident: what the
engine brings. Shipped ones are each version's own, and part of what is compared: what an upgrade brings. Set
is then only what a private server needs (its socket, folders and log,
`environment/server/server_folder.py`), and what it would not start or serve without.
"""

from collections.abc import Iterator, Sequence

from pgassay.design.arms import Candidate
from pgassay.environment import datasets
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.datasets.base import MIN_WAL_MB, WAL_SEGMENTS_MIN
from pgassay.environment.server.initdb import FIRST_MAJOR_WITH_CHECKSUMS_BY_DEFAULT
from pgassay.environment.server.server_caps import (
    describe_limits,
    parse_cpus,
    parse_memory,
    server_limits,
    why_not_capped,
)
from pgassay.environment.server.setting_values import parse_number
from pgassay.environment.server.settings import SHARED_BUFFERS_SHIPPED, baseline_settings
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import Factor
from pgassay.factors.config import names_of
from pgassay.factors.initdb_option import CHECKSUMS, FROM_A_FOLDER
from pgassay.factors.prepare import parse_prepare
from pgassay.factors.settle import with_settling
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.workload import WorkloadSpec, typed_script
from pgassay.storage.base import Instance
from pgassay.storage.registry import kind_named
from pgassay.storage.storage_options import format_bytes

# What a server has that is given no others (src/backend/utils/misc/guc_tables.c).
CONNECTIONS_SHIPPED = 100
WAL_SEGMENT_MB_SHIPPED = 16
# Control sessions, the superuser's reserved slots and a margin, beside the load's own connections.
CONNECTIONS_BESIDE_CLIENTS = 20
# initdb writes these multiples of a segment into the settings of a new cluster (src/bin/initdb/initdb.c).
MIN_WAL_SEGMENTS_SHIPPED = 5
MAX_WAL_SEGMENTS_SHIPPED = 64
_WAL_SIZES = ("min_wal_size", "max_wal_size")

# What a session takes beside its sorts and hashes: its stack, catalogs and plans (src/backend/utils/cache),
# and what the others of a server take together.
_SESSION_BYTES, _SERVER_BYTES = 6 << 20, 48 << 20
_WORK_MEM_SHIPPED_KB = 4096
_STEP_BYTES = 64 << 20


def dataset_of(request: CompareRequest, workload: WorkloadSpec, build: Build) -> DatasetSpec:
    """The dataset of all arms; raises UsageError for a source that can't be used."""
    dataset = datasets.parse_dataset(request.dataset, build, request.scale)
    return with_settling(with_own_data(dataset, workload, request), request.settle, "--settle")


def with_own_data(dataset: DatasetSpec, workload: WorkloadSpec, request: CompareRequest) -> DatasetSpec:
    """The dataset of a request, or sysbench's tables for its transaction where no other was named.

    A dump, a folder or a script is left as it is: it may well hold sysbench's tables. Raises UsageError
    for a --scale, which says nothing of these tables.
    """
    options = workload.load.of_sysbench if workload.load else None
    if options is None or dataset.kind not in ("pgbench", "sysbench"):
        return dataset
    if request.scale != CompareRequest.scale:
        raise UsageError(
            f"--scale {request.scale} is the size of pgbench's tables, but {workload.family} "
            f"reads sysbench's: write --workload {typed_script(workload)}tables=4,table_size=100000"
        )
    sizes = options.model_dump(include={"tables", "table_size", "distribution"})
    return dataset.model_copy(update={"kind": "sysbench", "scale": 1, **sizes})


def prepare_of(request: CompareRequest) -> tuple[str, ...]:
    """What --prepare does to the data of all arms, in the order typed."""
    return tuple(
        statement for text in request.prepare for statement in parse_prepare(text, f"--prepare {text}")
    )


def settings_of_all(
    request: CompareRequest, build: Build, workload: WorkloadSpec, memory_bytes: int
) -> dict[str, str]:
    """The baseline's settings: {} where each version runs on its own."""
    if request.baseline == "shipped":
        return {}
    return baseline_settings(build, writes=workload.wants_autovacuum, memory_bytes=memory_bytes)


def with_connections(candidates: list[Candidate], *, is_shipped: bool) -> list[Candidate]:
    """Every arm with room for the most clients of any arm: a setting alike in all of them."""
    clients = max((spec.workload.connections for _, spec in candidates), default=0)
    connections = max(CONNECTIONS_SHIPPED, clients + CONNECTIONS_BESIDE_CLIENTS)
    if is_shipped and connections == CONNECTIONS_SHIPPED:
        return candidates
    return [
        (levels, _with_settings(spec, {"max_connections": str(connections)}))
        if "max_connections" not in names_of(levels)
        else (levels, spec)
        for levels, spec in candidates
    ]


def with_wal_sizes(
    candidates: list[Candidate], given: dict[str, str], *, is_shipped: bool
) -> list[Candidate]:
    """Every arm with sizes of its WAL that its segments allow, where their size is not the usual 16 MB.

    Alike in all arms when fixed; as the arm's own initdb would have written them when shipped. What was
    given, or is a factor, stays. Raises UsageError for one of those that is too small.
    """
    largest = max((spec.dataset.wal_segment_mb for _, spec in candidates), default=0)
    found = []
    for levels, spec in candidates:
        segment = spec.dataset.wal_segment_mb
        changed: dict[str, str] = {}
        if is_shipped and segment != WAL_SEGMENT_MB_SHIPPED:
            changed = {
                "min_wal_size": f"{MIN_WAL_SEGMENTS_SHIPPED * segment}MB",
                "max_wal_size": f"{MAX_WAL_SEGMENTS_SHIPPED * segment}MB",
            }
        elif not is_shipped and WAL_SEGMENTS_MIN * largest > MIN_WAL_MB:
            changed = {"min_wal_size": f"{WAL_SEGMENTS_MIN * largest}MB"}
        kept = {name: value for name, value in changed.items() if name not in {*given, *names_of(levels)}}
        arm = _with_settings(spec, kept)
        _check_wal_sizes(arm.settings, segment)
        found.append((levels, arm))
    return found


def _check_wal_sizes(settings: dict[str, str], segment_mb: int) -> None:
    for name in _WAL_SIZES:
        size_mb = parse_number(settings.get(name, ""), "MB")
        if size_mb is not None and size_mb < WAL_SEGMENTS_MIN * segment_mb:
            raise UsageError(
                f"{name}={settings[name]} is too small for the {WAL_SEGMENTS_MIN} WAL segments of "
                f"{segment_mb} MB that a server needs: use {name}={WAL_SEGMENTS_MIN * segment_mb}MB or more"
            )


def with_shipped_checksums(candidates: list[Candidate]) -> list[Candidate]:
    """Every arm with data checksums as its own version's initdb makes them, unless they are a factor.

    Those of a data folder that was made elsewhere stay as they are.
    """
    return [
        (levels, spec)
        if CHECKSUMS in names_of(levels) or spec.dataset.kind == FROM_A_FOLDER
        else (levels, spec.model_copy(update={"dataset": _as_shipped(spec)}))
        for levels, spec in candidates
    ]


def _as_shipped(spec: ArmSpec) -> DatasetSpec:
    checksums = spec.build.major >= FIRST_MAJOR_WITH_CHECKSUMS_BY_DEFAULT
    return spec.dataset.model_copy(update={"checksums": checksums})


def differing_checksums(control: Arm, arm: Arm) -> dict[str, tuple[str, str]]:
    """The data checksums of a control and an arm where their versions made them differently; else {}."""
    values = [("off", "on")[each.spec.dataset.checksums] for each in (control, arm)]
    if values[0] == values[1] or CHECKSUMS in names_of(arm.levels):
        return {}
    return {"data_checksums": (values[0], values[1])}


def _with_settings(spec: ArmSpec, settings: dict[str, str]) -> ArmSpec:
    return spec.model_copy(update={"settings": {**spec.settings, **settings}}) if settings else spec


def with_caps(request: CompareRequest, factors: tuple[Factor, ...], spec: ArmSpec) -> ArmSpec:
    """The arm with the caps of `--memory` and `--cpus`; raises UsageError where they can't be set."""
    for name, text in (("memory", request.memory), ("cpus", request.cpus)):
        if text is not None and name in {factor.name for factor in factors}:
            raise UsageError(f"{name} is a factor and is also set by --{name}: leave one of them out")
    update: dict[str, object] = {}
    if request.memory is not None:
        update["memory_bytes"] = parse_memory(request.memory, "--memory")
    if request.cpus is not None:
        update["cpus"] = parse_cpus(request.cpus, "--cpus")
    capped = spec.model_copy(update=update)
    server_limits(capped)
    return capped


def with_buffers_for_the_smallest(candidates: list[Candidate], given: dict[str, str]) -> list[Candidate]:
    """Every arm with the baseline settings for the smallest memory of any arm: alike in all of them.

    What was given with --set, or is a factor, stays.
    """
    caps = [spec.memory_bytes for _, spec in candidates if spec.memory_bytes is not None]
    if not caps or min(caps) >= usable_memory_bytes():
        return candidates
    return [(levels, _with_memory(levels, spec, min(caps), given)) for levels, spec in candidates]


def _with_memory(levels: dict[str, str], spec: ArmSpec, memory_bytes: int, given: dict[str, str]) -> ArmSpec:
    writes = spec.workload.wants_autovacuum
    usual = baseline_settings(spec.build, writes=writes, memory_bytes=usable_memory_bytes())
    small = baseline_settings(spec.build, writes=writes, memory_bytes=memory_bytes)
    changed = {
        name: value
        for name, value in small.items()
        if value != usual[name] and name not in given and name not in names_of(levels)
    }
    return spec.model_copy(update={"settings": {**spec.settings, **changed}})


def with_memory_of_instances(candidates: list[Candidate], request: CompareRequest) -> list[Candidate]:
    """Every arm whose volume belongs to an instance with that one's memory, unless its memory was told.

    Where this machine can't hold its servers to so much they stay as they are, and `instance_sentences` says
    so.
    """
    if request.memory is not None:
        return candidates
    return [
        (levels, spec if "memory" in names_of(levels) else _as_its_instance(spec))
        for levels, spec in candidates
    ]


def _as_its_instance(spec: ArmSpec) -> ArmSpec:
    instance = instance_of(spec)
    if instance is None or instance.memory_bytes is None or why_not_capped(instance.memory_bytes, spec):
        return spec
    return spec.model_copy(update={"memory_bytes": instance.memory_bytes})


def instance_of(spec: ArmSpec) -> Instance | None:
    """The machine that the arm's storage is rented with."""
    return kind_named(spec.storage.kind).instance(spec.storage)


def instance_sentences(arms: Sequence[Arm]) -> tuple[str, ...]:
    """A warning for each instance whose memory the servers have not, though nobody said so."""
    found: dict[str, None] = {}
    for arm in arms:
        instance = instance_of(arm.spec)
        if instance is None or "memory" in names_of(arm.levels) or arm.spec.memory_bytes is not None:
            continue
        if instance.memory_bytes is None:
            found[f"the catalogue does not know the memory of {instance.name}: give it with --memory"] = None
        elif reason := why_not_capped(instance.memory_bytes, arm.spec):
            size = format_bytes(instance.memory_bytes)
            found[
                f"{instance.name} has {size} of memory but its servers are not limited to that here "
                f"({reason}): what would be cached there may be read here, or the reverse"
            ] = None
    return tuple(found)


def caps_by_arm(arms: tuple[Arm, ...]) -> dict[str, str]:
    """The caps of each arm in words, for the description of the environment; {} when none is capped."""
    words = {arm.name: _caps(arm.spec) or "none" for arm in arms if arm.role != "twin"}
    return words if set(words.values()) != {"none"} else {}


def _caps(spec: ArmSpec) -> str:
    words, instance = describe_limits(spec), instance_of(spec)
    if spec.memory_bytes is None or instance is None or spec.memory_bytes != instance.memory_bytes:
        return words
    return words.replace("memory ", f"memory of {instance.name} ", 1)


# --- Caps that an arm's own settings may go beyond.


def needed_bytes(arm: Arm) -> int:
    """What the arm may take at most: shared buffers, and for each connection one sort or hash."""
    settings, connections = arm.spec.settings, arm.spec.workload.connections or 1
    buffers = parse_number(settings.get("shared_buffers", SHARED_BUFFERS_SHIPPED), "8kB") or 0.0
    work_mem = parse_number(settings.get("work_mem", ""), "kB") or _WORK_MEM_SHIPPED_KB
    sessions = connections * (round(work_mem * 1024) + _SESSION_BYTES)
    return _SERVER_BYTES + round(buffers * 8192) + sessions


def memory_warnings(arms: Sequence[Arm]) -> Iterator[str]:
    """A sentence for the arm that goes furthest beyond its cap, where one does."""
    # One session has shared buffers that its data may not fill; many are what ends a server.
    crowds = [arm for arm in arms if (arm.spec.workload.connections or 1) > 1 and arm.role != "twin"]
    capped = [arm for arm in crowds if arm.spec.memory_bytes is not None]
    beyond = [(needed_bytes(arm) / (arm.spec.memory_bytes or 1), arm) for arm in capped]
    share, arm = max(beyond, key=lambda pair: pair[0], default=(0.0, None))
    if arm is None or share <= 1:
        return
    needed = -(-needed_bytes(arm) // _STEP_BYTES) * _STEP_BYTES
    connections = arm.spec.workload.connections or 1
    yield (
        f"{arm.name}: its memory of {(arm.spec.memory_bytes or 0) >> 20} MB may be too little; the kernel "
        f"would end the server: shared buffers, and a work_mem and a session for each of {connections} "
        f"connections, can take {needed >> 20} MB; use --memory {needed >> 20}MB, or lower these settings"
    )
