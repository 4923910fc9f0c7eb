"""What matters most of an interval: one sentence, what to do, and the command to type next.

A statement whose plan wastes its time comes before the resource that it uses up: more processors would only
waste more. Where sessions wait for a lock, a standby or the client, that comes first, whatever the plans are.
"""

import shlex
from collections.abc import Sequence

from pgassay.analysis.accounts.wait_groups import STANDBY, WAL_FLUSH, group_of
from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.diagnosis.headline_faults import (
    SESSION,
    USED_UP,
    fault_that_matters,
    headline_of_fault,
)
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.analysis.diagnosis.sessions import IN_TRANSACTION
from pgassay.analysis.diagnosis.statement_diagnosis import psql
from pgassay.analysis.diagnosis.statement_findings import excerpt
from pgassay.model.cause import UNKNOWN, Cause
from pgassay.model.running_server.diagnosis import Blocker, Headline
from pgassay.model.running_server.statement import DiagnosedStatement
from pgassay.sql_text import identifier
from pgassay.words import duration, figure, percent_fixed, plural, quantity

STATEMENT = "statement"
# Of the time of all statements: one that takes less is not what matters most.
_STATEMENT_SHARE_MIN = 0.25
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
# All other SQL that is handed out changes data or catalogs.
_ON_STANDBYS = "ALTER SYSTEM"
ON_PRIMARY = "This server is a standby: the SQL is for its primary, whose changes come here."


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
        together = sum(map(_share_of_plan, several))
        is_one = found is not None and (found not in several or _share_of_plan(found) > together / 2)
        if found is not None and (is_one or len(several) < 2):
            return _of_statement(found)
        if len(several) > 1 and together >= _STATEMENT_SHARE_MIN:
            return _of_several(interval, several)
    first = fault_that_matters(limit, faults)
    if first is not None:
        return headline_of_fault(interval, first)
    return _of_limit(interval, limit, statements)


def _is_wasteful(statement: DiagnosedStatement) -> bool:
    return bool(statement.findings) and _share_of_plan(statement) >= _STATEMENT_SHARE_MIN


def _share_of_plan(statement: DiagnosedStatement) -> float:
    """A statement's share but for what it waits in its commit: no plan mends that."""
    idle = statement.waits.get(IN_TRANSACTION, 0.0)
    waits = (event.partition(":") for event in statement.waits)
    commit = sum(
        statement.waits[f"{kind}{colon}{event}"]
        for kind, colon, event in waits
        if group_of(kind, event) in (WAL_FLUSH, STANDBY)
    )
    return statement.share * (1 - commit / (1 - idle)) if idle + commit < 1 else 0.0


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
    query = f"{SESSION} WHERE pid = {blocker.pid}" if blocker.pid else "SELECT * FROM pg_prepared_xacts"
    return Headline(
        cause=limit.cause,
        sentence=f"{share}, up to {plural(blocker.waiting_max, 'session')} at once behind {who}"
        f"{f' of {name}' if name else ''}{doing}.",
        remedy=limit.remedy,
        command=psql(interval, query),
    )


def _of_limit(interval: Interval, limit: Cause, statements: Sequence[DiagnosedStatement]) -> Headline:
    rule = rule_of(limit.cause)
    phrase = (rule.on_running_server.phrase or rule.phrase) if rule is not None else ""
    share = f": {percent_fixed(limit.share)} of the time of connections" if limit.share else ""
    sentence = f"The server is limited by {phrase}{share}." if phrase else "No rule explains what limits it."
    # A statement that waits in its commit, or a COMMIT itself, uses no other resource up.
    top = max(statements, key=_share_of_plan, default=None)
    if top is not None and limit.cause in USED_UP:
        sentence += f" Most time goes to {excerpt(top.query)} ({percent_fixed(_share_of_plan(top))})"
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
        return psql(interval, f"{SESSION} WHERE cardinality(pg_blocking_pids(pid)) > 0")
    if limit.cause == "client-bound":
        return psql(interval, f"{SESSION} WHERE state LIKE $$idle in transaction%$$ ORDER BY xact_start")
    if folder and limit.cause in _OF_DATA:
        return f"pgassay probe {shlex.quote(folder)}"
    if folder and limit.cause in _OF_WAL:
        return f"pgassay probe {shlex.quote(folder + '/pg_wal')}"
    if top is not None and top.query_id is not None:
        return f"pgassay tune {dsn} --only={top.query_id}"
    return f"pgassay watch {dsn}"
