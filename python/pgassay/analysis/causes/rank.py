"""Which of the rules' findings is the limit, and what the trials of an arm say together."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np
from scipy.special import stdtrit

from pgassay.analysis.accounts.work_times import WorkTimes
from pgassay.analysis.causes import registry
from pgassay.analysis.causes.base import Found, Missing, Rule
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.remote_evidence import KnownOfServer, known_of_servers, with_sql
from pgassay.analysis.causes.trial_evidence import evidence_of_trial
from pgassay.model.arm import Arm
from pgassay.model.cause import UNKNOWN, Cause
from pgassay.model.experiment import ArmCeiling
from pgassay.record.experiment import StoredExperiment, StoredTrial

# A limit explains at least this share of the time outside the queue for a processor, which others can
# lengthen; less is no answer, and neither is what is less than the second share of all of it.
LIMIT_SHARE_MIN = 0.25
_OF_ALL_MIN = 0.1
# What explains this share at least may be a limit yet, where another arm proves it.
LESSER_SHARE_MIN = 0.05
CONFIDENCE = 0.95
_LOG_GAIN_MAX = 700.0
_UNKNOWN = "Check where the time went: no rule explains a quarter of it."
_HIDDEN = "First fix the fault below, which takes a quarter of the time or more; then check again."
_UNOBSERVED = (
    "Measure where the server's processes can be observed (as root, on this machine, --observe normal)."
)
_NOT_OBSERVED = "the time of the server's processes"


@dataclass(frozen=True)
class TrialCauses:
    """One trial: its limit (None: unknown), its faults, and what rules would have had to know.

    lesser: what other limits explain, if it is something.
    """

    limit: tuple[Rule, Found] | None
    faults: tuple[tuple[Rule, Found], ...]
    missing: tuple[str, ...]
    total_s: float
    lesser: tuple[tuple[Rule, Found], ...] = ()


@dataclass(frozen=True)
class FoundCauses:
    """`causes`: of each arm its limit, then its faults. `lesser`: limits that only an arm may prove."""

    causes: tuple[Cause, ...]
    lesser: tuple[Cause, ...]


def trial_causes(evidence: Evidence) -> TrialCauses:
    """Ask every rule about one trial. The limit is what explains most; of equals the first of the table."""
    limits: list[tuple[Rule, Found]] = []
    faults: list[tuple[Rule, Found]] = []
    missing: dict[str, None] = {}
    for rule in registry.RULES:
        answer = rule.find(evidence)
        if isinstance(answer, Missing):
            missing[f"{rule.cause}: {answer.what}"] = None
        elif answer is not None:
            (limits if rule.kind == "limit" else faults).append((rule, answer))
    best = max(limits, key=lambda pair: pair[1].rank_s, default=None)
    times = evidence.times
    if best is not None and not _is_limit(times, best[1].rank_s):
        best = None
    lesser = [
        pair
        for pair in limits
        if pair is not best and times.share(pair[1].seconds or 0.0) >= LESSER_SHARE_MIN
    ]
    return TrialCauses(best, tuple(faults), tuple(missing), times.total_s, tuple(lesser))


def _is_limit(times: WorkTimes, seconds: float) -> bool:
    of_all = times.share(seconds)
    return of_all >= LIMIT_SHARE_MIN or (
        of_all >= _OF_ALL_MIN and times.share_awake(seconds) >= LIMIT_SHARE_MIN
    )


def arm_causes(stored: StoredExperiment) -> tuple[Cause, ...]:
    """Of each compared arm and control its limit, then its faults, in the plan's order."""
    return found_causes(stored).causes


def found_causes(stored: StoredExperiment) -> FoundCauses:
    """What the trials of each compared arm and control show, in the plan's order.

    The limit is the one of most trials; a fault is one of more than half of them, and so is a lesser limit.
    """
    ceilings = stored.experiment.ceilings.by_arm
    servers = known_of_servers(stored)
    causes: list[Cause] = []
    lesser: list[Cause] = []
    for arm in stored.experiment.arms:
        trials = [
            trial for trial in stored.trials if trial.record.arm_id == arm.id and trial.record.status == "ok"
        ]
        if arm.role == "twin" or not trials:
            continue
        gathered = _gathered(arm, trials, ceilings, servers)
        each = [trial_causes(evidence) for evidence in gathered]
        of_arm = _arm(arm, gathered, each)
        causes += of_arm
        named = {cause.cause for cause in of_arm}
        lesser += [
            cause for cause in _of_most(arm, each, lambda found: found.lesser) if cause.cause not in named
        ]
    return FoundCauses(tuple(causes), tuple(lesser))


def _gathered(
    arm: Arm,
    trials: Sequence[StoredTrial],
    ceilings: Mapping[str, ArmCeiling],
    servers: Mapping[str, KnownOfServer],
) -> list[Evidence]:
    found = []
    for trial in trials:
        evidence = evidence_of_trial(trial, arm, ceilings)
        if evidence is not None and arm.spec.server is not None:
            evidence = with_sql(evidence, trial, servers[arm.spec.server.name])
        found += [evidence] if evidence is not None else []
    return found


def _arm(arm: Arm, gathered: Sequence[Evidence], each: Sequence[TrialCauses]) -> list[Cause]:
    if not each:
        return [_unknown(arm, _UNOBSERVED, [_NOT_OBSERVED], 0, 0)]
    limits = [(causes.limit, causes.total_s) for causes in each]
    names = [limit[0].cause if limit else UNKNOWN for limit, _ in limits]
    # Of equally frequent ones the first of the table; unknown only where nothing is as frequent.
    order = [rule.cause for rule in registry.RULES]
    name = max(order, key=lambda cause: (names.count(cause), -order.index(cause)))
    found: list[Cause] = []
    if names.count(name) >= max(1, names.count(UNKNOWN)):
        chosen = [(limit[0], limit[1], total) for limit, total in limits if limit and limit[0].cause == name]
        found.append(_cause(arm, chosen, len(each)))
    elif all(evidence.is_unobserved for evidence in gathered):
        found.append(_unknown(arm, _UNOBSERVED, [_NOT_OBSERVED], 0, 0))
    else:
        missing = list(dict.fromkeys(words for causes in each for words in causes.missing))
        found.append(_unknown(arm, _UNKNOWN, missing, names.count(UNKNOWN), len(each)))
    found += _of_most(arm, each, lambda causes: causes.faults)
    return list(limit_with_faults(found))


def _of_most(
    arm: Arm, each: Sequence[TrialCauses], pairs: Callable[[TrialCauses], Sequence[tuple[Rule, Found]]]
) -> Iterator[Cause]:
    """What more than half of the trials have."""
    for rule in registry.RULES:
        seen = [
            (pair[0], pair[1], causes.total_s) for causes in each for pair in pairs(causes) if pair[0] is rule
        ]
        if 2 * len(seen) > len(each):
            yield _cause(arm, seen, len(each))


def limit_with_faults(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """A limit, then its faults: where one of these explains what no limit does, that is said of the limit."""
    limit, *faults = causes
    is_hidden = any((each.share or 0.0) >= LIMIT_SHARE_MIN for each in faults)
    if limit.cause == UNKNOWN and is_hidden:
        limit = limit.model_copy(update={"remedy": _HIDDEN})
    return (limit, *faults)


def _cause(arm: Arm, seen: Sequence[tuple[Rule, Found, float]], observed: int) -> Cause:
    """The trial whose share is the median stands for all that show the cause."""
    shares = [(found.seconds or 0.0) / total_s for _, found, total_s in seen]
    rule, found, total_s = seen[shares.index(median_low(shares))]
    interval = gain_interval(
        found.gain, [each.gain for _, each, _ in seen], max(each.gain_bound for _, each, _ in seen)
    )
    left_open = _hull([each.gain_range for _, each, _ in seen])
    return Cause(
        arm=arm.name,
        stratum=arm.stratum,
        kind=rule.kind,
        cause=rule.cause,
        layer=rule.layer,
        seconds=found.seconds,
        share=None if found.seconds is None else found.seconds / total_s,
        evidence=found.figures,
        gain_if_lifted=found.gain,
        gain_interval=_hull([interval, left_open]),
        gain_range=left_open,
        next_limit=found.next_limit or None,
        remedy=found.remedy or rule.remedy,
        trials=len(seen),
        observed=observed,
    )


def _hull(ends: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [each for each in ends if each is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def gain_interval(
    gain: float | None, gains: Sequence[float | None], bound: float = math.inf
) -> tuple[float, float] | None:
    """A 95 % t interval of the mean log gain of trials, which holds `gain` and ends at 1, no gain at all.

    bound: the most that another resource allows in any trial; the interval ends there.
    It tells how far trials agree; that the prediction is an upper bound, it leaves as it is. None with fewer
    than two gains, or where the trial that stands for all has none.
    """
    known = [each for each in gains if each is not None]
    if gain is None or len(known) < 2:
        return None
    logs = np.log(known)
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(known))
    reach = float(stdtrit(len(known) - 1, 0.5 + CONFIDENCE / 2)) * error
    centre = float(logs.mean())
    # Beyond this the logarithm is of no use, and nothing is bounded.
    low, high = math.exp(max(0.0, centre - reach)), math.exp(min(_LOG_GAIN_MAX, centre + reach))
    return min(low, gain), max(min(high, bound), gain)


def _unknown(arm: Arm, remedy: str, missing: Sequence[str], trials: int, observed: int) -> Cause:
    return Cause(
        arm=arm.name,
        stratum=arm.stratum,
        kind="limit",
        cause=UNKNOWN,
        layer="measurement",
        seconds=None,
        share=None,
        evidence={"not_known": "; ".join(missing)} if missing else {},
        gain_if_lifted=None,
        remedy=remedy,
        trials=trials,
        observed=observed,
    )
