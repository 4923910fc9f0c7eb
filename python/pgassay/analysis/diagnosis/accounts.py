"""Where the time of a running server's threads went; connections without work are left out.

On this machine CPU and queue are the scheduler's counts, as in a trial's account. Of a server elsewhere there
are samples alone.
"""

from dataclasses import dataclass

from pgassay.analysis.accounts.items import account
from pgassay.analysis.accounts.samples import IDLE_CONNECTION, sampled_accounts
from pgassay.analysis.accounts.threads import BACKEND, Span, trial_times
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.model.account import Account
from pgassay.record import observations
from pgassay.record.observations import Columns

# The wait event under which time without work goes through the account, to be taken out of it.
_IDLE = "idle connection"
OWN = "pgassay"
_ORDER = (BACKEND, "parallel worker", "io worker", "io_uring worker")


@dataclass(frozen=True)
class Accounts:
    """By kind of thread, with the seconds that client connections were connected and had no work.

    has_cpu: whether the scheduler's counts are in them.
    """

    by_process: tuple[Account, ...]
    idle_s: float
    has_cpu: bool

    def of(self, process: str) -> Account | None:
        """The account of one kind of thread."""
        return next((each for each in self.by_process if each.process == process), None)


def accounts(interval: Interval) -> Accounts:
    """The accounts of an interval; without any where nothing was sampled."""
    threads = observations.columns(interval.folder, "threads")
    waits: Columns = observations.columns(interval.folder, "waits") or {}
    if not threads:
        return _by_samples(waits, interval)
    span = Span(interval.begin_ns, interval.end_ns, False)
    # The session's state says who is idle: what else waits for its client holds a transaction open.
    as_sampled = _as_waiting(waits)
    times = trial_times(threads, as_sampled, [span], interval.cost.rate_hz, sets_idle_apart=False)
    names = [*(name for name in _ORDER if name in times.kinds)]
    names += sorted(set(times.kinds) - set(_ORDER) - {OWN})
    made = [account(name, times.kinds[name], 1, times.measured_s) for name in names]
    idle_s = sum(item.seconds for each in made for item in each.items if item.wait_event_type == _IDLE)
    kept = (_without_idle(each, times.measured_s) for each in made)
    return Accounts(tuple(_as_long_as_its_items(each, times.measured_s) for each in kept), idle_s, True)


def _as_waiting(waits: Columns) -> Columns:
    """Idle connections as backends that wait for nothing of the server's."""
    if not waits.get("kind"):
        return waits
    indices = [index for index, kind in enumerate(waits["kind"]) if kind == IDLE_CONNECTION]
    changed = {name: list(waits[name]) for name in ("kind", "wait_event_type", "wait_event")}
    for index in indices:
        changed["kind"][index] = BACKEND
        changed["wait_event_type"][index] = changed["wait_event"][index] = _IDLE
    return {**waits, **changed}


def _without_idle(made: Account, measured_s: float) -> Account:
    kept = [item for item in made.items if item.wait_event_type != _IDLE]
    idle_s = sum(item.seconds for item in made.items) - sum(item.seconds for item in kept)
    if not idle_s:
        return made
    wall_s = max(0.0, made.wall_s - idle_s)
    items = [item.model_copy(update={"share": item.seconds / wall_s if wall_s > 0 else 0.0}) for item in kept]
    return made.model_copy(
        update={
            "wall_s": wall_s,
            "threads": wall_s / measured_s if measured_s > 0 else 0.0,
            "items": tuple(items),
            "asleep_s": max(0.0, made.asleep_s - idle_s),
            "asleep_sampled_s": max(0.0, made.asleep_sampled_s - idle_s),
        }
    )


def _as_long_as_its_items(made: Account, measured_s: float) -> Account:
    """The account with a wall time that holds what is known to have happened in it.

    Sessions that begin and end between two samples have CPU time, of which the postmaster is told, and queued
    for it, but nobody saw how long they lived: without this, shares would add up to more than the whole.
    """
    if made.residue_s >= 0:
        return made
    known_s = sum(item.seconds for item in made.items)
    items = [item.model_copy(update={"share": item.seconds / known_s}) for item in made.items]
    return made.model_copy(
        update={
            "wall_s": known_s,
            "threads": known_s / measured_s if measured_s > 0 else 0.0,
            "items": tuple(items),
            "residue_s": 0.0,
        }
    )


def _by_samples(waits: Columns, interval: Interval) -> Accounts:
    if not waits.get("clock_ns") or not interval.cost.samples:
        return Accounts((), 0.0, False)
    made, idle_s = sampled_accounts(waits, interval.cost.samples, interval.seconds)
    return Accounts(made, idle_s, False)
