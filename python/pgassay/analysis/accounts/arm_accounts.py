"""The accounts of an experiment's arms, and those of single trials."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pgassay.analysis.accounts.items import account
from pgassay.analysis.accounts.threads import BACKEND, Span, trial_times
from pgassay.analysis.accounts.times import Times, TrialTimes
from pgassay.errors import UsageError
from pgassay.model.account import Account, ArmAccounts
from pgassay.model.arm import Arm
from pgassay.model.trial import TrialRecord
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment, StoredTrial

# The order of the accounts; kinds that are not named come after these.
_ORDER = (BACKEND, "parallel worker", "io worker", "io_uring worker")
# Sessions of pgassay's own.
_LEFT_OUT = frozenset({"pgassay"})


def arm_accounts(stored: StoredExperiment) -> tuple[ArmAccounts, ...]:
    """One per compared arm and control that has observed trials, in the plan's order."""
    found = []
    for arm in stored.experiment.arms:
        trials = [
            trial for trial in stored.trials if trial.record.arm_id == arm.id and trial.record.status == "ok"
        ]
        if arm.role != "twin" and trials:
            made = _arm(arm, trials)
            found += [made] if made else []
    return tuple(found)


def _arm(arm: Arm, trials: Sequence[StoredTrial]) -> ArmAccounts | None:
    pairs = [(trial.record, times) for trial in trials if (times := times_of(trial)) is not None]
    if not pairs:
        return None
    count = len(pairs)
    kinds: dict[str, Times] = {}
    for _, times in pairs:
        for kind, part in times.kinds.items():
            kinds.setdefault(kind, Times()).add(part)
    measured_s = sum(times.measured_s for _, times in pairs)
    loads = [record.load.transactions for record, _ in pairs if record.load is not None]
    return ArmAccounts(
        arm=arm.name,
        stratum=arm.stratum,
        trials=count,
        measured_s=measured_s / count,
        transactions=sum(loads) / len(loads) if loads else None,
        accounts=_accounts(kinds, count, measured_s, _client_cpu_s([times for _, times in pairs])),
    )


def trial_accounts(trial: StoredTrial) -> tuple[Account, ...]:
    """The accounts of one trial by kind of thread; () when it was not observed."""
    times = times_of(trial)
    if times is None:
        return ()
    return _accounts(times.kinds, 1, times.measured_s, _client_cpu_s([times]))


def connection_accounts(trial: StoredTrial) -> dict[int, Account]:
    """The account of each connection of one trial, by the process that served it."""
    times = times_of(trial)
    if times is None:
        return {}
    return {pid: account(BACKEND, part, 1, times.measured_s) for pid, part in times.connections.items()}


def times_of(trial: StoredTrial) -> TrialTimes | None:
    """What was observed of a trial's threads within its measured parts; None when nothing was."""
    return _times(trial.folder, trial.record.started_at, RecordKey(trial.record))


class RecordKey:
    """A record as an argument of a cached function: a trial's folder never changes once it is written."""

    def __init__(self, record: TrialRecord) -> None:
        self.record = record

    def __hash__(self) -> int:
        return hash((self.record.number, self.record.attempt))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordKey) and self.record == other.record


@lru_cache(maxsize=4096)
def _times(folder: Path, _started_at: str, key: RecordKey) -> TrialTimes | None:
    record = key.record
    spans = measured_spans(record)
    try:
        threads = observations.columns(folder, "threads") if spans else None
        waits = observations.columns(folder, "waits") if spans else None
    except UsageError:
        # A damaged file costs this trial's account; its verdict does not rest on it.
        return None
    if not threads:
        return None
    observer = record.facts.observer
    times = trial_times(threads, waits or {}, spans, float(observer.rate_hz or 0.0))
    return TrialTimes(
        measured_s=times.measured_s,
        kinds=times.kinds,
        connections=times.connections,
        client_cpu_s=record.load.client_cpu_s if record.load else None,
        over_network=observer.over == "tcp",
    )


def measured_spans(record: TrialRecord) -> list[Span]:
    """The parts of a trial that count: each statement, or the interval of a load or a mix."""
    marked = [Span(*statement.clock_ns, True) for statement in record.statements if statement.clock_ns]
    if marked or record.clock_ns is None or not (record.load or record.is_mix):
        return marked
    return [Span(*record.clock_ns, False)]


def _client_cpu_s(trials: Sequence[TrialTimes]) -> float | None:
    """The client's CPU time where a network lies between it and the server."""
    known = [times.client_cpu_s for times in trials if times.over_network and times.client_cpu_s is not None]
    return sum(known) if len(known) == len(trials) else None


def _accounts(
    kinds: dict[str, Times], trials: int, measured_s: float, client_cpu_s: float | None
) -> tuple[Account, ...]:
    names = [*(name for name in _ORDER if name in kinds), *sorted(set(kinds) - set(_ORDER) - _LEFT_OUT)]
    return tuple(
        account(
            name,
            kinds[name],
            trials,
            measured_s,
            client_cpu_s=client_cpu_s if name == BACKEND else None,
        )
        for name in names
    )
