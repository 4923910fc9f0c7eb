"""EXPLAIN of every statement: what is read, and whether asynchronous I/O can serve it.

EXPLAIN runs before the caches are prepared, in a session with the arm's own settings, so it also
warms the catalogs: their reads are not part of any measurement.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgassay.errors import UsageError
from pgassay.model.aio import can_read_asynchronously
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.trial.measure.prepared_plans import document, explain_prepared, is_prepared, rolled_back
from pgassay.trial.trial_state import Plan
from pgassay.workloads.statement_names import split_statements, strip_comments

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

_OPTIONS = "FORMAT JSON, VERBOSE, SETTINGS"
_EXPLAINABLE = ("select", "with", "values", "table", "insert", "update", "delete", "merge")


@dataclass(frozen=True)
class PlanFacts:
    """What a plan says about I/O. `relations`: tables and indexes whose pages it reads."""

    aio: bool
    relations: frozenset[tuple[str, str]]


def explainable(statement: Statement) -> bool:
    """Whether EXPLAIN takes the statement (utility commands and whole transactions have no plan)."""
    return not statement.parts and has_plan(statement.sql)


def has_plan(sql: str) -> bool:
    """The same of a text."""
    words = strip_comments(sql).replace("(", " ").split()
    return bool(words) and words[0].lower() in _EXPLAINABLE


def explain(
    connection: "ControlSession", statement: Statement, prepared_by: WorkloadSpec | None = None
) -> Plan | None:
    """The plan as EXPLAIN (FORMAT JSON, VERBOSE, SETTINGS) gives it, or None without a plan.

    `prepared_by`: the workload, where the plan is to be that of a statement as its load prepares it.
    """
    if not explainable(statement):
        return None
    if prepared_by is not None and is_prepared(prepared_by):
        with rolled_back(connection, "READ ONLY"):
            return explain_prepared(connection, prepared_by, statement, _OPTIONS)[0]
    sql = f"EXPLAIN ({_OPTIONS}) {statement.sql}"
    row = connection.execute(sql.encode(), prepare=False).fetchone()
    return document(row[0] if row else None)


def explain_captured(connection: "ControlSession", statement: Statement) -> Plan | None:
    """The plan of a captured statement for any values of its parameters; None where it has none by itself.

    That is one that another must come before (a temporary table, a search_path), or that is several.
    """
    import psycopg

    try:
        if not explainable(statement) or len(split_statements(statement.sql, statement.name)) != 1:
            return None
        sql = f"EXPLAIN (GENERIC_PLAN, {_OPTIONS}) {statement.sql}"
        with rolled_back(connection, "READ ONLY"):
            row = connection.execute(sql.encode(), prepare=False).fetchone()
    except (UsageError, psycopg.Error):
        return None
    return document(row[0] if row else None)


def nodes(plan: Plan) -> Iterator[Plan]:
    """Every node below and including `plan` (a node, or the document that holds the top one)."""
    node = plan.get("Plan", plan)
    if not isinstance(node, Mapping):
        return
    yield node
    children = node.get("Plans")
    for child in children if isinstance(children, list) else []:
        yield from nodes(child)


def facts(plan: Plan, major: int) -> PlanFacts:
    """AIO eligibility on this major version, and the relations that the plan reads."""
    relations: set[tuple[str, str]] = set()
    aio = False
    for node in nodes(plan):
        kind = str(node["Node Type"])
        aio = aio or can_read_asynchronously(kind, major)
        schema = str(node.get("Schema", ""))
        if "Index Name" in node:
            relations.add((schema, str(node["Index Name"])))
        if "Relation Name" in node and kind not in ("Index Only Scan", "Bitmap Index Scan"):
            relations.add((schema, str(node["Relation Name"])))
    return PlanFacts(aio=aio, relations=frozenset(relations))
