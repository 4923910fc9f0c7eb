"""From a request to an experiment: the build, the arms, the protocol and the contract."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgassay import __version__
from pgassay.design.arms import Compared, apply_levels, build_arms, choose_control, combinations
from pgassay.environment.builds.default_differences import DefaultDifferences
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.linux import machine, pagecache
from pgassay.environment.server.settings import contract_settings
from pgassay.environment.storage.parse import parse_storage
from pgassay.errors import UsageError
from pgassay.experiment.planning.availability import Candidate, judge
from pgassay.experiment.planning.builds import (
    choose_builds,
    dataset_loads,
    differing_defaults,
    settings_where_they_exist,
)
from pgassay.experiment.planning.caps import caps_by_arm, with_buffers_for_the_smallest, with_caps
from pgassay.experiment.planning.command import repeatable
from pgassay.experiment.planning.lacking import alone, one_arm_where_lacking
from pgassay.experiment.planning.own_data import check_data, dataset_of, prepare_of, title_of, workload_of
from pgassay.experiment.planning.request import CompareRequest, check_request, parse_cache, parse_settings
from pgassay.experiment.planning.traps import plan_confounds, plan_warnings
from pgassay.experiment.planning.workload_data import with_own_data
from pgassay.factors.base import Factor
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.build import Build
from pgassay.model.experiment import CacheState, Experiment, Protocol, StatisticalContract
from pgassay.model.workload import WorkloadSpec
from pgassay.trial.caches.keeper import require_cache_state

# Control sessions, the superuser's reserved slots and a margin, beside the load's own connections.
CONNECTIONS_BESIDE_CLIENTS = 20
CONNECTIONS_MIN = 100
Notify = Callable[[str, float], None]


@dataclass(frozen=True)
class Understood:
    """A request whose every word has been understood; the machine has not been touched yet."""

    request: CompareRequest
    factors: tuple[Factor, ...]
    workload: WorkloadSpec
    build: Build
    cache: CacheState
    given: dict[str, str]
    compared: Compared
    base: ArmSpec
    candidates: list[Candidate]


def default_cache(workload: WorkloadSpec) -> CacheState:
    """Statements start cold each; a load reads what the page cache holds."""
    return "cold-each" if workload.kind == "statements" and not workload.writes else "warm-pages"


def understand(request: CompareRequest) -> Understood:
    """Read every word of a request; raises UsageError for the first that can't be meant.

    Needs no lock and starts nothing, so a slip of the fingers is answered at once.
    """
    check_request(request)
    factors = parse_factors(list(request.factors))
    workload = workload_of(request, factors)
    cache = parse_cache(request.cache) if request.cache else default_cache(workload)
    require_cache_state(cache, can_verify=pagecache.can_verify())
    given = parse_settings(request.settings)
    _refuse_settings_that_are_factors(given, factors)
    compared = choose_control(factors, request.control)
    factors, build = choose_builds(factors, request.build)
    base = with_caps(request, factors, _base_spec(request, workload, build, given))
    candidates = [(levels, apply_levels(factors, levels, base)) for levels in combinations(factors)]
    check_data(candidates)
    candidates = with_buffers_for_the_smallest(candidates, given)
    if "max_connections" not in given:
        candidates = _with_connections(candidates)
    return Understood(request, factors, workload, build, cache, given, compared, base, candidates)


def _refuse_settings_that_are_factors(given: dict[str, str], factors: tuple[Factor, ...]) -> None:
    for factor in factors:
        if factor.name in given:
            raise UsageError(
                f"{factor.name} is a factor and is also fixed by --set {factor.name}: leave one of them out"
            )


def plan(parsed: Understood, notify: Notify) -> Experiment:
    """The whole plan of an experiment; nothing has run but small servers that judged the levels.

    Raises UsageError for a level that this build or machine refuses.
    """
    request, compared = parsed.request, parsed.compared
    alike = settings_where_they_exist(parsed.candidates)
    candidates, lacking = alike.candidates, list[str]()
    if request.skip_unavailable:
        candidates, lacking = one_arm_where_lacking(candidates, compared.factor)
    available = judge(candidates, skip_unavailable=request.skip_unavailable, progress=notify)
    seed = request.seed if request.seed is not None else secrets.randbelow(2**31)
    arms, contrasts = build_arms(parsed.factors, compared, available.candidates, seed)
    defaults = differing_defaults(arms, contrasts)
    writes = parsed.workload.writes or parsed.workload.is_maintenance
    protocol = Protocol(cache=parsed.cache, observe=request.observe)
    contract = StatisticalContract(
        metric=parsed.workload.metric,
        margin=request.margin,
        alpha=request.alpha,
        blocks_max=request.blocks,
        time_max_s=request.max_time_s,
        seed=seed,
        pool_twin=request.pool_twin,
        covariate=request.covariate,
        contrasts=len(contrasts),
    )
    return Experiment(
        pgassay_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=repeatable(request.command, seed),
        title=title_of(request, parsed.factors, parsed.base.dataset),
        arms=arms,
        contrasts=contrasts,
        contract=contract,
        protocol=protocol,
        dataset_loads=dataset_loads(arms),
        skipped=(*lacking, *available.skipped, *alone(available.candidates, arms, compared.factor)),
        confounds=(
            *plan_confounds(arms),
            *alike.sentences,
            *filter(None, (each.sentence(writes=writes) for each in defaults)),
        ),
        warnings=plan_warnings(arms, parsed.base, compared.factor, parsed.cache),
        environment=_environment(parsed.build, arms, defaults),
    )


def _base_spec(
    request: CompareRequest, workload: WorkloadSpec, build: Build, given: dict[str, str]
) -> ArmSpec:
    contract = contract_settings(build, writes=workload.wants_autovacuum, memory_bytes=usable_memory_bytes())
    return ArmSpec(
        build=build,
        storage=parse_storage(request.storage),
        dataset=with_own_data(dataset_of(request, build), workload, request),
        prepare=prepare_of(request),
        settings={**contract, **given},
        workload=workload,
    )


def _with_connections(candidates: list[Candidate]) -> list[Candidate]:
    """Every arm with room for the most clients of any arm: a setting alike in all of them."""
    loads = [spec.workload.load for _, spec in candidates if spec.workload.load is not None]
    clients = max((load.clients for load in loads), default=0)
    connections = str(max(CONNECTIONS_MIN, clients + CONNECTIONS_BESIDE_CLIENTS))
    return [
        (levels, spec.model_copy(update={"settings": {"max_connections": connections, **spec.settings}}))
        if "max_connections" in levels
        else (levels, spec.model_copy(update={"settings": {**spec.settings, "max_connections": connections}}))
        for levels, spec in candidates
    ]


def _environment(
    build: Build, arms: tuple[Arm, ...], defaults: tuple[DefaultDifferences, ...]
) -> dict[str, Any]:
    known = {"machine": machine.facts(), "machine_id": machine.machine_id(), "build": build.model_dump()}
    caps = caps_by_arm(arms)
    differing = {f"{each.first} and {each.second}": each.values for each in defaults}
    return known | ({"caps": caps} if caps else {}) | ({"differing_defaults": differing} if differing else {})
