"""Which items of the time account moved between an arm and its control, and by how much.

The items are a fixed list, so that what is told is not picked by what was seen. Each has a confidence
sequence from the same evidence as the verdicts (`analysis/statistics/eprocess.py`), which needs no more than
that the members of a block could have changed places: seconds are as good as logarithms once they are divided
by the typical time of the first block. All items of all comparisons share α.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.accounts.arm_accounts import trial_accounts
from pgassay.analysis.accounts.work_times import WRITE_SIDE, WorkTimes, work_times
from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.study import Study
from pgassay.model.account import Account
from pgassay.model.cause import Explanation, MovedItem
from pgassay.record.experiment import StoredExperiment, StoredTrial

CONNECTIONS = "connections"
# The items of connections and their parallel workers. Writes: of pages and files, of the status of
# transactions, for room in the buffers of WAL, and for checkpoints.
_OF_CONNECTIONS: Mapping[str, Callable[[WorkTimes], float]] = {
    "on CPU": lambda times: times.cpu_s,
    "waiting for a CPU": lambda times: times.runnable_s,
    "waiting for reads": lambda times: times.read_s,
    "waiting for temporary files": lambda times: times.temporary_s,
    "waiting for WAL": lambda times: times.wal_s,
    "waiting for writes": lambda times: sum(map(times.written_s, WRITE_SIDE)),
    "waiting for rows": lambda times: times.row_lock_s,
    "waiting for other locks": lambda times: times.lock_s,
    "waiting for LWLocks": lambda times: times.lwlock_s,
    "waiting for standbys": lambda times: times.standby_s,
    "waiting for the client": lambda times: times.client_s,
    "sending and receiving": lambda times: times.network_s,
}
# Whoever reads for the connections, and the event in which it has nothing to do.
_HELPERS: Mapping[str, str] = {"io worker": "I/O workers", "io_uring worker": "io_uring's kernel workers"}
_IDLE = "IoWorkerMain"
ITEMS: tuple[tuple[str, str], ...] = (
    *((CONNECTIONS, item) for item in _OF_CONNECTIONS),
    *((name, item) for name in _HELPERS.values() for item in ("on CPU", "waiting")),
)


@dataclass(frozen=True)
class Moved:
    """Seconds per item, comparison: estimates and the ends of their intervals, shape (items, contrasts)."""

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray


def explanations(stored: StoredExperiment, study: Study) -> tuple[Explanation, ...]:
    """One for each comparison of which at least one item moved; () where not every trial was observed.

    () as well where arms share a start: an account is of one execution then, and the first pays for caches.
    """
    if study.counts_starts:
        return ()
    seconds = _seconds(stored, study)
    if seconds is None or not study.experiment.contrasts:
        return ()
    moved = differences(seconds, study, study.experiment.contract.alpha)
    is_load = any(arm.spec.workload.kind == "load" for arm in study.experiment.arms)
    found = []
    for index, contrast in enumerate(study.experiment.contrasts):
        items = items_of(moved, index)
        if items:
            arm = study.arms[contrast.arm_id]
            found.append(
                Explanation(
                    arm=arm.name,
                    control=study.arms[contrast.control_id].name,
                    stratum=arm.stratum,
                    per="1000 transactions" if is_load else "trial",
                    moved=items,
                )
            )
    return tuple(found)


def items_of(moved: Moved, index: int) -> tuple[MovedItem, ...]:
    """The items whose interval leaves out 0, the greatest first; an empty interval says nothing."""
    items = []
    for row, (process, item) in enumerate(ITEMS):
        low, high = float(moved.lower[row, index]), float(moved.upper[row, index])
        if low <= high and (low > 0 or high < 0):
            ends = (low if np.isfinite(low) else None, high if np.isfinite(high) else None)
            seconds = float(moved.estimate[row, index])
            items.append(MovedItem(process=process, item=item, seconds=seconds, interval=ends))
    return tuple(sorted(items, key=lambda each: -abs(each.seconds)))


def differences(seconds: FloatArray, study: Study, alpha: float) -> Moved:
    """The arms' seconds less their controls', at level α for all together.

    seconds: (items, blocks, arms), NaN where an arm took no part in a block.
    """
    of_first = seconds[: len(_OF_CONNECTIONS), 0].sum(axis=0)
    scale = float(of_first[np.isfinite(of_first)].mean()) or 1.0
    # Items that nobody ever spent time on can't move, and cost nothing to leave in: their evidence is 1.
    contrasts = study.contrast_set(seconds / scale)
    return _scaled(contrasts, scale, alpha / (len(seconds) * study.contrast_count))


def _scaled(contrasts: ContrastSet, scale: float, level: float) -> Moved:
    ends = contrasts.intervals(level, running=True)
    return Moved(contrasts.effects() * scale, ends.lower * scale, ends.upper * scale)


def _seconds(stored: StoredExperiment, study: Study) -> FloatArray | None:
    """Seconds of each item, as `differences` takes them; None where a trial has no account."""
    trials = {(trial.record.number, trial.record.attempt): trial for trial in stored.trials}
    blocks = []
    for row in study.table.rows:
        columns = []
        for arm_id in study.table.arm_ids:
            record = row.get(arm_id)
            if record is None:
                columns.append([math.nan] * len(ITEMS))
                continue
            found = _of_trial(trials[record.number, record.attempt])
            if found is None:
                return None
            columns.append(found)
        blocks.append(columns)
    if not blocks:
        return None
    return np.moveaxis(np.asarray(blocks, dtype=np.float64), -1, 0)


def _of_trial(trial: StoredTrial) -> list[float] | None:
    accounts = trial_accounts(trial)
    times = work_times(accounts)
    if times.total_s <= 0:
        return None
    load = trial.record.load
    if load is not None and not load.transactions:
        return None
    unit = 1000 / load.transactions if load is not None else 1.0
    return [value * unit for value in (*seconds_of_connections(times), *_helpers(accounts))]


def seconds_of_connections(times: WorkTimes) -> list[float]:
    """The seconds of the first of ITEMS, which are those of connections, in their order."""
    return [seconds(times) for seconds in _OF_CONNECTIONS.values()]


def _helpers(accounts: Sequence[Account]) -> list[float]:
    found = []
    by_process = {account.process: account for account in accounts}
    for process in _HELPERS:
        account = by_process.get(process)
        items = account.items if account else ()
        found.append(sum(item.seconds for item in items if item.kind == "cpu"))
        found.append(sum(item.seconds for item in items if item.kind == "wait" and item.wait_event != _IDLE))
    return found
