"""What a group's workload would take on any model, from its recordings.

The trace of the slowest recording is replayed: there most is on its way at once, so it shows best what
waited for what. Commits that wait together for one write of the log don't show there, so a workload of such
writes is replayed from the fastest. What a slow one can't show either is computing that was hidden behind
the volume's answers, as that of a look-ahead is: so no prediction is below what was measured on the fastest.

A load is asked how many units it does in its time, from its warm-up on: caches that fill make later units
cheaper, so units are compared that were done after equally many before them.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.volumes.offer import VolumeModel
from pgassay.model.volumes.size import Check, Recording
from pgassay.native.process import StatementError
from pgassay.native.simulate import RecordedFacts, Simulated, replay
from pgassay.sizing.recordings import Group, Measured

# Of one storage, the trial in the middle is replayed.
SEED = 1


@dataclass(frozen=True)
class Predicted:
    """What a unit would take on a volume, and when burst credits ended on it (None where they lasted)."""

    seconds_per_unit: float
    credits_ended_s: float | None


class Predictor:
    """Replays the recordings of a group.

    Raises UsageError for a trace that can't be read, MeasurementError where the native process ended.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        by_storage = groupby(
            sorted(group.recordings, key=lambda each: each.storage), key=lambda each: each.storage
        )
        self._middle = [_middle(list(each)) for _, each in by_storage]
        self._fastest = min(self._middle, key=lambda each: each.seconds_per_unit)
        slowest = max(self._middle, key=lambda each: each.seconds_per_unit)
        self.base = self._fastest if _is_of_logs(_replayed(slowest, [])[0]) else slowest
        self.floor_s = self._fastest.seconds_per_unit if len(self._middle) > 1 else None

    def predict(self, models: Sequence[VolumeModel]) -> list[Predicted]:
        """What a unit would take on each model, in their order."""
        documents = [model.model_dump(mode="json") for model in models]
        answers = _replayed(self.base, documents)[1]
        floor = None if self.floor_s is None else self._fastest
        return [
            Predicted(_seconds_per_unit(self.base, answer, floor), _ended_s(answer)) for answer in answers
        ]

    def recordings(self) -> tuple[Recording, ...]:
        """Every recording with what is inferred of it."""
        ordered = sorted(self._middle, key=lambda each: each is not self.base)
        return tuple(_told(each, _replayed(each, [])[0], is_used=each is self.base) for each in ordered)

    def checks(self) -> tuple[Check, ...]:
        """Predictions beside measurements: from each recording of every other volume that was measured.

        None is of the volume on which its trace was recorded.
        """
        storages = sorted({each.storage for each in self.group.measured})
        of_storage = {
            storage: [each for each in self.group.measured if each.storage == storage] for storage in storages
        }
        found = []
        for recorded in self._middle:
            others = [storage for storage in storages if storage != recorded.storage]
            answers = _replayed(recorded, [of_storage[storage][0].model for storage in others])[1]
            for storage, answer in zip(others, answers, strict=True):
                is_base = recorded is self.base
                # The floor was measured on this very volume: it would say that the prediction is right.
                is_floor = self.floor_s is not None and storage == self._fastest.storage
                is_fair = is_base and not is_floor
                floor = self._fastest if is_fair and self.floor_s is not None else None
                predicted_s = _seconds_per_unit(recorded, answer, floor)
                measured_s = median(each.seconds_per_unit for each in of_storage[storage])
                found.append(
                    Check(
                        recorded_on=recorded.storage,
                        storage=storage,
                        predicted_s=predicted_s,
                        measured_s=measured_s,
                        ratio=predicted_s / measured_s,
                        trials=len(of_storage[storage]),
                        is_fair=is_fair,
                    )
                )
        return tuple(sorted(found, key=lambda check: not check.is_fair))


def _seconds_per_unit(recorded: Measured, answer: Simulated, floor: Measured | None) -> float:
    """What a unit takes by a replay of this recording, and no less than on `floor`."""
    if not recorded.progress:
        alone_s = answer["elapsed_s"] / recorded.units
        return alone_s if floor is None else max(alone_s, floor.seconds_per_unit)
    since_s, units = (np.array(column) for column in zip(*recorded.progress, strict=True))
    milestones_s = np.array(answer["milestones_s"])
    recorded_s = np.linspace(0.0, since_s[-1], len(milestones_s))
    by_milestone = np.interp(recorded_s, since_s, units)
    from_s, until_s = since_s[-1] - recorded.elapsed_s, since_s[-1]

    def done_by(at_s: float) -> float:
        done = float(np.interp(at_s, milestones_s, by_milestone))
        if at_s > milestones_s[-1]:
            # A faster volume gets further than the recording: it goes on as that ended.
            quarter = len(milestones_s) // 4
            took_s = max(milestones_s[-1] - milestones_s[-1 - quarter], 1e-9)
            done += (at_s - milestones_s[-1]) * (by_milestone[-1] - by_milestone[-1 - quarter]) / took_s
        if floor is not None:
            floor_s, floor_units = zip(*floor.progress, strict=True)
            done = min(done, float(np.interp(at_s, floor_s, floor_units)))
        return done

    done = done_by(until_s) - done_by(from_s)
    return float(milestones_s[-1] / units[-1]) if done <= 0 else recorded.elapsed_s / done


def _is_of_logs(facts: RecordedFacts) -> bool:
    return facts["log_writes"] > facts["reads"]


def _middle(trials: Sequence[Measured]) -> Measured:
    ordered = sorted(trials, key=lambda each: each.seconds_per_unit)
    return ordered[len(ordered) // 2]


def _replayed(
    trial: Measured, models: Sequence[Mapping[str, object]]
) -> tuple[RecordedFacts, list[Simulated]]:
    try:
        return replay(models, trial.recorded(), seed=SEED, threads=os.cpu_count() or 1)
    except StatementError as error:
        raise UsageError(f"{error}: record it again") from error
    except MeasurementError as error:
        raise MeasurementError(f"The trace {trial.trace} could not be replayed ({error}).") from error


def _ended_s(answer: Simulated) -> float | None:
    ended = [credits["ended_s"] for credits in answer["credits"] if credits["ended_s"] is not None]
    return min(ended, default=None)


def _told(trial: Measured, facts: RecordedFacts, *, is_used: bool) -> Recording:
    return Recording(
        trial=trial.trial,
        attempt=trial.attempt,
        storage=trial.storage,
        elapsed_s=trial.elapsed_s,
        units=trial.units,
        seconds_per_unit=trial.seconds_per_unit,
        reads=facts["reads"],
        writes=facts["writes"],
        flushes=facts["flushes"],
        bytes=facts["bytes"],
        lanes=facts["lanes"],
        computing_s=facts["computing_s"],
        processors=trial.processors,
        write_back=facts["write_back"],
        log_writes=facts["log_writes"],
        lost=facts["lost"],
        is_complete=facts["is_complete"],
        is_used=is_used,
    )
