"""Which trials are drawn over time: of each arm the one nearest to its median."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pgassay.analysis.changes.timeline import Timeline, timeline
from pgassay.analysis.verdicts.blocks import contract_measure
from pgassay.errors import UsageError
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.text import clean

# Each is as large as all other drawings of a page together.
_ARMS_MAX = 4
_READ = ("device", "volume", "wal_volume", "host_cpu", "threads", "waits", "control_group")


@dataclass(frozen=True)
class ArmTimeline:
    """The trial that stands for an arm; `trials` is how many valid ones it was chosen from."""

    group: str
    trials: int
    shown: Timeline


def arm_timelines(stored: StoredExperiment, damaged: list[str]) -> tuple[str, tuple[ArmTimeline, ...]]:
    """The stratum that they are of, '' when they are of all, and the timelines in the plan's order.

    A twin is its control again and has none. `damaged` gets a sentence for each file that can't be read.
    """
    arms = [arm for arm in stored.experiment.arms if arm.role != "twin"]
    stratum = ""
    if len(arms) > _ARMS_MAX:
        stratum = arms[0].stratum
        arms = [arm for arm in arms if arm.stratum == stratum][:_ARMS_MAX]
    factors = compared_factors(stored.experiment.arms)
    ceilings = stored.experiment.ceilings.by_arm
    found = []
    for arm in arms:
        trials = [
            trial for trial in stored.trials if trial.record.arm_id == arm.id and trial.record.status == "ok"
        ]
        trial = typical_trial(stored, trials)
        if trial is None:
            continue
        damaged += _unreadable(trial)
        shown = timeline(trial, ceilings.get(arm.name), shares_ceiling=arm.spec.storage.shares_ceiling)
        name = short_name(arm, factors)
        if arm.stratum and not stratum:
            name = f"{name} at {clean(arm.stratum)}"
        found += [ArmTimeline(name, len(trials), shown)] if shown is not None else []
    return clean(stratum), tuple(found)


def typical_trial(stored: StoredExperiment, trials: Sequence[StoredTrial]) -> StoredTrial | None:
    """The trial whose metric is nearest to the median of all; None without any."""
    measure = contract_measure(stored.experiment.contract)
    known = [(value, trial) for trial in trials if (value := measure.value(trial.record)) is not None]
    if not known:
        return None
    middle = median(value for value, _ in known)
    return min(known, key=lambda pair: abs(pair[0] - middle))[1]


def _unreadable(trial: StoredTrial) -> list[str]:
    sentences = []
    for name in _READ:
        try:
            observations.columns(trial.folder, name)
        except UsageError as error:
            sentences.append(str(error))
    return sentences
