"""Which fault of a server comes before its limit, and how it is told: sentence, SQL, command."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.analysis.diagnosis.statement_diagnosis import psql
from pgassay.errors import UsageError
from pgassay.model.base import PAGE_BYTES
from pgassay.model.cause import UNKNOWN, Cause
from pgassay.model.running_server.diagnosis import Headline
from pgassay.plans.node_wording import table_in_sql
from pgassay.value_syntax.quantities import size_bytes
from pgassay.words import duration, figure, percent_fixed

_Figures = Mapping[str, float | str]
# Of the time of connections: what a fault explains of it, where it comes before the limit.
_FAULT_SHARE_MIN = 0.25
# Resources that a statement uses up by its plan.
USED_UP = frozenset(
    {
        *("all-cores", "backend-core", "cpu-quota", "cached", "storage-throughput", "storage-iops"),
        *("storage-latency", "too-few-io-workers", "burst-credits", UNKNOWN),
    }
)
# Faults that come before a limit, where they explain enough of the time or can't be told from other work.
_FAULTS_FIRST = (
    *("bloat-held", "bloat", "connections", "checkpoint", "temp-spill", "autovacuum", "memory", "noise"),
)
# What limits it may follow from these faults, whose own seconds can't be told.
_WITHOUT_SECONDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("all-cores", "backend-core", "cpu-quota", "wal-fsync", "lwlocks", "client-bound", UNKNOWN),
        ("connections", "checkpoint", "temp-spill"),
    ),
    # After each checkpoint pages go whole into the WAL, and what it writes is in the way of other writes.
    **dict.fromkeys(("wal-insert", "backend-writes"), ("checkpoint",)),
}
_SINCE_CHECKPOINT_S = 300.0
_GB = 1024**3
SESSION = "SELECT pid, usename, application_name, client_addr, state, xact_start, query FROM pg_stat_activity"
# Who has written and is between two statements has no snapshot at READ COMMITTED, and holds by its number.
_HELD_BY_SESSION = (
    f"{SESSION} WHERE backend_xmin IS NOT NULL OR backend_xid IS NOT NULL "
    "ORDER BY greatest(age(backend_xmin), age(backend_xid)) DESC"
)
# Where each kind of holder of dead rows is seen, the oldest first; else among the sessions.
_HOLDERS = {
    "prepared transaction": "SELECT * FROM pg_prepared_xacts ORDER BY age(transaction) DESC",
    "standby": (
        "SELECT pid, application_name, client_addr, state, backend_xmin, age(backend_xmin) FROM "
        "pg_stat_replication WHERE backend_xmin IS NOT NULL ORDER BY age(backend_xmin) DESC"
    ),
    "replication slot": (
        "SELECT slot_name, slot_type, active, active_pid, xmin, age(xmin) FROM pg_replication_slots "
        "WHERE xmin IS NOT NULL ORDER BY age(xmin) DESC"
    ),
}


def fault_that_matters(limit: Cause, faults: Sequence[Cause]) -> Cause | None:
    """The fault that explains more than the limit does; of one without seconds, by its kind."""
    known = {each.cause: each for each in faults}
    for name in _FAULTS_FIRST:
        fault = known.get(name)
        if fault is None:
            continue
        if fault.share is not None and fault.share >= _FAULT_SHARE_MIN and _explains_more(fault, limit):
            return fault
        if name == "bloat-held" or (fault.share is None and name in _WITHOUT_SECONDS.get(limit.cause, ())):
            return fault
    return None


def _explains_more(fault: Cause, limit: Cause) -> bool:
    """What uses a resource up is part of what the limit explains, and is held against the rest of that.

    Others take processors from those who wait for one, which is no part of any limit's time.
    """
    share, of_limit = fault.share or 0.0, limit.share or 0.0
    rest = of_limit - share if limit.cause in USED_UP and fault.cause != "noise" else of_limit
    return share > rest


@dataclass(frozen=True)
class _Told:
    """How a fault is told: a sentence without its end, what mends it as SQL, and a command; '' for none."""

    sentence: str
    sql: str = ""
    command: str = ""


def headline_of_fault(interval: Interval, fault: Cause) -> Headline:
    """The fault as the one thing to read."""
    rule = rule_of(fault.cause)
    phrase = rule.phrase if rule is not None else fault.cause
    tell = _TOLD_BY.get(fault.cause)
    told = _Told(phrase) if tell is None else tell(interval, fault.evidence, phrase)
    share = f": {percent_fixed(fault.share)} of the time of connections" if fault.share else ""
    return Headline(
        cause=fault.cause,
        sentence=f"{told.sentence[0].upper()}{told.sentence[1:]}{share}.",
        remedy=fault.remedy,
        sql=told.sql,
        command=told.command or f"pgassay tune {shlex.quote(interval.server.connection)}",
    )


def _held_bloat(interval: Interval, figures: _Figures, _phrase: str) -> _Told:
    held_by = str(figures["held_by"])
    holder = held_by.removeprefix("session ")
    looked_at = next(
        (query for kind, query in _HOLDERS.items() if held_by.startswith(kind)), _HELD_BY_SESSION
    )
    return _Told(
        f"{holder} keeps VACUUM from removing dead rows of {figures['table']}",
        command=psql(interval, looked_at),
    )


def _bloat(interval: Interval, figures: _Figures, phrase: str) -> _Told:
    if "index" in figures:
        return _bloated_index(interval, figures, phrase)
    sentence = f"{phrase}: {figures['table']} has {figure(float(figures['pages']), 6)} pages"
    if "pages_needed" in figures:
        sentence += f" for rows that fill {figure(float(figures['pages_needed']), 6)}"
    schema, _, name = str(figures["table"]).partition(".")
    place = table_in_sql(schema, name)
    counts = "relname, n_live_tup, n_dead_tup, last_vacuum, last_autovacuum"
    size = "pg_size_pretty(pg_relation_size(relid))"
    looked_at = (
        f"SELECT {counts}, {size} FROM pg_stat_user_tables WHERE relid = $table${place}$table$::regclass"
    )
    # Space in the middle of a file comes back by a rewrite alone, which the remedy says the price of.
    return _Told(sentence, sql=f"VACUUM (FULL, ANALYZE) {place};", command=psql(interval, looked_at))


def _bloated_index(interval: Interval, figures: _Figures, phrase: str) -> _Told:
    """Of which the table may be as small as can be: it is left alone."""
    place = table_in_sql(str(figures["table"]).partition(".")[0], str(figures["index"]))
    pages, needed = (figure(float(figures[name]), 6) for name in ("index_pages", "index_pages_needed"))
    looked_at = (
        "SELECT relname, indexrelname, idx_scan, pg_size_pretty(pg_relation_size(indexrelid)) FROM "
        f"pg_stat_user_indexes WHERE indexrelid = $index${place}$index$::regclass"
    )
    return _Told(
        f"{phrase}: the index {figures['index']} of {figures['table']} has {pages} pages for entries that "
        f"fill {needed}",
        sql=f"REINDEX INDEX CONCURRENTLY {place};",
        command=psql(interval, looked_at),
    )


def _connections(interval: Interval, figures: _Figures, phrase: str) -> _Told:
    sentence = phrase
    if "opened_per_second" in figures:
        each = figure(float(figures["transactions_per_connection"]), 2)
        sentence = (
            f"{figure(float(figures['opened_per_second']))} connections are opened a second, for "
            f"{'one transaction' if each == '1' else f'{each} transactions'} each"
        )
    looked_at = (
        "SELECT usename, application_name, client_addr, count(*), max(backend_start) FROM "
        "pg_stat_activity WHERE backend_type = $$client backend$$ GROUP BY 1, 2, 3 ORDER BY 4 DESC"
    )
    return _Told(sentence, command=psql(interval, looked_at))


def _checkpoint(interval: Interval, figures: _Figures, phrase: str) -> _Told:
    every = duration(float(figures["seconds_between"]))
    return _Told(
        f"{phrase} ({figures['max_wal_size']}), one every {every}{_of_images(interval)}",
        sql=f"ALTER SYSTEM SET max_wal_size = '{_wal_size(interval)}'; SELECT pg_reload_conf();",
        # Whether it was enough shows in the next interval.
        command=f"pgassay diagnose {shlex.quote(interval.server.connection)}",
    )


def _of_images(interval: Interval) -> str:
    """What checkpoints cost: the part of the WAL that is whole pages; '' where that was not counted.

    Before 19 their number alone is known. A page's image is shorter without the hole in it, or compressed.
    """
    wal_bytes, image_bytes, images = (
        sum(float(row.get(name) or 0) for row in interval.counters.get("pg_stat_wal", ()))
        for name in ("wal_bytes", "wal_fpi_bytes", "wal_fpi")
    )
    if wal_bytes <= 0 or images <= 0:
        return ""
    most = image_bytes or images * float(interval.settings.get("block_size", PAGE_BYTES))
    about = "" if image_bytes else "up to "
    return f"; {about}{percent_fixed(min(1.0, most / wal_bytes))} of the WAL is pages written whole after one"


def _noise(_interval: Interval, _figures: _Figures, phrase: str) -> _Told:
    return _Told(phrase, command="ps -eo pid,nice,pcpu,args --sort=-pcpu | head -20")


_TOLD_BY: Mapping[str, Callable[[Interval, _Figures, str], _Told]] = {
    "bloat-held": _held_bloat,
    "bloat": _bloat,
    "connections": _connections,
    "checkpoint": _checkpoint,
    "noise": _noise,
}


def _wal_size(interval: Interval) -> str:
    """What the WAL of five minutes fills twice, at this rate, up to a power of two in GB; more than now.

    A checkpoint begins when a bit less than half of max_wal_size is written since the last one, with the
    default checkpoint_completion_target (src/backend/access/transam/xlog.c, CalculateCheckpointSegments).
    A standby, which replays the WAL of another server, counts none.
    """
    rows = interval.counters.get("pg_stat_wal", ())
    wal_bytes = sum(float(row.get("wal_bytes") or 0) for row in rows)
    wanted = 2 * wal_bytes / interval.seconds * _SINCE_CHECKPOINT_S / _GB
    try:
        now = size_bytes(interval.settings.get("max_wal_size", ""), default_unit="MB") / _GB
    except UsageError:
        now = 0.0
    return f"{2 ** max(1, math.ceil(math.log2(max(wanted, 2 * now, 1.0))))}GB"
