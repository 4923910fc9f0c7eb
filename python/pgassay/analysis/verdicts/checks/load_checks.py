"""Whether a load was what was asked for: its rate held, the client not its limit, its trials long enough."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from pgassay.analysis.accounts.arm_accounts import trial_accounts
from pgassay.analysis.accounts.threads import BACKEND
from pgassay.analysis.verdicts.stability import trend_per_step
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Judgement
from pgassay.model.arm import Arm
from pgassay.model.trial import LoadObservation
from pgassay.record.experiment import StoredExperiment
from pgassay.words import figure, join, percent_fixed, plural, seconds

# What chance alone may leave of a queue: so many standard deviations of the arrivals, or this share of them.
_QUEUE_DEVIATIONS = 5.0
_QUEUE_SHARE_MIN = 0.01
# A thread that is busy for so much of its time has nothing left to give.
BUSY_SHARE_MAX = 0.9
# What of a latency is the load generator's own: above the first share that is told, above the second no
# verdict is given.
DELAY_SHARE_TOLD = 0.05
# Of throughput more is usual where the load generator shares the server's processors.
_THROUGHPUT_SHARE_TOLD = 0.15
DELAY_SHARE_MAX = 0.5
# From which spread on what would decide sooner is said, and after how many blocks.
SCATTER_MIN, SCATTER_BLOCKS_MIN = 0.15, 4
# A share p of n looks has a standard error of √(p (1 − p) / n): a quarter of 50 is known to ± 12 %.
LOOKS_MIN = 50
# A virtual machine takes 25 to 50 µs to wake a processor, and a round trip wakes two: a tenth of this.
_ASLEEP_MS_MAX = 0.25
_ARMS_SHOWN = 3


def holds_rate(load: LoadObservation) -> bool:
    """Whether an open loop did what was due: no queue was left that grew over the last half of the interval.

    A queue that chance leaves is none, and neither is one of a stall that is worked off: it must be more than
    one part in a hundred of all that was due, and more than five standard deviations of a second's arrivals,
    and grow by at least a third of itself over the last half (Theil and Sen's slope), or not have been worked
    off in the time after the interval.
    """
    opened = load.open_loop
    if opened is None or not opened.scheduled:
        return True
    least = max(_QUEUE_SHARE_MIN * opened.scheduled, _QUEUE_DEVIATIONS * math.sqrt(opened.scheduled))
    undone = opened.queued + opened.skipped
    if undone > least:
        return False
    queue = opened.per_second_queue
    if not queue or queue[-1] <= least:
        return True
    half = np.array(queue[len(queue) // 2 :], dtype=np.float64)
    grown = trend_per_step(half) * (len(half) - 1) if len(half) > 1 else float(queue[-1])
    return grown < queue[-1] / 3


@dataclass(frozen=True)
class ClientShare:
    """What of a trial was the load generator's.

    busy: the share of its threads' time in which they had something to do and a processor; delay: its own
    share of the latency that is looked at, as far as it can see; None where the record does not say.
    """

    busy: float | None
    delay: float | None

    @property
    def is_limit(self) -> bool:
        """Whether the result is the client's and not the server's."""
        return (self.busy or 0.0) > BUSY_SHARE_MAX or (self.delay or 0.0) > DELAY_SHARE_MAX


def client_share(load: LoadObservation, latency: str = "") -> ClientShare:
    """Of one trial; `latency` names the figure of the latencies that is compared, '' for throughput.

    A thread polls before it sleeps, so its CPU time is no sign of work, and one that waits for a processor is
    not idle: the lesser of what both say is what it was busy.
    """
    busy = None
    if load.client_idle_s is not None and load.threads and load.elapsed_s > 0:
        whole_s = load.threads * load.elapsed_s
        busy = max(0.0, min(1 - load.client_idle_s / whole_s, load.client_cpu_s / whole_s))
    whole_ms, own_ms = load.latency_ms.get(latency, 0.0), load.own_delay_ms.get(latency)
    delay = own_ms / whole_ms if own_ms is not None and whole_ms > 0 else None
    return ClientShare(busy, delay)


def _median_share(study: Study, arm_id: str, latency: str) -> ClientShare:
    shares = [client_share(load, latency) for load in _loads(study, arm_id)]
    busy = [each.busy for each in shares if each.busy is not None]
    delay = [each.delay for each in shares if each.delay is not None]
    return ClientShare(median(busy) if busy else None, median(delay) if delay else None)


def _loads(study: Study, arm_id: str) -> list[LoadObservation]:
    return [record.load for record in study.table.valid[arm_id] if record.load is not None]


def client_bound(study: Study, arm_ids: Iterable[str]) -> str:
    """Why figures of these arms are the load generator's and not the server's; '' where they are not."""
    names, latency = list(arm_ids), study.experiment.contract.metric.latency
    shares = [_median_share(study, name, latency) for name in names]
    if not any(share.is_limit for share in shares):
        return ""
    return _note(shares, is_replay=study.arms[names[0]].spec.workload.is_replay)


def withhold_client_bound(study: Study, judgements: Sequence[Judgement]) -> list[Judgement]:
    """No verdict on an arm whose trials, or its control's, were bound by the load generator."""
    return [
        withheld_for(judgement, client_bound(study, (contrast.arm_id, contrast.control_id)))
        for contrast, judgement in zip(study.experiment.contrasts, judgements, strict=True)
    ]


def withheld_for(judgement: Judgement, note: str) -> Judgement:
    """The judgement, or none where there is a note of `client_bound`."""
    if judgement.verdict == "inconclusive" or not note:
        return judgement
    return replace(judgement, verdict="inconclusive", meaningful=False, withheld=True, note=note)


def _note(shares: Sequence[ClientShare], *, is_replay: bool) -> str:
    busy = max((share.busy or 0.0 for share in shares), default=0.0)
    if busy > BUSY_SHARE_MAX and is_replay:
        return (
            f"withheld: the player, which has one thread, was busy for {percent_fixed(busy)} of the time, so "
            "this measures the player, not the server; give it a processor of its own, a lower speed=, or "
            "fewer sessions, sample=50%"
        )
    if busy > BUSY_SHARE_MAX:
        return (
            f"withheld: the load generator was busy for {percent_fixed(busy)} of the time, so this "
            "measures the client, not the server; add threads= or processors, or use fewer clients"
        )
    delay = max((share.delay or 0.0 for share in shares), default=0.0)
    return (
        f"withheld: {percent_fixed(delay)} of this latency is the load generator's own delay, not the "
        f"server's; give it a processor of its own{', or a lower speed=' if is_replay else ', or threads='}"
    )


def load_warnings(study: Study) -> tuple[str, ...]:
    """Arms that did not hold their rate, and what of their figures is the client's."""
    # Rates that can't be held are tried on purpose where the highest one is looked for.
    arms = () if study.experiment.contract.metric.bound_ms else study.experiment.arms
    held = tuple(sentence for arm in arms if (sentence := _unheld(study, arm)))
    return (*held, *_own_delays(study), *_asleep(study), *_scattered(study))


def _asleep(study: Study) -> tuple[str, ...]:
    """Closed loops of too few clients to keep the processors awake, with very short transactions."""
    processors = study.experiment.environment.machine.cores_online or 0
    short: dict[str, float] = {}
    for arm in study.experiment.arms:
        load = arm.spec.workload.load
        if arm.role == "twin" or load is None or arm.spec.server is not None or load.host:
            continue
        if load.pace is not None or load.has_pauses or load.replay is not None:
            continue
        means = [each.latency_ms["mean"] for each in _loads(study, arm.id) if "mean" in each.latency_ms]
        if load.connections < processors and means and median(means) < _ASLEEP_MS_MAX:
            short[arm.name] = max(means)
    if not short:
        return ()
    names, more = list(short)[:_ARMS_SHOWN], len(short) - _ARMS_SHOWN
    where = join([*names, f"{more} more"] if more > 0 else names)
    return (
        f"With fewer clients than processors ({processors}) a processor sleeps between two messages, and "
        f"waking it may be most of the {seconds(max(short.values()) / 1e3)} of a transaction in {where}. "
        f"clients={2 * processors} or longer transactions show more of the server.",
    )


def _scattered(study: Study) -> tuple[str, ...]:
    """What would decide sooner, where a percentile scatters so much that blocks alone take very long."""
    metric, level = study.experiment.contract.metric, study.logs[0]
    if metric.latency in ("", "mean") or metric.bound_ms or study.blocks < SCATTER_BLOCKS_MIN:
        return ()
    controls = [study.columns[arm.id] for arm in study.experiment.arms if arm.role == "control"]
    # A stratum whose arms were dropped may have no complete block.
    values = [column[np.isfinite(column)] for column in (level[:, place] for place in controls)]
    spread = max((float(each.std(ddof=1)) for each in values if each.size >= SCATTER_BLOCKS_MIN), default=0.0)
    if spread < SCATTER_MIN:
        return ()
    return (
        f"The {metric.name} of the control's trials spreads by {percent_fixed(math.expm1(spread))}: longer "
        "trials (duration=), a lower percentile or a lower rate decide sooner than more blocks.",
    )


def unheld_lines(study: Study) -> tuple[str, ...]:
    """A sentence for each arm or control that did not hold its rate in half of its trials or more."""
    return tuple(
        sentence
        for arm in study.experiment.arms
        if arm.role != "twin" and (sentence := _unheld(study, arm, least_share=0.5))
    )


def _unheld(study: Study, arm: Arm, least_share: float = 0.0) -> str:
    loads = [load for load in _loads(study, arm.id) if load.open_loop is not None]
    failed = [load for load in loads if not holds_rate(load)]
    if not failed or len(failed) < least_share * len(loads):
        return ""
    opened = [load.open_loop for load in failed if load.open_loop is not None]
    due = median(each.scheduled / load.elapsed_s for each, load in zip(opened, failed, strict=True))
    done = median(load.transactions / load.elapsed_s for load in failed)
    undone = median(each.queued + each.skipped for each in opened)
    left = f", {figure(undone)} never began" if undone else ""
    name = f"the twin of {arm.name}" if arm.role == "twin" else arm.name
    where = f" at {arm.stratum}" if arm.stratum and arm.stratum not in arm.name else ""
    return (
        f"{name}{where} did not hold its rate in {len(failed)} of {plural(len(loads), 'trial')}: "
        f"{figure(due)} transactions a second were due and {figure(done)} done{left}. "
        f"Its latencies are those of a growing queue."
    )


def _own_delays(study: Study) -> tuple[str, ...]:
    metric = study.experiment.contract.metric
    # In a closed loop throughput is the number of clients divided by the mean latency.
    latency = metric.latency or ("" if metric.bound_ms else "mean")
    high: dict[str, float] = {}
    for arm in study.experiment.arms:
        is_held = any(load.open_loop is not None for load in _loads(study, arm.id))
        if not latency or arm.role == "twin" or (is_held and not metric.latency):
            continue
        share = _median_share(study, arm.id, latency).delay or 0.0
        if share > (DELAY_SHARE_TOLD if metric.latency else _THROUGHPUT_SHARE_TOLD):
            high[arm.name] = share
    if not high:
        return ()
    what = "" if metric.latency else ", and so of its throughput,"
    return (
        f"Up to {percent_fixed(max(high.values()))} of the {latency} latency of {join(list(high))}{what} is "
        "the load generator's own delay: it had no processor when a transaction was due or an answer came. "
        "All arms have it equally.",
    )


def short_trial_warnings(stored: StoredExperiment) -> tuple[str, ...]:
    """One sentence where all trials of an arm are so short; it names the arm with the fewest looks."""
    fewest: tuple[float, float, str] | None = None
    for arm in stored.experiment.arms:
        of_arm = [
            each for each in stored.trials if each.record.arm_id == arm.id and each.record.status == "ok"
        ]
        accounts = [each for trial in of_arm for each in trial_accounts(trial) if each.process == BACKEND]
        if arm.role == "twin" or not accounts:
            continue
        looks = math.fsum(each.samples for each in accounts)
        length_s = median(each.wall_s / max(each.threads, 1e-9) for each in accounts)
        if looks < LOOKS_MIN and (fewest is None or looks < fewest[0]):
            fewest = looks, length_s, arm.name
    if fewest is None:
        return ()
    looks, length_s, name = fewest
    return (
        f"Trials are too short to tell what limits the server, or by which share: {name} was measured for "
        f"{seconds(length_s)} a trial, with {plural(round(looks), 'look')} at its processes in all, where "
        f"{LOOKS_MIN} are the least: measure longer (duration=, executions=), or more data (--scale).",
    )
