"""From a request to an experiment: the arms, the protocol and the contract, fixed before the first trial."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pgassay import __version__
from pgassay.design.arms import (
    Candidate,
    Compared,
    apply_levels,
    build_arms,
    choose_control,
    combinations,
    select_strata,
    without_partner,
)
from pgassay.design.layouts import planned_layouts
from pgassay.design.schedule import planned_design
from pgassay.design.start_sharing import share
from pgassay.environment.linux.perf import find_perf
from pgassay.environment.server.validation import setting_level
from pgassay.errors import UsageError
from pgassay.experiment.planning.connections import is_remote
from pgassay.experiment.planning.provisioned_servers import ProvisionedServers
from pgassay.experiment.planning.remote_servers import RemoteServers
from pgassay.experiment.planning.request import (
    CompareRequest,
    parse_settings,
)
from pgassay.experiment.planning.servers import Base, OnStage, ParsedRequest, PlannedGrid, Servers
from pgassay.factors import config, sql
from pgassay.factors.base import Factor, FactorKind, split_levels
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.experiment import Environment, EvidenceUnit, Experiment, StatisticalContract
from pgassay.model.storage import PriceFacts, StorageSpec
from pgassay.model.workload import WorkloadSpec
from pgassay.options.evidence import BLOCKS_DEFAULT
from pgassay.storage.parse import prices_of
from pgassay.workloads.metric import metric_of

# Low, so that a small effect in much noise is found sooner, and few, since all points share the evidence.
SHARPNESS = (0.2, 2.0, 5)
# Most for effects of a third to two thirds of the spread, which take long and are asked for most often;
# enough for the sharpest, which decides in few blocks. If all counted alike, 5 % in noise of 7 % would take
# two more blocks in the median, and 2 % as many as now (`test_trials_needed.py`, `test_rules.py`).
SHARPNESS_WEIGHTS = (3.0, 12.0, 8.0, 2.0, 8.0)
# Nothing is lost by it where noise is normal, and many blocks are saved where it has tails. Where noise
# drifts, evidence that weighs neighbours must keep the greater part (`test_clipped.py`).
CLIPPED_SHARE = 0.4


@dataclass(frozen=True)
class GivenArms:
    """Arms by the level that names each, the factor that they are levels of, and which is the control."""

    factor: str
    control: str
    specs: Mapping[str, ArmSpec]


def parse_request(
    request: CompareRequest, on_stage: OnStage = lambda _stage, _fraction: None
) -> ParsedRequest:
    """Read every word of a request; raises UsageError for the first that can't be meant.

    Needs no lock and starts nothing, so a slip of the fingers is answered at once; servers that run already
    are asked who they are.
    """
    check_profile(request)
    given = parse_settings(request.settings)
    servers = choose_servers(request, on_stage)
    is_typed = servers.factors or not (request.factors or request.made_factors)
    factors = (*(parse_factors(list(servers.factors)) if is_typed else ()), *request.made_factors)
    for factor in factors:
        if factor.name in given:
            raise UsageError(
                f"{factor.name} is a factor and is also set by --set {factor.name}: leave one of them out"
            )
        if factor.name == config.NAME:
            config.check_beside(factor.levels, given)
    workload = sql.workload_of(factors, request.workload, CompareRequest.workload)
    base = servers.base(factors, workload, given)
    candidates = [
        (levels, apply_levels(base.factors, levels, base.spec)) for levels in combinations(base.factors)
    ]
    return parse_candidates(request, servers, workload, given, base, candidates)


def parse_arms(
    request: CompareRequest, servers: Servers, base: Base, given: dict[str, str], arms: GivenArms
) -> ParsedRequest:
    """A request whose arms are given whole, by the names of the levels of one factor.

    Raises UsageError for arms that can't run on these servers.
    """

    def apply(_name: str, level: str, _spec: ArmSpec) -> ArmSpec:
        return arms.specs[level]

    factor = Factor(arms.factor, tuple(arms.specs), FactorKind(split=split_levels, apply=apply))
    candidates = [({arms.factor: level}, spec) for level, spec in arms.specs.items()]
    return parse_candidates(
        request,
        servers,
        arms.specs[arms.control].workload,
        given,
        replace(base, factors=(factor,)),
        candidates,
        Compared(arms.factor, arms.control),
    )


def parse_candidates(
    request: CompareRequest,
    servers: Servers,
    workload: WorkloadSpec,
    given: dict[str, str],
    base: Base,
    candidates: list[Candidate],
    compared: Compared | None = None,
) -> ParsedRequest:
    """The request with its candidates, and what it asks of them: the control, the metric, prices of storage.

    compared: what the candidates are compared with, if the request does not say it. Raises UsageError for
    what they can't have.
    """
    compared = compared or choose_control(base.factors, request.control)
    specs = [spec for _, spec in candidates]
    metric = metric_of(request.metric, workload, [spec.workload.load for spec in specs])
    servers.check(candidates)
    prices = prices_of(request.prices, [spec.storage for spec in specs])
    return ParsedRequest(request, servers, workload, given, base, compared, candidates, metric, prices)


def choose_servers(request: CompareRequest, on_stage: OnStage) -> Servers:
    """Servers that run already where the request names some; else those that pgassay starts itself."""
    if not is_remote(request):
        return ProvisionedServers(request)
    return RemoteServers(request, on_stage)


def plan(parsed: ParsedRequest, on_stage: OnStage) -> Experiment:
    """The whole plan of an experiment; nothing has run but small servers that judged the levels.

    Raises UsageError for a level that a build, this machine or a server refuses.
    """
    request, servers, compared = parsed.request, parsed.servers, parsed.compared
    judged = servers.judge(parsed, on_stage)
    seed = request.seed if request.seed is not None else secrets.randbelow(2**31)
    factors = parsed.base.factors
    arms, contrasts = build_arms(factors, compared, judged.candidates, seed)
    without = without_partner(judged.candidates, arms, compared.factor)
    # What is said of some strata shares the error rate with what others say of the rest.
    comparisons = len(contrasts)
    if request.strata:
        arms, contrasts = select_strata(arms, contrasts, request.strata)
    if request.chosen is not None:
        arms, contrasts = request.chosen(arms, contrasts)
        comparisons = len(contrasts)
    sharing = share(
        arms,
        parsed.base.protocol,
        setting_level,
        chooses_cache=request.cache is None,
        unshared=request.unshared_starts,
    )
    arms, protocol = sharing.arms, sharing.protocol
    parsed = replace(parsed, base=replace(parsed.base, protocol=protocol))
    description = servers.describe(parsed, PlannedGrid(judged, arms, contrasts))
    # Whoever names a number of blocks wants them of all arms, decided or not.
    rests = request.blocks is None and request.decide == "arms"
    design = planned_design(arms, is_crossed=bool(description.swap), decided_rest=rests)
    layouts = planned_layouts(arms, request.layouts)
    _refuse_unfit_blocks(request, arms)
    contract = _contract(parsed, seed, comparisons, unit="trial" if sharing.reason else "start")
    title = _title(request, factors, description.data)
    environment = _with_prices(description.environment, parsed.prices, arms)
    return Experiment(
        pgassay_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=repeatable(servers.command, seed),
        title=title,
        arms=arms,
        contrasts=contrasts,
        contract=contract,
        protocol=protocol,
        design=design.model_copy(update={"between": request.between, "layouts": layouts}),
        dataset_loads=description.dataset_loads,
        skipped=(*judged.skipped, *without),
        baseline=request.baseline,
        compared=description.compared,
        restarts=sharing.said,
        confounds=description.confounds,
        warnings=description.warnings,
        swap=description.swap,
        environment=environment,
    )


def _with_prices(
    environment: Environment, prices: Mapping[StorageSpec, PriceFacts], arms: Sequence[Arm]
) -> Environment:
    """The environment with the month's price of each arm of whose storage it is given, by the arm's name."""
    found = {arm.name: prices[arm.spec.storage] for arm in arms if arm.spec.storage in prices}
    return environment.updated(prices=found) if found else environment


def _contract(
    parsed: ParsedRequest, seed: int, comparisons: int, *, unit: EvidenceUnit
) -> StatisticalContract:
    """By what the experiment is judged."""
    request = parsed.request
    return StatisticalContract(
        metric=parsed.metric,
        margin=request.margin,
        alpha=request.alpha,
        blocks_max=BLOCKS_DEFAULT if request.blocks is None else request.blocks,
        time_max_s=request.max_time_s,
        seed=seed,
        pool_twin=request.pool_twin,
        covariate=request.covariate,
        contrasts=comparisons,
        sharpness=SHARPNESS,
        sharpness_weights=SHARPNESS_WEIGHTS,
        equivalence="each",
        drift="neighbours",
        clipped_share=CLIPPED_SHARE,
        slope="members",
        noise="any",
        weights=parsed.workload.weights,
        decide=request.decide,
        until_decided=not request.all_blocks,
        unit=unit,
    )


def _refuse_unfit_blocks(request: CompareRequest, arms: tuple[Arm, ...]) -> None:
    """Raise UsageError for what blocks of these arms can't be."""
    if request.decide == "effects" and len({arm.stratum for arm in arms}) < 2:
        raise UsageError(
            "--decide effects: only one factor is compared, so its arms are all there is to "
            "decide: leave it out, or add a factor"
        )
    servers = {arm.spec.server.name for arm in arms if arm.spec.server is not None}
    if request.between == "neutral" and len(servers) > 1:
        raise UsageError(
            "--between neutral: the arms run on several servers, and a trial on the control's server "
            "has no effect on the others: leave it out"
        )


def _title(request: CompareRequest, factors: Sequence[Factor], data: str) -> str:
    """The experiment's title: what varies, what is run, on which data (in words)."""
    workload = ", ".join(sql.levels_of(factors)) or request.workload
    return f"{' '.join(factor.name for factor in factors)} on {workload}, {data}"


def repeatable(command: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """The command line with the seed that was drawn, into a new folder."""
    words: list[str] = []
    skip = False
    for word in command:
        if skip or word.startswith("--out="):
            skip = False
            continue
        if word == "--out":
            skip = True
            continue
        words.append(word)
    if words and not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words += ["--seed", str(seed)]
    return tuple(words)


def check_profile(request: CompareRequest) -> None:
    """Raise UsageError where a profile is asked for and can't be had; does nothing where none is."""
    if not request.profile:
        return
    if is_remote(request):
        raise UsageError(
            "--profile samples the processes of servers that pgassay starts: leave --server and server= out, "
            "or run perf on the server's own machine"
        )
    if request.cache == "cold-each":
        raise UsageError(
            "--profile can't follow a server that is restarted within a trial, as --cache cold-each does: "
            "use --cache cold"
        )
    find_perf()
