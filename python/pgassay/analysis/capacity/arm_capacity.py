"""The most that each arm of an experiment holds within its bound, and the rate of its next block."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgassay.analysis.capacity.threshold import Capacity, Probe, RateInterval, capacity_of
from pgassay.analysis.verdicts.checks.load_checks import holds_rate
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockPlan, Experiment
from pgassay.model.percentiles import transactions_min
from pgassay.model.result import ArmCapacity, CompareResult
from pgassay.model.trial import LoadObservation
from pgassay.model.workload import Metric
from pgassay.record.experiment import StoredExperiment
from pgassay.words import figure

# From this half width on an arm's rate is known well enough to end the experiment.
HALF_WIDTH_ENOUGH = 0.15
# What of the transactions that are due may fail, as what may be left undone.
FAILED_SHARE_MAX = 0.01
# In one of so many blocks all arms run at one rate, however far apart they are.
COMMON_EVERY = 3
# A rate is tried as so many significant digits say: it is read by people.
_DIGITS = 4


@dataclass(frozen=True)
class _Known:
    """What the trials of an arm (of a control with its twin) tell."""

    arm: Arm
    probes: tuple[Probe, ...]
    capacity: Capacity
    interval: RateInterval


def keeps(load: LoadObservation, metric: Metric) -> bool:
    """Whether a trial kept the bound: its figure is no greater, no queue grew, and hardly any failed.

    A transaction that failed is in no latency, and a deadlock takes a second before it is found: a rate at
    which many fail would keep any bound. So would a trial with too few latencies for its figure.
    """
    figure, opened = load.latency_ms.get(metric.latency), load.open_loop
    if opened is not None and opened.failed > FAILED_SHARE_MAX * opened.scheduled:
        return False
    has_enough = load.latencies >= transactions_min(metric.latency) / 2
    return figure is not None and has_enough and figure <= metric.bound_ms and holds_rate(load)


def alpha_of_arm(experiment: Experiment) -> float:
    """What of the error rate the interval of one arm has, so that all hold together."""
    return experiment.contract.alpha / max(1, sum(arm.role != "twin" for arm in experiment.arms))


def at_next_rates(stored: StoredExperiment, plan: BlockPlan) -> BlockPlan:
    """A new block with its rate, by the blocks before it; as it is where no rate is looked for.

    The rate is where the arm whose rate is known least well tells most. An arm that sustains far more or less
    would tell nothing there: but for each third block, by which arms are compared, it has its own rate.
    """
    experiment = stored.experiment
    if not experiment.contract.metric.bound_ms or not experiment.design.rates:
        return plan
    stratum = plan.stratum or ""
    known = [each for each in _known(stored) if each.arm.id in plan.arm_ids and each.arm.stratum == stratum]
    known = known or [each for each in _known(stored) if each.arm.id in plan.arm_ids]
    # One that lies beyond all rates that are tried has nothing left to tell.
    left = [each for each in known if not each.capacity.is_known(each.interval, HALF_WIDTH_ENOUGH)] or known
    widest = max(each.interval.half_width for each in left)
    open_arms = [each for each in left if each.interval.half_width == widest]
    asked = open_arms[plan.block % len(open_arms)]
    alpha = alpha_of_arm(experiment)

    def rate_of(each: _Known) -> float:
        return float(f"{each.capacity.proposal(alpha):.{_DIGITS}g}")

    apart = [each for each in known if each.capacity.lies_apart_from(asked.capacity)]
    own = {} if plan.block % COMMON_EVERY == 0 else {each.arm.id: rate_of(each) for each in apart}
    # A twin runs as its control does.
    own |= {twin: own[arm] for arm, twin in _twins(experiment).items() if twin and arm in own}
    return plan.model_copy(update={"rate": rate_of(asked), "rates": own})


def arm_capacities(stored: StoredExperiment) -> tuple[ArmCapacity, ...]:
    """Of each arm but the twins; () where no rate within a bound is looked for."""
    if not stored.experiment.contract.metric.bound_ms or not stored.experiment.design.rates:
        return ()
    known = _known(stored)
    controls = {each.arm.stratum: each for each in known if each.arm.role == "control"}
    return tuple(_result(each, controls) for each in known)


def are_known(capacities: Sequence[ArmCapacity]) -> bool:
    """Whether each rate is known well enough to end the experiment."""
    return bool(capacities) and all(each.known for each in capacities)


def capacity_sentences(result: CompareResult) -> list[str]:
    """'A sustains 4,210 [3,900, 4,400] transactions a second with p99 under 20 ms, …', one for each arm."""
    metric = result.metric
    within = f"with {metric.latency} under {figure(metric.bound_ms, 6)} ms"
    controls = {each.stratum: each for each in result.capacities if each.ratio is None}
    sentences = []
    for each in result.capacities:
        control = controls.get(each.stratum)
        if control is None or each is control:
            continue
        where = f"At {each.stratum}, " if each.stratum and each.stratum not in each.arm else ""
        ratio = _ratio(each)
        compared = f": {ratio}" if ratio else ""
        sentences.append(
            f"{where}{control.arm} sustains {_span(control)} transactions a second {within}, {each.arm} "
            f"{_span(each)}{compared}."
        )
    if sentences and any(_is_unbounded(each) for each in result.capacities):
        sentences.append(
            f"Intervals of such rates take about 25 to 30 blocks, and {result.blocks} "
            f"{'is' if result.blocks == 1 else 'are'} complete: a longer --max-time helps."
        )
    return sentences


def _is_unbounded(each: ArmCapacity) -> bool:
    ends = _ends(each.interval)
    return ends.lower <= 0 and not math.isfinite(ends.upper)


def _span(each: ArmCapacity) -> str:
    lower, upper = _ends(each.interval).lower, _ends(each.interval).upper
    if _is_unbounded(each):
        if each.trials and each.kept in (0, each.trials):
            # Trials on one side alone do not hold the rate between them: the estimate is a guess.
            fate = "kept" if each.kept else "broke"
            return f"perhaps {each.rate:,.0f} (all {each.trials} trials {fate} the bound, no interval yet)"
        return f"about {each.rate:,.0f} (no interval yet)"
    if lower <= 0:
        return f"less than {upper:,.0f}"
    return f"{each.rate:,.0f} [{lower:,.0f}, {upper:,.0f}]" if upper < math.inf else f"more than {lower:,.0f}"


def _ratio(each: ArmCapacity) -> str:
    """What an arm's rate is to its control's; '' where nothing bounds that."""
    lower, upper = _ends(each.ratio_interval).lower, _ends(each.ratio_interval).upper
    if lower <= 0 and not math.isfinite(upper):
        return ""
    if not math.isfinite(upper):
        return f"at least {lower:.2f} ×"
    if lower <= 0:
        return f"at most {upper:.2f} ×"
    shown = f"{each.ratio:.2f} × [{lower:.2f}, {upper:.2f}]"
    return f"{shown}, which may be no difference" if lower <= 1 <= upper else shown


def _result(each: _Known, controls: Mapping[str, _Known]) -> ArmCapacity:
    control, found = controls[each.arm.stratum].interval, each.interval
    is_control = each.arm.role == "control"
    ratio = None if is_control else found.middle / control.middle
    lower = found.lower / control.upper if math.isfinite(control.upper) else 0.0
    upper = found.upper / control.lower if control.lower > 0 else math.inf
    return ArmCapacity(
        arm=each.arm.name,
        stratum=each.arm.stratum,
        rate=found.middle,
        interval=(found.lower, _finite(found.upper)),
        trials=len(each.probes),
        kept=sum(probe.kept for probe in each.probes),
        known=each.capacity.is_known(found, HALF_WIDTH_ENOUGH),
        ratio=ratio,
        ratio_interval=None if is_control else (lower, _finite(upper)),
    )


def _finite(rate: float) -> float | None:
    return rate if math.isfinite(rate) else None


def _ends(interval: tuple[float, float | None] | None) -> RateInterval:
    """As the statistics have it, where what is not bounded is infinite."""
    lower, upper = interval or (0.0, None)
    return RateInterval(lower, lower, math.inf if upper is None else upper)


def _known(stored: StoredExperiment) -> list[_Known]:
    experiment, alpha = stored.experiment, alpha_of_arm(stored.experiment)
    twins = _twins(experiment)
    found = []
    for arm in experiment.arms:
        if arm.role == "twin":
            continue
        twin = twins.get(arm.id) if experiment.contract.pool_twin else None
        probes = _probes(stored, {arm.id, twin})
        key = arm.stratum if arm.stratum in experiment.design.rates else ""
        capacity = capacity_of(probes, *experiment.design.rates[key])
        found.append(_Known(arm, probes, capacity, capacity.interval(alpha)))
    return found


def _twins(experiment: Experiment) -> dict[str, str | None]:
    return {each.control_id: each.twin_id for each in experiment.contrasts}


def _probes(stored: StoredExperiment, arm_ids: set[str | None]) -> tuple[Probe, ...]:
    """The valid trials of these arms in the order in which they were planned."""
    metric, found = stored.experiment.contract.metric, {}
    for trial in stored.trials:
        record = trial.record
        plan = stored.block_plans.get(record.block)
        if (
            record.status == "ok"
            and record.load is not None
            and record.arm_id in arm_ids
            and plan is not None
        ):
            found[record.number] = Probe(plan.rate_of(record.arm_id), keeps(record.load, metric))
    return tuple(probe for _, probe in sorted(found.items()) if probe.rate > 0)
