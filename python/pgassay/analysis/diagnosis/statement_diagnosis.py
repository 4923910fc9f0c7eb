"""Each of the statements that took most time: what its calls did, what its plan says, the next command."""

import shlex
from collections.abc import Sequence

from pgassay.analysis.diagnosis.interval import Interval
from pgassay.analysis.diagnosis.sessions import without_constants
from pgassay.analysis.diagnosis.statement_findings import Known, findings_of_statement
from pgassay.analysis.diagnosis.statement_times import StatementTime, statement_times
from pgassay.model.base import PAGE_BYTES
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.running_server.statement import DiagnosedStatement, StatementFinding
from pgassay.plans.explain_plan import read_plans

STATEMENTS_MAX = 6
# Of the time of all statements: what takes less is not listed by itself.
_SHARE_MIN = 0.01


def by_statement(interval: Interval) -> tuple[DiagnosedStatement, ...]:
    """The statements that took most time, the first of most; none of a server whose sessions are hidden."""
    if interval.is_hidden:
        return ()
    times = statement_times(interval)
    listed = [each for each in times if each.share >= _SHARE_MIN][:STATEMENTS_MAX]
    return tuple(_diagnosed(interval, each, times) for each in listed)


def _diagnosed(interval: Interval, time: StatementTime, times: Sequence[StatementTime]) -> DiagnosedStatement:
    planned = next((each for each in interval.planned if each.key == time.key), None)
    plan = _plan(planned.document) if planned is not None else None
    known = Known(
        time=time,
        plan=plan,
        tables={(table.schema, table.name): table for table in interval.tables},
        others=times,
        settings=interval.settings,
        block_bytes=int(interval.settings.get("block_size", PAGE_BYTES)),
    )
    findings = findings_of_statement(known)
    counted = time.counted
    return DiagnosedStatement(
        query_id=time.query_id,
        query=without_constants(time.query),
        seconds=time.seconds,
        share=time.share,
        calls_s=counted.calls / interval.seconds if counted is not None else None,
        mean_ms=counted.mean_ms if counted is not None else None,
        rows=known.rows,
        pages=known.pages,
        waits=dict(time.waits),
        findings=findings,
        command=_command(interval, time, findings),
        plan=_plan(planned.document, redact=True) if planned is not None else None,
        plan_from=planned.plan_from if planned is not None else "",
        plan_missing=planned.missing if planned is not None else "",
    )


def _plan(document: str, *, redact: bool = False) -> ExplainedPlan | None:
    return read_plans(document, "a statement's plan", redact=redact)[0] if document else None


def _command(interval: Interval, time: StatementTime, findings: Sequence[StatementFinding]) -> str:
    """What goes on from here: tune tries what mends it on a copy; of calls one by one, who sends them."""
    if time.query_id is None or not findings:
        return ""
    if findings[0].kind == "one-by-one":
        return psql(
            interval,
            "SELECT usename, application_name, client_addr, count(*) FROM pg_stat_activity "
            f"WHERE query_id = {time.query_id} GROUP BY 1, 2, 3 ORDER BY 4 DESC",
        )
    return f"pgassay tune {shlex.quote(interval.server.connection)} --only={time.query_id}"


def psql(interval: Interval, query: str) -> str:
    """A line for a shell that asks the server."""
    return f"psql {shlex.quote(interval.server.connection)} -c {shlex.quote(query)}"
