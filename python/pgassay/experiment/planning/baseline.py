"""The settings that all arms start from: fixed, alike in all, or those that each version is shipped with.

Fixed, no version's default decides a comparison by accident: what the engine brings. Shipped, the defaults
are part of what is compared: what an upgrade brings. Set is then only what a private server needs (its
socket, folders and log, `environment/server/folder.py`), and what it would not start or serve without.
"""

from pgassay.design.arms import Candidate
from pgassay.environment.datasets.base import MIN_WAL_MB, WAL_SEGMENTS_MIN
from pgassay.environment.server.initdb import FIRST_MAJOR_WITH_CHECKSUMS_BY_DEFAULT
from pgassay.environment.server.setting_values import parse_number
from pgassay.environment.server.settings import SHARED_BUFFERS_SHIPPED, baseline_settings
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.initdb_option import CHECKSUMS, FROM_A_FOLDER
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.workload import WorkloadSpec

# What a server has that is given no others (src/backend/utils/misc/guc_tables.c).
CONNECTIONS_SHIPPED = 100
WAL_SEGMENT_MB_SHIPPED = 16
# Control sessions, the superuser's reserved slots and a margin, beside the load's own connections.
CONNECTIONS_BESIDE_CLIENTS = 20
# initdb writes these multiples of a segment into the settings of a new cluster (src/bin/initdb/initdb.c).
MIN_WAL_SEGMENTS_SHIPPED = 5
MAX_WAL_SEGMENTS_SHIPPED = 64
_WAL_SIZES = ("min_wal_size", "max_wal_size")


def settings_of_all(
    request: CompareRequest, build: Build, workload: WorkloadSpec, memory_bytes: int
) -> dict[str, str]:
    """The baseline's settings: {} where each version runs on its own."""
    if request.baseline == "shipped":
        return {}
    return baseline_settings(build, writes=workload.wants_autovacuum, memory_bytes=memory_bytes)


def with_connections(candidates: list[Candidate], *, is_shipped: bool) -> list[Candidate]:
    """Every arm with room for the most clients of any arm: a setting alike in all of them."""
    loads = [spec.workload.load for _, spec in candidates if spec.workload.load is not None]
    clients = max((load.clients for load in loads), default=0)
    connections = max(CONNECTIONS_SHIPPED, clients + CONNECTIONS_BESIDE_CLIENTS)
    if is_shipped and connections == CONNECTIONS_SHIPPED:
        return candidates
    return [
        (levels, _with_settings(spec, {"max_connections": str(connections)}))
        if "max_connections" not in levels
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
        kept = {name: value for name, value in changed.items() if name not in given and name not in levels}
        arm = _with_settings(spec, kept)
        _check_wal_sizes(arm.settings, segment)
        found.append((levels, arm))
    return found


def _check_wal_sizes(settings: dict[str, str], segment_mb: int) -> None:
    for name in _WAL_SIZES:
        size_mb = parse_number(settings.get(name, ""), "MB")
        if size_mb is not None and size_mb < WAL_SEGMENTS_MIN * segment_mb:
            raise UsageError(
                f"{name}={settings[name]} has no room for the {WAL_SEGMENTS_MIN} WAL segments of "
                f"{segment_mb} MB that a server needs: give {name}={WAL_SEGMENTS_MIN * segment_mb}MB or more"
            )


def with_shipped_checksums(candidates: list[Candidate]) -> list[Candidate]:
    """Every arm with data checksums as its own version's initdb makes them, unless they are a factor.

    Those of a data folder that was made elsewhere stay as they are.
    """
    return [
        (levels, spec)
        if CHECKSUMS in levels or spec.dataset.kind == FROM_A_FOLDER
        else (levels, spec.model_copy(update={"dataset": _as_shipped(spec)}))
        for levels, spec in candidates
    ]


def _as_shipped(spec: ArmSpec) -> DatasetSpec:
    checksums = spec.build.major >= FIRST_MAJOR_WITH_CHECKSUMS_BY_DEFAULT
    return spec.dataset.model_copy(update={"checksums": checksums})


def shared_buffers_of(spec: ArmSpec) -> str:
    """The arm's shared_buffers, its version's own where nothing is given."""
    return spec.settings.get("shared_buffers", SHARED_BUFFERS_SHIPPED)


def differing_checksums(control: Arm, arm: Arm) -> dict[str, tuple[str, str]]:
    """The data checksums of a control and an arm where their versions made them differently; else {}."""
    values = [("off", "on")[each.spec.dataset.checksums] for each in (control, arm)]
    if values[0] == values[1] or CHECKSUMS in arm.levels:
        return {}
    return {"data_checksums": (values[0], values[1])}


def _with_settings(spec: ArmSpec, settings: dict[str, str]) -> ArmSpec:
    return spec.model_copy(update={"settings": {**spec.settings, **settings}}) if settings else spec
