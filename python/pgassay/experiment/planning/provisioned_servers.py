"""The plan's part for servers that pgassay starts itself: settings and caps of all arms, which arms can run.

A level that is refused is an error with the gate and the remedy, or, with --skip-unavailable, an arm that is
dropped and named. Warnings of a plan are traps known from other people's wrong results.
"""

from collections.abc import Sequence

from pgassay.design.arms import Candidate
from pgassay.environment import datasets
from pgassay.environment.builds.default_differences import DefaultDifferences
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.cgroup.inherited_limits import (
    inherited_limits,
    limit_sentences,
    limits_left_behind,
)
from pgassay.environment.linux import machine, pagecache
from pgassay.environment.server.pooler import check_pooler
from pgassay.environment.server.server_caps import check_limits
from pgassay.environment.server.validation import block_bytes, validate_settings, with_data_format
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.arm_baseline import (
    caps_by_arm,
    dataset_of,
    instance_sentences,
    prepare_of,
    settings_of_all,
    with_buffers_for_the_smallest,
    with_caps,
    with_connections,
    with_memory_of_instances,
    with_shipped_checksums,
    with_wal_sizes,
)
from pgassay.experiment.planning.arm_builds import (
    choose_builds,
    dataset_loads,
    differing_defaults,
    levels_without_unit,
    one_arm_where_lacking,
    refuse_equal_levels,
    settings_where_they_exist,
)
from pgassay.experiment.planning.plan_warnings import plan_warnings
from pgassay.experiment.planning.remote_options import refuse_what_needs_a_remote_server
from pgassay.experiment.planning.request import CompareRequest, protocol_of
from pgassay.experiment.planning.servers import (
    Base,
    Description,
    Judged,
    OnStage,
    ParsedRequest,
    PlannedGrid,
    ServerConnections,
)
from pgassay.factors import clients
from pgassay.factors.base import Factor
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.build import Build
from pgassay.model.experiment import CacheState, Environment, InheritedLimits
from pgassay.model.storage import StorageSpec
from pgassay.model.workload import WorkloadSpec
from pgassay.storage.parse import describe, parse_storage
from pgassay.storage.registry import KINDS as STORAGE_KINDS
from pgassay.trial.caches.keeper import require_cache_state


class ProvisionedServers:
    """Servers of this machine, each started for its arm's trials."""

    messages: tuple[str, ...] = ()
    connections = ServerConnections()

    def __init__(self, request: CompareRequest) -> None:
        self._request = request
        self.factors = request.factors
        self.command = request.command

    def base(self, factors: tuple[Factor, ...], workload: WorkloadSpec, given: dict[str, str]) -> Base:
        """The builds, the cache state, and the baseline settings, the data and the caps of all arms."""
        request = self._request
        refuse_what_needs_a_remote_server(request)
        varies_clients = any(each.name == clients.NAME for each in factors)
        cache = _cache_of(request, workload, is_mix=workload.is_mix or varies_clients)
        require_cache_state(cache, can_verify=pagecache.can_verify())
        factors, build = choose_builds(factors, request.build)
        baseline = settings_of_all(request, build, workload, usable_memory_bytes())
        spec = ArmSpec(
            build=build,
            storage=parse_storage(request.storage),
            dataset=dataset_of(request, workload, build),
            prepare=prepare_of(request),
            settings={**baseline, **given},
            workload=workload,
        )
        protocol = protocol_of(request, cache)
        return Base(with_caps(request, factors, spec), protocol, factors)

    def check(self, candidates: list[Candidate]) -> None:
        """Every build can be given its data, and the covariate is alike for all arms; raises UsageError."""
        _check_data(candidates)
        _check_client(candidates)
        storages = {
            (each.kind, each.path, each.size_bytes) for _, spec in candidates for each in (spec.storage,)
        }
        if self._request.covariate == "disk" and len(storages) > 1:
            raise UsageError(
                "--covariate disk reads the disk of each arm, but the arms have different disks, "
                "so it would remove the difference between them: use another covariate, or none"
            )

    def judge(self, parsed: ParsedRequest, on_stage: OnStage) -> Judged:
        """Small servers judge every level; raises UsageError unless such arms may be skipped."""
        candidates, is_shipped = parsed.candidates, parsed.request.baseline == "shipped"
        if is_shipped:
            candidates = with_shipped_checksums(candidates)
        candidates = with_memory_of_instances(candidates, parsed.request)
        if not is_shipped:
            candidates = with_buffers_for_the_smallest(candidates, parsed.given)
        if "max_connections" not in parsed.given:
            candidates = with_connections(candidates, is_shipped=is_shipped)
        candidates = with_wal_sizes(candidates, parsed.given, is_shipped=is_shipped)
        alike = settings_where_they_exist(candidates)
        candidates, lacking = alike.candidates, list[str]()
        if parsed.request.skip_unavailable:
            candidates, lacking = one_arm_where_lacking(candidates, parsed.compared.factor)
            candidates, unreachable = within_reach(candidates)
            lacking += unreachable
        available = judge(candidates, skip_unavailable=parsed.request.skip_unavailable, on_stage=on_stage)
        refuse_equal_levels(available.candidates)
        known = [
            (levels, spec.model_copy(update={"build": with_data_format(spec.build)}))
            for levels, spec in available.candidates
        ]
        return Judged(known, (*lacking, *available.skipped), alike.sentences)

    def describe(self, parsed: ParsedRequest, grid: PlannedGrid) -> Description:
        """Origins and defaults in which builds differ, traps, this machine, and the caps in words."""
        spec, workload = parsed.base.spec, parsed.workload
        defaults = differing_defaults(grid.arms, grid.contrasts)
        limits = inherited_limits()
        writes = workload.writes or workload.is_maintenance
        sentences = tuple(filter(None, (each.sentence(writes=writes) for each in defaults)))
        is_shipped = parsed.request.baseline == "shipped"
        return Description(
            data=datasets.describe(spec.dataset),
            compared=sentences if is_shipped else (),
            confounds=(
                *plan_confounds(grid.arms),
                *grid.judged.confounds,
                *(() if is_shipped else sentences),
            ),
            warnings=(
                *levels_without_unit(grid.judged.candidates),
                *limit_sentences(limits),
                *limits_left_behind(),
                *(instance_sentences(grid.arms) if self._request.memory is None else ()),
                *plan_warnings(
                    grid.arms,
                    spec,
                    parsed.compared.factor,
                    parsed.base.protocol.cache,
                    block_bytes(spec.build),
                ),
            ),
            environment=_environment(_as_judged(spec.build, grid.arms), grid.arms, defaults, limits),
            dataset_loads=dataset_loads(grid.arms),
        )


def _check_client(candidates: Sequence[Candidate]) -> None:
    """Raise UsageError for a client on another host: servers of pgassay's own have a Unix socket alone."""
    for _, spec in candidates:
        if spec.workload.load is not None and spec.workload.load.host:
            raise UsageError(
                f"client=ssh:{spec.workload.load.host}: a server that pgassay starts listens on a socket of "
                "this machine only: compare running servers, as server=DSN,DSN, with host=NAME"
            )


def _check_data(candidates: Sequence[Candidate]) -> None:
    """Raise UsageError for data that the build of an arm can't be given."""
    seen = set()
    for _, spec in candidates:
        identity = (spec.build.bin_directory, spec.dataset)
        if identity not in seen:
            seen.add(identity)
            datasets.check_dataset(spec.build, spec.dataset)


def _as_judged(build: Build, arms: Sequence[Arm]) -> Build:
    """The build as the arms that run on it have it."""
    same = (arm.spec.build for arm in arms if arm.spec.build.bin_directory == build.bin_directory)
    return next(same, build)


def default_cache(workload: WorkloadSpec) -> CacheState:
    """Statements start cold each; a load, or statements at once, read what the page cache holds."""
    is_alone = workload.kind == "statements" and not workload.is_mix
    return "cold-each" if is_alone and not workload.writes else "warm-pages"


def _cache_of(request: CompareRequest, workload: WorkloadSpec, *, is_mix: bool) -> CacheState:
    """The cache state that is named, or the workload's; raises UsageError where clients can't have it."""
    if request.cache is None:
        return "warm-pages" if is_mix else default_cache(workload)
    if is_mix and workload.kind == "statements" and request.cache in ("cold", "cold-each"):
        raise UsageError(
            f"--cache {request.cache}: with statements that clients execute concurrently only the "
            "first would be cold: use --cache warm-pages, warm-buffers or as-is"
        )
    return request.cache


def within_reach(candidates: list[Candidate]) -> tuple[list[Candidate], list[str]]:
    """The candidates whose storage this machine is fast enough for, and a sentence for each other storage."""
    clients: dict[StorageSpec, dict[int, None]] = {}
    for _, spec in candidates:
        load = spec.workload.load
        clients.setdefault(spec.storage, {}).update({load.clients: None} if load else {})
    reasons = {storage: _beyond_reach(storage, list(counts)) for storage, counts in clients.items()}
    kept = [each for each in candidates if not reasons.get(each[1].storage)]
    return kept, [
        f"{describe(storage)} was skipped: {reason}" for storage, reason in reasons.items() if reason
    ]


def _beyond_reach(storage: StorageSpec, clients: Sequence[int]) -> str | None:
    """Why this machine is too slow for the storage of the data, or that of the WAL; None where it is not."""
    for each in (storage, storage.wal):
        if each is not None and (kind := STORAGE_KINDS[each.kind]).capability() is None:
            reason = kind.unreachable(each, clients)
            if reason is not None:
                return reason
    return None


def judge(candidates: list[Candidate], *, skip_unavailable: bool, on_stage: OnStage) -> Judged:
    """Start a small server with each arm's settings; keep the arms it accepts.

    Raises UsageError for the first arm that is refused, unless `skip_unavailable`.
    """
    kept: list[Candidate] = []
    skipped: list[str] = []
    is_one_build = len({spec.build.bin_directory for _, spec in candidates}) == 1
    verdicts: dict[tuple[object, ...], UsageError | None] = {}
    for index, (levels, spec) in enumerate(candidates):
        on_stage("checking every level on a small server", index / len(candidates))
        settings = tuple(sorted(spec.settings.items()))
        kinds = (spec.storage.kind, spec.storage.wal.kind if spec.storage.wal else "")
        key = (spec.build.bin_directory, settings, spec.memory_bytes, spec.cpus, kinds)
        if key not in verdicts:
            verdicts[key] = _refusal(spec)
        # What a pooler can't do depends on the load, for which no server has to be started.
        refusal = verdicts[key] or _refusal_of_pooler(spec)
        if refusal is None:
            kept.append((levels, spec))
        elif skip_unavailable:
            name = " ".join(f"{factor}={level}" for factor, level in levels.items())
            skipped.append(f"{name} was skipped: {refusal}")
        elif is_one_build:
            raise refusal
        else:
            name = " ".join(f"{factor}={level}" for factor, level in levels.items())
            sentence = str(refusal).rstrip(".")
            raise UsageError(f"{name}: {sentence}; or drop such arms with --skip-unavailable") from refusal
    return Judged(kept, tuple(skipped))


def _refusal(spec: ArmSpec) -> UsageError | None:
    for storage in (spec.storage, spec.storage.wal):
        missing = STORAGE_KINDS[storage.kind].capability() if storage is not None else None
        if missing is not None:
            return UsageError(missing)
    try:
        check_limits(spec)
        validate_settings(spec.build, spec.settings)
    except UsageError as error:
        return error
    except MeasurementError as error:
        return UsageError(str(error))
    return None


def _refusal_of_pooler(spec: ArmSpec) -> UsageError | None:
    try:
        check_pooler(spec)
    except UsageError as error:
        return error
    except MeasurementError as error:
        return UsageError(str(error))
    return None


def plan_confounds(arms: Sequence[Arm]) -> tuple[str, ...]:
    """What differs between arms beside the factors."""
    sentences = []
    origins = sorted({arm.spec.build.origin for arm in arms})
    if len(origins) > 1:
        sentences.append(f"the builds come from {', '.join(origins)}: compilers and options differ too")
    return tuple(sentences)


def _environment(
    build: Build, arms: tuple[Arm, ...], defaults: tuple[DefaultDifferences, ...], limits: InheritedLimits
) -> Environment:
    known: dict[str, object] = {
        "machine": machine.facts(),
        "machine_id": machine.machine_id(),
        "build": build.model_dump(),
    }
    caps = caps_by_arm(arms)
    differing = {f"{each.first} and {each.second}": each.values for each in defaults}
    known |= {"limits": limits}
    known |= ({"caps": caps} if caps else {}) | ({"differing_defaults": differing} if differing else {})
    return Environment.model_validate(known)
