"""The diagnosis of an interval: accounts, the limit, the faults, and what to look at next."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pgassay import __version__
from pgassay.analysis.accounts.threads import BACKEND, Span
from pgassay.analysis.causes.base import Found, Rule
from pgassay.analysis.causes.evidence import MB, DeviceFlow, Evidence
from pgassay.analysis.causes.rank import TrialCauses, limit_with_faults, trial_causes
from pgassay.analysis.causes.registry import next_step
from pgassay.analysis.causes.sampler_files import moved, read_columns
from pgassay.analysis.diagnosis.accounts import Accounts, accounts
from pgassay.analysis.diagnosis.headline import STATEMENT, headline
from pgassay.analysis.diagnosis.headline_faults import USED_UP
from pgassay.analysis.diagnosis.interval import Interval, ReplicationSlot
from pgassay.analysis.diagnosis.interval_evidence import evidence_of_interval
from pgassay.analysis.diagnosis.sessions import blockers, sampled_statements
from pgassay.analysis.diagnosis.statement_diagnosis import by_statement
from pgassay.analysis.statistics.change_points import change_points
from pgassay.errors import UsageError
from pgassay.model.cause import UNKNOWN, Cause
from pgassay.model.running_server.diagnosis import Activity, Change, Diagnosis, Headline, Sampling
from pgassay.record.observations import floats
from pgassay.value_syntax.quantities import size_bytes
from pgassay.words import size

# With less than so many connections at work at a time, on average, a server is idle.
BUSY_MIN = 0.05
_HIDDEN = "what sessions of other roles do and wait for (the role may not read it)"
_NO_CPU = "the time on processors (the server's processes are not on this machine)"
_UNEXPLAINED_NEXT = "Check where the time went: no rule explains a quarter of it."
_IDLE = "Nothing limits a server without work."
_IDLE_NEXT = "Diagnose it while it is busy: limits can't be seen while it has no work."
_ALLOW = "Let the role read the activity of all sessions, and diagnose again."
# A change of less than this is not worth a line.
_RATIO_MIN = 1.33
_OWN_SHARE_MIN = 0.5
_S = 1_000_000_000
# What pg_replication_slots says of one whose WAL is beyond max_slot_wal_keep_size.
_LOST, _SOON_LOST = "lost", "unreserved"


def diagnose(interval: Interval) -> Diagnosis:
    """Everything that can be said of an interval."""
    found = accounts(interval)
    seen = evidence_of_interval(interval, found)
    activity = _activity(interval, found, seen)
    causes = _causes(interval, found, seen, activity)
    statements = by_statement(interval)
    blocking = blockers(interval.samples, interval.seconds)
    first = headline(interval, causes, statements, blocking)
    causes = _as_the_design_s(causes, first)
    is_idle = activity.connections_busy is not None and activity.connections_busy < BUSY_MIN
    vacuum_state = interval.vacuum_state
    return Diagnosis(
        pgassay_version=__version__,
        started_at=interval.started_at,
        seconds_asked=interval.seconds_asked,
        seconds=interval.seconds,
        interrupted=interval.interrupted,
        server=interval.server,
        activity=activity,
        headline=first,
        by_statement=statements,
        passed_over=interval.passed_over,
        causes=causes,
        next=(
            *((_IDLE_NEXT,) if is_idle else (next_step(cause.cause) for cause in causes)),
            *slots_that_hold(interval.slots, interval.settings),
        ),
        accounts=found.by_process,
        sampled=sampled_statements(interval.samples, interval.seconds),
        statements=interval.statements,
        blockers=blocking,
        holders=tuple(each for each in vacuum_state.holders if each.transactions > 0) if vacuum_state else (),
        changes=_changes(interval, seen.machine.device),
        missing=interval.missing,
        warnings=interval.warnings,
        sampling=_sampling(interval),
    )


def _causes(interval: Interval, found: Accounts, seen: Evidence, activity: Activity) -> tuple[Cause, ...]:
    name = interval.server.name
    busy = activity.connections_busy
    if busy is not None and busy < BUSY_MIN:
        return (_unknown(name, _IDLE, {"idle_share": max(0.0, 1.0 - busy)}),)
    made = trial_causes(seen)
    faults = [_cause(name, rule, fault, made.total_s) for rule, fault in made.faults]
    if interval.is_hidden:
        return (_unknown(name, _ALLOW, {"not_known": _HIDDEN}), *faults)
    return limit_with_faults([_limit(name, made, found), *faults])


def _as_the_design_s(causes: tuple[Cause, ...], first: Headline) -> tuple[Cause, ...]:
    """Where a statement uses a resource up by its plan, that is the design's: more of it is no remedy."""
    limit, *faults = causes
    if first.cause != STATEMENT or limit.cause not in USED_UP:
        return causes
    remedy = "Fix the statement named above first: it uses this up."
    return (limit.model_copy(update={"layer": "design", "remedy": remedy}), *faults)


def _limit(name: str, made: TrialCauses, found: Accounts) -> Cause:
    if made.limit is not None:
        return _cause(name, *made.limit, made.total_s)
    missing = [*made.missing, *([] if found.has_cpu else [_NO_CPU])]
    return _unknown(name, _UNEXPLAINED_NEXT, {"not_known": "; ".join(missing)} if missing else {})


def _cause(name: str, rule: Rule, found: Found, total_s: float) -> Cause:
    here = rule.on_running_server
    return Cause(
        arm=name,
        kind=rule.kind,
        cause=rule.cause,
        layer=here.layer or rule.layer,
        seconds=found.seconds,
        share=None if found.seconds is None or total_s <= 0 else found.seconds / total_s,
        evidence=found.figures,
        gain_if_lifted=found.gain,
        gain_interval=found.gain_range,
        gain_range=found.gain_range,
        next_limit=found.next_limit or None,
        remedy=found.remedy or here.remedy or rule.remedy,
        trials=1,
        observed=1,
    )


def _unknown(name: str, remedy: str, figures: dict[str, float | str]) -> Cause:
    return Cause(
        arm=name,
        kind="limit",
        cause=UNKNOWN,
        layer="measurement",
        seconds=None,
        share=None,
        evidence=figures,
        gain_if_lifted=None,
        remedy=remedy,
        trials=1,
        observed=1,
    )


def _activity(interval: Interval, found: Accounts, seen: Evidence) -> Activity:
    backends, workers = found.of(BACKEND), found.of("parallel worker")
    busy_s = backends.wall_s if backends is not None else 0.0
    device, processors = seen.machine.device, seen.machine.processors
    seconds = interval.seconds
    span = Span(interval.begin_ns, interval.end_ns, False)
    read_bytes, written_bytes = (
        moved(interval.folder, "device", (name,), [span]) for name in ("read_bytes", "write_bytes")
    )

    def rate(view: str, name: str, unit: float = 1.0) -> float:
        # A view whose row did not move is not among the differences.
        return (seen.server.counters.total(view, name) or 0.0) / unit / seconds

    return Activity(
        connections_busy=None if interval.is_hidden else busy_s / seconds,
        connections_idle=None if interval.is_hidden else found.idle_s / seconds,
        parallel_workers=None if interval.is_hidden else (workers.wall_s if workers else 0.0) / seconds,
        transactions_s=rate("pg_stat_database", "xact_commit"),
        rollbacks_s=rate("pg_stat_database", "xact_rollback"),
        postgres_read_mb_s=seen.work.bytes_read / MB / seconds,
        postgres_hit_mb_s=seen.work.bytes_hit / MB / seconds,
        temporary_mb_s=rate("pg_stat_database", "temp_bytes", MB),
        wal_mb_s=rate("pg_stat_wal", "wal_bytes", MB),
        server_read_mb_s=device.read_bytes / MB / seconds if device else None,
        device_read_mb_s=read_bytes[0] / MB / seconds if read_bytes else None,
        device_write_mb_s=written_bytes[0] / MB / seconds if written_bytes else None,
        server_cpus=seen.server.server_cpu_s / seconds if processors else None,
        clients_cpus=interval.clients_cpu_s / seconds if processors else None,
        others_cpus=processors.others_s / seconds if processors else None,
        others={name: used_s / seconds for name, used_s in interval.others.items()},
    )


def _changes(interval: Interval, flow: DeviceFlow | None) -> tuple[Change, ...]:
    """When the rates of transactions and of the server's reads changed, by seconds."""
    found: list[Change] = []
    count = int(interval.seconds)
    grid = interval.begin_ns + np.arange(count + 1) * float(_S)
    if len(interval.samples) > 1:
        clock = [float(sample.clock_ns) for sample in interval.samples]
        done = [sample.transactions for sample in interval.samples]
        inside = grid[grid <= clock[-1]]
        found += _changed("transactions", "per s", np.diff(np.interp(inside, clock, done)).tolist())
    device = read_columns(interval.folder, "device")
    if device.get("clock_ns"):
        clock_ns, read_bytes = floats(device, "clock_ns"), floats(device, "read_bytes")
        own_bytes = flow.read_bytes if flow is not None else 0.0
        # What others read from the device is no matter of the server's.
        if own_bytes >= _OWN_SHARE_MIN * (read_bytes[-1] - read_bytes[0]):
            rates = np.diff(np.interp(grid, clock_ns, read_bytes)) / MB
            found += _changed("device reads", "MB/s", rates.tolist())
    return tuple(sorted(found, key=lambda change: change.at_s))


def _changed(what: str, unit: str, rates: Sequence[float]) -> list[Change]:
    return [
        Change(what=what, unit=unit, at_s=float(point.index), before=point.before, after=point.after)
        for point in change_points(rates)
        if not 1 / _RATIO_MIN < point.ratio < _RATIO_MIN
    ]


def _sampling(interval: Interval) -> Sampling:
    cost = interval.cost
    used_s = cost.tool_cpu_s + cost.observer_cpu_s + (cost.sessions_cpu_s or 0.0)
    return Sampling(
        rate_hz=cost.rate_hz,
        samples=cost.samples,
        missed=cost.missed,
        tool_cpu_s=cost.tool_cpu_s,
        observer_cpu_s=cost.observer_cpu_s,
        sessions_cpu_s=cost.sessions_cpu_s,
        share_of_core=used_s / interval.seconds,
    )


def slots_that_hold(slots: Sequence[ReplicationSlot], settings: Mapping[str, str]) -> Iterator[str]:
    """A sentence with the remedy for each that has lost WAL, soon loses it, or holds much for nobody."""
    for each in slots:
        drop = f"SELECT pg_drop_replication_slot('{each.name}');"
        if each.wal_status == _LOST:
            yield (
                f"The replication slot {each.name} has lost WAL that its consumer needs (wal_status lost): "
                f"set the consumer up again, and drop the slot: {drop}"
            )
            continue
        is_soon_lost = each.wal_status == _SOON_LOST
        held = size(each.held_bytes or 0.0)
        soon = ", which the next checkpoint may remove (wal_status unreserved)" if is_soon_lost else ""
        if each.is_active and is_soon_lost:
            yield (
                f"The replication slot {each.name} holds {held} of WAL{soon}: make its consumer faster, or "
                "raise max_slot_wal_keep_size."
            )
        elif not each.is_active and (is_soon_lost or _is_much(each, settings)):
            yield (
                f"The replication slot {each.name} has no consumer and holds {held} of WAL{soon}: start its "
                f"consumer, or drop the slot: {drop}"
            )


def _is_much(slot: ReplicationSlot, settings: Mapping[str, str]) -> bool:
    try:
        usual_bytes = size_bytes(settings.get("max_wal_size", ""), default_unit="MB")
    except UsageError:
        return False
    return (slot.held_bytes or 0.0) > usual_bytes
