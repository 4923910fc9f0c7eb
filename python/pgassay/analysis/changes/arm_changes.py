"""The changes within an experiment's trials, matched to what happened then.

A match is a coincidence in time and nothing more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from scipy.special import bdtrc

from pgassay.analysis.changes.events import trial_events
from pgassay.analysis.changes.rate_series import RateSeries, by_second
from pgassay.analysis.statistics.change_points import (
    LEVEL,
    STRICT_LEVEL,
    ChangePoint,
    change_points,
    correlation_bound,
)
from pgassay.model.arm import Arm
from pgassay.model.changes import (
    ArmChanges,
    Change,
    ChangedSeries,
    Coincidence,
    Event,
    Moment,
    Relation,
    SeriesName,
)
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import Counters
from pgassay.record.experiment import StoredExperiment, StoredTrial

# A shorter trial has too few seconds to tell a change from its noise.
SECONDS_MIN = 12
# A change of less than a tenth is not worth a sentence, nor is one of less than this at a device (MB/s).
_RATIO_MIN = 1.1
_DEVICE_MB_S_MIN = 1.0
# A change is known to the second, and placed up to a second wrong in noise.
_NEAR_S = 2.0
_COINCIDENCES_MAX = 4
# A worker that was done sooner with a table is told of only where its trial is drawn.
_AUTOVACUUM_S_MIN = 0.1
_ORDER: tuple[SeriesName, ...] = get_args(SeriesName)


@dataclass(frozen=True)
class _TrialChanges:
    trial: StoredTrial
    changes: tuple[Change, ...]
    looked_at: frozenset[SeriesName]

    def size(self) -> float:
        return max((_size(change.before, change.after) for change in self.changes), default=0.0)


def arm_changes(stored: StoredExperiment) -> tuple[ArmChanges, ...]:
    """One for each arm (the twin too) with a series that changed in more trials than chance makes it.

    Of arms in which nothing changed, at most one in twenty is told of: an arm's series share that chance, and
    for each the binomial distribution says how many trials are too many (`is_more_than_chance`).
    """
    ceilings = stored.experiment.ceilings.by_arm
    found = []
    for arm in stored.experiment.arms:
        looked = _looked_at(
            [
                trial
                for trial in stored.trials
                if trial.record.arm_id == arm.id and trial.record.status == "ok" and _is_long(trial)
            ]
        )
        made = _arm(arm, looked, ceilings.get(arm.name))
        found += [made] if made is not None else []
    return tuple(found)


def is_more_than_chance(changed: int, trials: int, series: int) -> bool:
    """Whether so many of an arm's trials with a change of one series are more than chance makes them.

    series: how many of the arm's are looked at; LEVEL is shared by them. By chance a trial shows a change
    with the probability `trial_level`.
    """
    # P(X ≥ changed) of a binomial X.
    return changed > 0 and float(bdtrc(changed - 1, trials, trial_level(trials))) <= LEVEL / series + 1e-12


def trial_level(trials: int) -> float:
    """How often one of so many trials may show a change by chance: seldom, where one is all there is."""
    return LEVEL if trials > 1 else STRICT_LEVEL


def _looked_at(trials: Sequence[StoredTrial], level: float | None = None) -> list[_TrialChanges]:
    """Each trial's changes, where all trials tell how much neighbouring seconds resemble each other."""
    by_trial = [[each for each in by_second(trial) if _can_tell(each)] for trial in trials]
    bounds = {
        name: correlation_bound([each.values for found in by_trial for each in found if each.name == name])
        for name in _ORDER
    }
    each_level = level or trial_level(len(trials))
    return [
        _TrialChanges(trial, _changes(found, bounds, each_level), frozenset(each.name for each in found))
        for trial, found in zip(trials, by_trial, strict=True)
    ]


def _can_tell(series: RateSeries) -> bool:
    """Whether it is long enough and moves at all: nothing is read from the device of data in memory."""
    return len(series.values) >= SECONDS_MIN and len(set(series.values)) > 1


def _is_long(trial: StoredTrial) -> bool:
    clock_ns, load = trial.record.clock_ns, trial.record.load
    seconds = (clock_ns[1] - clock_ns[0]) / 1e9 if clock_ns else 0.0
    return max(seconds, len(load.per_second) if load else 0.0) >= SECONDS_MIN


class _Key:
    """A trial as an argument of a cached function: its folder never changes once it is written."""

    def __init__(self, trial: StoredTrial) -> None:
        self.trial = trial

    def __hash__(self) -> int:
        return hash((self.trial.folder, self.trial.record.started_at))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.trial.record == other.trial.record


def trial_changes(trial: StoredTrial) -> _TrialChanges:
    """The changes of one trial's series that are worth telling, in the order of time."""
    return _trial_changes(_Key(trial))


@lru_cache(maxsize=4096)
def _trial_changes(key: _Key) -> _TrialChanges:
    return _looked_at([key.trial], LEVEL)[0]


def _changes(
    found: Sequence[RateSeries], bounds: Mapping[SeriesName, float], level: float
) -> tuple[Change, ...]:
    changes = [
        Change(
            series=series.name,
            unit=series.unit,
            at_s=float(point.index),
            before=point.before,
            after=point.after,
        )
        for series in found
        for point in change_points(series.values, correlation=bounds[series.name], level=level)
        if _is_worth(series, point)
    ]
    changes.sort(key=lambda change: (change.at_s, _ORDER.index(change.series)))
    return tuple(changes)


def _is_worth(series: RateSeries, point: ChangePoint) -> bool:
    if series.unit == "MB/s" and max(point.before, point.after) < _DEVICE_MB_S_MIN:
        return False
    return _size(point.before, point.after) >= _RATIO_MIN


def _size(before: float, after: float) -> float:
    """How many times as much, or as little."""
    small, large = sorted((before, after))
    return large / small if small > 0 else float("inf")


def _arm(arm: Arm, looked: Sequence[_TrialChanges], ceiling: ArmCeiling | None) -> ArmChanges | None:
    asked = [name for name in _ORDER if any(name in each.looked_at for each in looked)]
    counts = {
        name: sum(1 for each in looked if any(change.series == name for change in each.changes))
        for name in asked
    }
    frequent = {
        name: count for name, count in counts.items() if is_more_than_chance(count, len(looked), len(asked))
    }
    if not frequent:
        return None
    kept = [_only(each, set(frequent)) for each in looked]
    # The trial whose greatest change is of middle size stands for all.
    changed = sorted((each for each in kept if each.changes), key=_TrialChanges.size)
    shown = changed[(len(changed) - 1) // 2]
    events = trial_events(shown.trial, ceiling, shares_ceiling=arm.spec.storage.shares_ceiling)
    return ArmChanges(
        arm=arm.name,
        stratum=arm.stratum,
        role=arm.role,
        observed=len(looked),
        changed=tuple(ChangedSeries(series=name, trials=count) for name, count in frequent.items()),
        number=shown.trial.record.number,
        moments=moments(shown.changes, events),
        checkpoints_untimed=_checkpoints(shown.trial)
        if not any(_is_checkpoint(each) for each in events)
        else 0,
    )


def _is_checkpoint(event: Event) -> bool:
    return event.kind == "checkpoint"


def _checkpoints(trial: StoredTrial) -> int:
    """How many the server counted (pg_stat_checkpointer, until 16 pg_stat_bgwriter)."""
    names = ("num_timed", "num_requested", "checkpoints_timed", "checkpoints_req")
    counters = Counters(trial.record.counters)
    views = ("pg_stat_checkpointer", "pg_stat_bgwriter")
    return round(sum(counters.total(view, *names) or 0.0 for view in views))


def _only(each: _TrialChanges, names: set[str]) -> _TrialChanges:
    changes = tuple(change for change in each.changes if change.series in names)
    return _TrialChanges(each.trial, changes, each.looked_at)


def moments(changes: Sequence[Change], events: Sequence[Event]) -> tuple[Moment, ...]:
    """Changes near each other as one moment, with the events near it. changes: ascending in time."""
    groups: list[list[Change]] = []
    for change in changes:
        if groups and change.at_s - groups[-1][0].at_s <= _NEAR_S:
            groups[-1].append(change)
        else:
            groups.append([change])
    return tuple(
        Moment(at_s=group[0].at_s, changes=tuple(group), meanwhile=_near(group, events)) for group in groups
    )


def _near(group: Sequence[Change], events: Sequence[Event]) -> tuple[Coincidence, ...]:
    """What began, ended or happened nearest to the changes, and what was under way; ascending in time."""
    first_s, last_s = group[0].at_s, group[-1].at_s
    # Distance from the changes, when, what: what was under way comes after all that is near.
    ranked: list[tuple[float, float, Coincidence]] = []
    for event in events:
        if _is_minor(event):
            continue
        for edge_s, relation in _edges(event):
            distance_s = max(first_s - edge_s, edge_s - last_s, 0.0)
            if distance_s <= _NEAR_S:
                ranked.append((distance_s, edge_s, Coincidence(relation=relation, event=event)))
                break
        else:
            if _is_under_way(event, first_s, last_s):
                ranked.append((2 * _NEAR_S, last_s, Coincidence(relation="under way", event=event)))
    nearest = sorted(ranked, key=lambda each: each[0])[:_COINCIDENCES_MAX]
    return tuple(each[2] for each in sorted(nearest, key=lambda each: each[1]))


def _is_minor(event: Event) -> bool:
    if event.kind != "autovacuum" or event.began_s is None or event.ended_s is None:
        return False
    return event.ended_s - event.began_s < _AUTOVACUUM_S_MIN


def _edges(event: Event) -> list[tuple[float, Relation]]:
    if event.began_s is not None and event.is_moment:
        return [(event.began_s, "at")]
    edges: list[tuple[float, Relation]] = []
    if event.began_s is not None:
        edges.append((event.began_s, "began"))
    if event.ended_s is not None:
        edges.append((event.ended_s, "ended"))
    return edges


def _is_under_way(event: Event, first_s: float, last_s: float) -> bool:
    """What the record does not give the start or the end of lasted from before or until after it."""
    if event.kind == "statement" or event.is_moment:
        return False
    return (event.began_s is None or event.began_s < first_s) and (
        event.ended_s is None or event.ended_s > last_s
    )
