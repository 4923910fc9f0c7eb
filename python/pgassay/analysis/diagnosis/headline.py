"""What matters most of an interval: one sentence, what to do, and the command to type next.

A statement whose plan wastes its time comes before the resource that it uses up: more processors would only
waste more. Where sessions wait for a lock, a standby or the client, that comes first, whatever the plans are.
"""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.analysis.diagnosis.statement_diagnosis import psql
from pgassay.analysis.diagnosis.statement_findings import excerpt
from pgassay.errors import UsageError
from pgassay.model.build import major_of
from pgassay.model.cause import UNKNOWN, Cause
from pgassay.model.running_server.diagnosis import Blocker, Headline
from pgassay.model.running_server.statement import DiagnosedStatement
from pgassay.plans.node_wording import table_in_sql
from pgassay.sql_text import identifier
from pgassay.value_syntax.quantities import size_bytes
from pgassay.words import duration, figure, percent_fixed, plural, quantity

STATEMENT = "statement"
_Figures = Mapping[str, float | str]
# Of the time of all statements: one that takes less is not what matters most.
_STATEMENT_SHARE_MIN = 0.25
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
# What a probe of the folder of the data, or of the WAL, says more of.
_OF_DATA = ("storage-throughput", "storage-iops", "storage-latency", "backend-writes", "extension")
_OF_WAL = ("wal-fsync", "wal-insert")
# Findings that come from a plan, and say what it needs.
_BY_PLAN = frozenset({"whole-table", "foreign-key", "plan"})
# What to do first of a statement, by the kind of its first finding; else it is tried on a copy.
_REMEDIES = {
    "one-by-one": "Have the application fetch all rows in one query; find out which client sends the calls.",
    "stale-statistics": "ANALYZE, and have autovacuum do so more often; or try it on a copy first.",
}
_SINCE_CHECKPOINT_S = 300.0
# All other SQL that is handed out changes data or catalogs.
_ON_STANDBYS = "ALTER SYSTEM"
ON_PRIMARY = "This server is a standby: the SQL is for its primary, whose changes come here."
_GB = 1024**3
_SESSION = (
    "SELECT pid, usename, application_name, client_addr, state, xact_start, query FROM pg_stat_activity"
)
# Who has written and is between two statements has no snapshot at READ COMMITTED, and holds by its number.
_HELD_BY_SESSION = (
    f"{_SESSION} WHERE backend_xmin IS NOT NULL OR backend_xid IS NOT NULL "
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


def headline(
    interval: Interval,
    causes: Sequence[Cause],
    statements: Sequence[DiagnosedStatement],
    blockers: Sequence[Blocker],
) -> Headline:
    """The one thing to read; causes as they are told, the limit first."""
    told = _headline(interval, causes, statements, blockers)
    if not interval.server.is_standby or not told.sql or told.sql.startswith(_ON_STANDBYS):
        return told
    return told.model_copy(update={"remedy": f"{told.remedy} {ON_PRIMARY}"})


def _headline(
    interval: Interval,
    causes: Sequence[Cause],
    statements: Sequence[DiagnosedStatement],
    blockers: Sequence[Blocker],
) -> Headline:
    limit, faults = causes[0], causes[1:]
    if interval.is_hidden:
        return _hidden(interval, limit)
    if "idle_share" in limit.evidence:
        sentence = "The server was idle: nothing limits it, and its load is unknown."
        again = f"pgassay diagnose {shlex.quote(interval.server.connection)}"
        return Headline(
            cause=UNKNOWN, sentence=sentence, remedy="Diagnose it while it is busy.", command=again
        )
    if limit.cause in ("row-locks", "object-locks") and blockers:
        return _blocked(interval, limit, blockers[0])
    held = next((each for each in faults if each.cause == "bloat-held"), None)
    if held is None and limit.cause in USED_UP:
        found = next((each for each in statements if _is_wasteful(each)), None)
        several = [each for each in statements if _has_fix(each)]
        together = sum(each.share for each in several)
        is_one = found is not None and (found not in several or found.share > together / 2)
        if found is not None and (is_one or len(several) < 2):
            return _of_statement(found)
        if len(several) > 1 and together >= _STATEMENT_SHARE_MIN:
            return _of_several(interval, several)
    first = _fault_that_matters(limit, faults)
    if first is not None:
        return _of_fault(interval, first)
    return _of_limit(interval, limit, statements)


def _is_wasteful(statement: DiagnosedStatement) -> bool:
    return bool(statement.findings) and statement.share >= _STATEMENT_SHARE_MIN


def _has_fix(statement: DiagnosedStatement) -> bool:
    """Whether something of its plan can be mended by SQL."""
    return any(each.sql and each.kind in _BY_PLAN for each in statement.findings)


def _of_several(interval: Interval, found: Sequence[DiagnosedStatement]) -> Headline:
    """Statements of which none takes much, and all together do."""
    most = found[0]
    fixes = [next(each for each in one.findings if each.sql and each.kind in _BY_PLAN) for one in found]
    known = [each.query_id for each in found if each.query_id is not None]
    only = f" --only={','.join(known)}" if known else ""
    return Headline(
        cause=STATEMENT,
        sentence=f"{plural(len(found), 'statement')} that can be made faster take "
        f"{percent_fixed(sum(each.share for each in found))} of the time, most of all "
        f"{excerpt(most.query)} ({percent_fixed(most.share)}): {fixes[0].sentence}.",
        remedy="Try the fixes on a copy of the data.",
        sql="\n".join(dict.fromkeys(each.sql for each in fixes)),
        command=f"pgassay tune {shlex.quote(interval.server.connection)}{only}",
    )


def _hidden(interval: Interval, limit: Cause) -> Headline:
    role = interval.server.role
    return Headline(
        cause=limit.cause,
        sentence=f"The role {role} sees only its own sessions and statements.",
        remedy="Have a superuser let it read the activity of all sessions, and diagnose again.",
        sql=f"GRANT pg_monitor TO {identifier(role)};",
        command=f"pgassay diagnose {shlex.quote(interval.server.connection)}",
    )


def _of_statement(found: DiagnosedStatement) -> Headline:
    calls = ""
    if found.calls_s is not None and found.mean_ms is not None:
        calls = f" ({_rate(found.calls_s)} of {quantity(found.mean_ms / 1000, 's')})"
    first = found.findings[0]
    return Headline(
        cause=STATEMENT,
        sentence=f"{excerpt(found.query)} takes {percent_fixed(found.share)} of the time{calls}: "
        f"{first.sentence}.",
        remedy=_REMEDIES.get(first.kind, "Try the fix on a copy of the data."),
        sql=first.sql,
        command=found.command,
        query_id=found.query_id,
    )


def _rate(calls_s: float) -> str:
    """'21 calls a second', '3 calls a minute'."""
    if calls_s >= 1:
        return f"{figure(calls_s)} calls a second"
    return f"{figure(60 * calls_s, 2)} calls a minute"


def _blocked(interval: Interval, limit: Cause, blocker: Blocker) -> Headline:
    who = f"process {blocker.pid}" if blocker.pid else "a prepared transaction"
    name = blocker.application or blocker.user
    open_s = blocker.transaction_s or 0.0
    since = f", open for {duration(open_s)}" if open_s >= 1 else ""
    doing = f" ({blocker.state}{since}: {excerpt(blocker.query)})" if blocker.state else ""
    share = f"{percent_fixed(limit.share or 0.0)} of the time of connections goes to waiting for locks"
    query = f"{_SESSION} WHERE pid = {blocker.pid}" if blocker.pid else "SELECT * FROM pg_prepared_xacts"
    return Headline(
        cause=limit.cause,
        sentence=f"{share}, up to {plural(blocker.waiting_max, 'session')} at once behind {who}"
        f"{f' of {name}' if name else ''}{doing}.",
        remedy=limit.remedy,
        command=psql(interval, query),
    )


def _fault_that_matters(limit: Cause, faults: Sequence[Cause]) -> Cause | None:
    """The fault that explains more than a limit of resources does; of one without seconds, by its kind."""
    known = {each.cause: each for each in faults}
    for name in _FAULTS_FIRST:
        fault = known.get(name)
        if fault is None:
            continue
        if fault.share is not None and fault.share >= _FAULT_SHARE_MIN:
            return fault
        if name == "bloat-held" or (fault.share is None and name in _WITHOUT_SECONDS.get(limit.cause, ())):
            return fault
    return None


@dataclass(frozen=True)
class _Told:
    """How a fault is told: a sentence without its end, what mends it as SQL, and a command; '' for none."""

    sentence: str
    sql: str = ""
    command: str = ""


def _of_fault(interval: Interval, fault: Cause) -> Headline:
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
    view = "pg_stat_checkpointer" if major_of(interval.server.version) >= 17 else "pg_stat_bgwriter"
    return _Told(
        f"{phrase} ({figures['max_wal_size']}), one every {duration(float(figures['seconds_between']))}",
        sql=f"ALTER SYSTEM SET max_wal_size = '{_wal_size(interval)}'; SELECT pg_reload_conf();",
        command=psql(interval, f"SELECT * FROM {view}"),
    )


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


def _of_limit(interval: Interval, limit: Cause, statements: Sequence[DiagnosedStatement]) -> Headline:
    rule = rule_of(limit.cause)
    phrase = (rule.on_running_server.phrase or rule.phrase) if rule is not None else ""
    share = f": {percent_fixed(limit.share)} of the time of connections" if limit.share else ""
    sentence = f"The server is limited by {phrase}{share}." if phrase else "No rule explains what limits it."
    top = statements[0] if statements else None
    if top is not None and limit.cause in USED_UP:
        sentence += f" Most time goes to {excerpt(top.query)} ({percent_fixed(top.share)})"
        sentence += ", whose plan shows nothing to fix." if top.plan and not top.findings else "."
    return Headline(
        cause=limit.cause,
        sentence=sentence,
        remedy=limit.remedy,
        command=_next_of_limit(interval, limit, top),
    )


def _next_of_limit(interval: Interval, limit: Cause, top: DiagnosedStatement | None) -> str:
    dsn, folder = shlex.quote(interval.server.connection), interval.server.data_directory
    if limit.cause == "synchronous-replication":
        lags = "application_name, client_addr, state, sync_state, write_lag, flush_lag, replay_lag"
        return psql(interval, f"SELECT {lags} FROM pg_stat_replication")
    if limit.cause in ("row-locks", "object-locks"):
        return psql(interval, f"{_SESSION} WHERE cardinality(pg_blocking_pids(pid)) > 0")
    if limit.cause == "client-bound":
        return psql(interval, f"{_SESSION} WHERE state LIKE $$idle in transaction%$$ ORDER BY xact_start")
    if folder and limit.cause in _OF_DATA:
        return f"pgassay probe {shlex.quote(folder)}"
    if folder and limit.cause in _OF_WAL:
        return f"pgassay probe {shlex.quote(folder + '/pg_wal')}"
    if top is not None and top.query_id is not None:
        return f"pgassay tune {dsn} --only={top.query_id}"
    return f"pgassay watch {dsn}"
