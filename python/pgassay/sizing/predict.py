"""What a group's workload would take on any model, from its recordings.

The trace of the slowest recording is replayed: there most is on its way at once, so it shows best what
waited for what. Commits that wait together for one write of the log don't show there, so a workload of such
writes is replayed from the fastest. What a slow one can't show either is computing that was hidden behind
the volume's answers, as that of a look-ahead is: so no prediction is below what was measured on the fastest.

Of a load whose transactions share writes of the log, each commit is a wait of its own. How long it takes to
write what waits, once the write before is done, is taken from the slowest recording: there somebody waits
nearly always. So is the chance that a transaction needs a lock of another one: there nearly all of the time
in which a lock is held is waiting for the log.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.volumes.offer import VolumeModel
from pgassay.model.volumes.size import Check, Recording
from pgassay.native.process import StatementError
from pgassay.native.simulate import BesideSpec, RecordedFacts, Simulated, replay
from pgassay.sizing.captured_traffic import CapturedTraffic, LimitUse
from pgassay.sizing.load_progress import seconds_per_unit
from pgassay.sizing.recordings import MeasuredRecording, RecordingGroup
from pgassay.sizing.server_volumes import Attached

SEED = 1
# A limit lets through at once what flows in within this time, as the model has it.
_AT_ONCE_S = 0.01
# What the native code says of a trace without requests.
_NOTHING = "there are no requests"


class NothingAskedError(UsageError):
    """A recording holds no request, so that no volume is any faster than another."""


@dataclass(frozen=True)
class Predicted:
    """What a unit would take on a volume, and when burst credits ended on it (None where they lasted).

    `credits_last_s`: how long the first of them last if the workload goes on as it was recorded; None where
    none are used up. `unserved_share`: of what was asked for, what the volume did not get done in that time:
    writes that nobody waits for pile up on it. 0 where the WAL has a volume of its own.
    """

    seconds_per_unit: float
    credits_ended_s: float | None
    credits_last_s: float | None = None
    unserved_share: float = 0.0


class Predictor:
    """Replays the recordings of a group.

    Raises UsageError for a trace that can't be read, MeasurementError where the native process ended.
    """

    def __init__(self, group: RecordingGroup) -> None:
        self.group = group
        by_storage = groupby(
            sorted(group.recordings, key=lambda each: each.storage), key=lambda each: each.storage
        )
        self._middle = _replayable([_middle(list(each)) for _, each in by_storage])
        self._fastest = min(self._middle, key=lambda each: each.trial.seconds_per_unit)
        slowest = max(self._middle, key=lambda each: each.trial.seconds_per_unit)
        self._base = self._fastest if _is_of_logs(slowest.facts) else slowest
        self.base = self._base.trial
        self.floor_s = self._fastest.trial.seconds_per_unit if len(self._middle) > 1 else None
        self._traffic = None
        if group.unit == "statement":
            self._traffic = CapturedTraffic([(each.trial, each.facts) for each in self._middle])

    def predict(self, volumes: Sequence[Attached]) -> list[Predicted]:
        """What a unit would take on each of them, in their order.

        They have a volume for the WAL where the group has recordings of it.
        """
        documents = [(each.data.model_dump(mode="json"), each.beside) for each in volumes]
        answers = _replayed(self._base.trial, documents)[1]
        if (traffic := self._traffic) is not None:
            times = [traffic.time(each, answer) for each, answer in zip(volumes, answers, strict=True)]
            return [
                Predicted(each.seconds_per_unit, each.credits_ended_s, each.credits_last_s) for each in times
            ]
        has_floor = self.floor_s is not None
        return [
            Predicted(
                self._seconds_per_unit(self._base, answer, has_floor=has_floor),
                _ended_s(answer),
                _last_s(attached, answer),
                _unserved_share(attached, answer),
            )
            for attached, answer in zip(volumes, answers, strict=True)
        ]

    def _seconds_per_unit(self, recorded: "_Replayable", answer: Simulated, *, has_floor: bool) -> float:
        others = [
            (each.trial, each.facts)
            for each in self._middle
            if each is not recorded and not _is_of_logs(each.facts)
        ]
        # How many units share a write of a log is a matter of the volume.
        further = None if _is_of_logs(recorded.facts) else max(others, key=_units, default=None)
        floor = self._fastest.trial if has_floor else None
        return seconds_per_unit(recorded.trial, recorded.facts, answer, floor, further)

    def recordings(self) -> tuple[Recording, ...]:
        """Every recording with what is inferred of it."""
        ordered = sorted(self._middle, key=lambda each: each is not self._base)
        is_line = self._traffic is not None
        return tuple(_told(each.trial, each.facts, is_used=is_line or each is self._base) for each in ordered)

    def checks(self) -> tuple[Check, ...]:
        """Predictions beside measurements: from each recording of every other volume that was measured.

        None is of the volume on which its trace was recorded.
        """
        # Volumes of the WAL that were not imitated have no model.
        storages = sorted(
            {
                each.storage
                for each in self.group.measured
                if (each.wal_model is not None) == self.group.has_wal
            }
        )
        of_storage = {
            storage: [each for each in self.group.measured if each.storage == storage] for storage in storages
        }
        if self._traffic is not None:
            return self._checks_of_traffic(of_storage)
        found = []
        for recorded in self._middle:
            others = [storage for storage in storages if storage != recorded.trial.storage]
            imitated = [(of_storage[storage][0].model, of_storage[storage][0].beside) for storage in others]
            answers = _replayed(recorded.trial, imitated)[1]
            for storage, answer in zip(others, answers, strict=True):
                is_base = recorded is self._base
                # The floor was measured on this very volume: it would say that the prediction is right.
                is_floor = self.floor_s is not None and storage == self._fastest.trial.storage
                is_fair = is_base and not is_floor
                has_floor = is_fair and self.floor_s is not None
                predicted_s = self._seconds_per_unit(recorded, answer, has_floor=has_floor)
                measured_s = median(each.seconds_per_unit for each in of_storage[storage])
                found.append(
                    Check(
                        recorded_on=recorded.trial.storage,
                        storage=storage,
                        predicted_s=predicted_s,
                        measured_s=measured_s,
                        ratio=predicted_s / measured_s,
                        trials=len(of_storage[storage]),
                        is_fair=is_fair,
                    )
                )
        return tuple(sorted(found, key=lambda check: not check.is_fair))

    def _checks_of_traffic(self, of_storage: Mapping[str, Sequence[MeasuredRecording]]) -> tuple[Check, ...]:
        """As `checks`, of what was measured beside the two recordings between which times are predicted."""
        recorded = {each.trial.storage for each in self._middle}
        others = {storage: trials for storage, trials in of_storage.items() if storage not in recorded}
        models = [VolumeModel.model_validate(trials[0].model) for trials in others.values()]
        predicted = self.predict([Attached(each) for each in models])
        return tuple(
            Check(
                recorded_on=" and ".join(sorted(recorded)),
                storage=storage,
                predicted_s=one.seconds_per_unit,
                measured_s=(measured_s := median(each.seconds_per_unit for each in trials)),
                ratio=one.seconds_per_unit / measured_s,
                trials=len(trials),
                is_fair=True,
            )
            for (storage, trials), one in zip(others.items(), predicted, strict=True)
        )


@dataclass(frozen=True)
class _Replayable:
    """A recording with what is inferred of it."""

    trial: MeasuredRecording
    facts: RecordedFacts


def _replayable(trials: Sequence[MeasuredRecording]) -> list[_Replayable]:
    found = [_with_commits(trial) for trial in trials]
    slowest = max(found, key=lambda each: each.trial.seconds_per_unit)
    if not slowest.trial.commits:
        return found
    known_ns, lock_chance = round(slowest.facts["passing_on_us"] * 1e3), slowest.facts["lock_chance"]
    others = [
        replace(each.trial, passing_on_ns=known_ns, lock_chance=lock_chance)
        for each in found
        if each is not slowest
    ]
    return [slowest, *(_Replayable(trial, _replayed(trial, [])[0]) for trial in others)]


def _with_commits(trial: MeasuredRecording) -> _Replayable:
    """The same with what is known of commits, where each transaction may have waited for a write of the log.

    A write is shared by no more commits than there are clients: where it would be, not all wait for it.
    """
    facts = _replayed(trial, [])[0]
    transactions = round(trial.progress[-1][1]) if trial.progress else 0
    if not facts["log_writes"] < transactions <= facts["log_writes"] * trial.clients:
        return _Replayable(trial, facts)
    trial = replace(trial, commits=transactions)
    return _Replayable(trial, _replayed(trial, [])[0])


def _units(recorded: tuple[MeasuredRecording, RecordedFacts]) -> float:
    progress = recorded[0].progress
    return progress[-1][1] if progress else 0.0


def _is_of_logs(facts: RecordedFacts) -> bool:
    return facts["log_writes"] > facts["reads"]


def _middle(trials: Sequence[MeasuredRecording]) -> MeasuredRecording:
    """The trial in the middle; of two the faster, as what else runs on a machine makes a trial slower."""
    ordered = sorted(trials, key=lambda each: each.seconds_per_unit)
    return ordered[(len(ordered) - 1) // 2]


def _replayed(
    trial: MeasuredRecording, volumes: Sequence[tuple[Mapping[str, object], BesideSpec | None]]
) -> tuple[RecordedFacts, list[Simulated]]:
    """What was inferred, and the answers of these volumes: of the data's, and what is beside it."""
    beside = [each for _, each in volumes if each is not None]
    try:
        return replay(
            [data for data, _ in volumes],
            trial.recorded(),
            beside=beside,
            seed=SEED,
            threads=os.cpu_count() or 1,
        )
    except StatementError as error:
        if _NOTHING in str(error):
            raise NothingAskedError(
                f"{error}: if everything is in memory, every volume is equally fast. Record it with --cache "
                "cold, or with data that are larger than memory"
            ) from error
        raise UsageError(f"{error}: record it again") from error
    except MeasurementError as error:
        raise MeasurementError(f"The trace {trial.trace} could not be replayed ({error}).") from error


def _ended_s(answer: Simulated) -> float | None:
    ended = [credits["ended_s"] for credits in answer["credits"] if credits["ended_s"] is not None]
    return min(ended, default=None)


def _last_s(volumes: Attached, answer: Simulated) -> float | None:
    """Credits fall as fast as they did in the replay: what is longer than a recording is a straight line."""
    if (ended_s := _ended_s(answer)) is not None:
        return ended_s
    used = [
        (fill, fill - credits["left"])
        for fill, credits in zip(volumes.credits, answer["credits"], strict=True)
    ]
    return min((answer["elapsed_s"] * fill / gone for fill, gone in used if gone > 0), default=None)


def _unserved_share(volumes: Attached, answer: Simulated) -> float:
    """By how much more was asked of a limit than it lets through in the time that the replay took."""
    model = volumes.data
    if volumes.wal is not None:
        return 0.0
    found = 0.0
    for limiter in model.limiters:
        use = LimitUse.of(limiter, model, answer)
        given = use.rate * (answer["elapsed_s"] + _AT_ONCE_S) + use.fill
        found = max(found, 1 - given / use.asked if use.asked > given else 0.0)
    return found


def _told(trial: MeasuredRecording, facts: RecordedFacts, *, is_used: bool) -> Recording:
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
