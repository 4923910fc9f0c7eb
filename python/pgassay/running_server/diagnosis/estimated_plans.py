"""The plans of the statements that took most time, asked for by EXPLAIN and never executed.

A statement that was seen with its values is planned with these; one with parameters is planned for any
values (`EXPLAIN (GENERIC_PLAN)`, since 16; a prepared statement before that). The planner's settings are
those that a session of this role has on the server.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg
from pglast import ast

from pgassay.analysis.diagnosis.interval import Interval, PlannedStatement, Referencing, TableShape
from pgassay.analysis.diagnosis.statement_times import StatementTime, statement_times
from pgassay.environment.remote.read_only import READING
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError, first_line
from pgassay.model.running_server.statement import PlanFrom
from pgassay.plans.explain_plan import read_plans
from pgassay.running_server.open_server import OpenServer
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import IndexFacts, IndexKey, SchemaFacts, TableFacts
from pgassay.tune.rewrites.tree import RefusedError, names_of, read, walk, write
from pgassay.tune.source.counted import kind_of
from pgassay.tune.source.uses import merged
from pgassay.words import join

_APPLICATION = "pgassay diagnose plans"
PLANNED_MAX = 6
_GENERIC_MAJOR_MIN = 16
_PARAMETER = re.compile(r"\$(\d+)")
_SUM = re.compile(r"(\$\d+)(?:\s*[-+*/]\s*\$\d+)+")
_OPTIONS = "FORMAT JSON, VERBOSE"
_NO_TABLE = "42P01"
_NO_RIGHT = "42501"
# The tables whose rows of pg_stats the role may not see (src/backend/catalog/system_views.sql).
_HIDDEN = (
    "SELECT nspname::text, relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = relnamespace WHERE relkind IN ('r', 'p', 'm') AND "
    "(NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT') OR pg_catalog.row_security_active(c.oid))"
)
# The partitioned table of each partition, both by schema and name.
_Parents = Mapping[tuple[str, str], tuple[str, str]]
# Of VERBOSE only the schemas are wanted.
_OUTPUT = "Output"


@dataclass(frozen=True)
class _Text:
    """A statement's text, and whether its values stand in it."""

    text: str
    has_values: bool


def with_plans(
    target: OpenServer, interval: Interval, seen: Mapping[str, str], counted: Mapping[str, str]
) -> Interval:
    """The interval with the plans of the statements that took most, and with the tables that they read.

    seen: whole texts of calls by the statement's key; counted: texts with parameters by its number. What
    can't be planned has the reason.
    """
    times = (time for time in statement_times(interval) if time.share > 0)
    wanted = [time for time in times if not _is_transaction_s(time.query)][:PLANNED_MAX]
    if not wanted or interval.is_hidden:
        return interval
    try:
        with target.session(_APPLICATION, READING | {"statement_timeout": "5s"}) as session:
            facts = read_facts(session)
            hidden = frozenset(session.execute(_HIDDEN).fetchall() if facts.tables else ())
            # The planner executes what its maker calls immutable: no function of a user as a superuser.
            avoided = {each.name for each in facts.functions} if target.is_superuser else set()
            planner = _Planner(session, target.major, frozenset(avoided), facts)
            planned = [_planned(planner, time, seen, counted) for time in wanted]
    except (psycopg.Error, UsageError) as error:
        reason = first_line(error) if isinstance(error, psycopg.Error) else str(error)
        missing = f"the plans of its statements: {reason}"
        return replace(interval, missing=(*interval.missing, missing))
    return replace(interval, planned=tuple(planned), tables=tuple(_tables(planned, facts, hidden)))


def _is_transaction_s(query: str) -> bool:
    """Whether it is a COMMIT or another statement of transactions: they have no plan."""
    try:
        return isinstance(read(query), ast.TransactionStmt)
    except RefusedError:
        return False


@dataclass(frozen=True)
class _Planner:
    """A session of a server of this version; avoided: functions whose callers are not planned in it."""

    session: ControlSession
    major: int
    avoided: frozenset[str]
    facts: SchemaFacts


def _planned(
    planner: _Planner, time: StatementTime, seen: Mapping[str, str], counted: Mapping[str, str]
) -> PlannedStatement:
    reason = "its text is truncated"
    for each in _texts_of(time, seen, counted):
        plan_from: PlanFrom = "values of a call" if each.has_values else "generic plan"
        try:
            tree = read(each.text)
            if kind_of(tree):
                reason = "it is not a query, INSERT, UPDATE, DELETE or MERGE of tables"
                continue
            called = _called(tree) & planner.avoided
            if called:
                reason = (
                    f"it calls {min(called)}, which planning may execute: diagnose as a role that is not a "
                    "superuser (pg_monitor and pg_read_all_data)"
                )
                continue
            document = json.dumps(_without_output(_plan(planner, each, tree)))
            read_plans(document, f"the plan of {time.key}")
        except RefusedError:
            reason = "its text holds several statements, or is cut"
        except psycopg.Error as error:
            reason = _reason(error)
        except UsageError as error:
            reason = str(error)
        else:
            return PlannedStatement(time.key, document, plan_from)
    return PlannedStatement(time.key, "", "", reason)


def _texts_of(time: StatementTime, seen: Mapping[str, str], counted: Mapping[str, str]) -> Iterator[_Text]:
    """The texts to plan it by: as a call had it, then as it was counted."""
    texts = [seen.get(time.key, ""), counted.get(time.query_id or "", "")]
    yield from map(_text, filter(None, texts))
    if texts[1]:
        # Where each constant became a parameter, `1 + 2` has no types any more, and one parameter alone has;
        # constants that had to be equal must be so again.
        with suppress(RefusedError):
            yield _text(write(merged(read(_SUM.sub(r"\1", texts[1])))))


def _text(text: str) -> _Text:
    """Of one without a constant nothing is missing, so that it counts as one with its values."""
    return _Text(text, has_values=not _PARAMETER.search(text))


def _called(tree: ast.Node) -> set[str]:
    return {names_of(node.funcname)[-1] for node in walk(tree) if isinstance(node, ast.FuncCall)}


def _reason(error: psycopg.Error) -> str:
    if error.sqlstate == _NO_TABLE:
        return f"{first_line(error)}: name its own database in the connection string"
    if error.sqlstate == _NO_RIGHT:
        return (
            f"{first_line(error)}: EXPLAIN needs the rights of the statement (pg_read_all_data for queries)"
        )
    return first_line(error)


def _plan(planner: _Planner, each: _Text, tree: ast.Node) -> object:
    """What EXPLAIN says of it; where a table is not found by the search path, in all schemas.

    Raises UsageError where several of them have one of that name: whose is meant is not known.
    """
    session = planner.session
    try:
        return _asked(session, planner.major, each)
    except psycopg.Error as error:
        if error.sqlstate != _NO_TABLE:
            raise
    refuse_unclear(tree, planner.facts)
    session.execute(
        "SELECT pg_catalog.set_config('search_path', pg_catalog.string_agg(pg_catalog.quote_ident(nspname), "
        "',' ORDER BY nspname <> ALL (pg_catalog.current_schemas(false)), nspname), false) "
        "FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' "
        "AND pg_catalog.has_schema_privilege(oid, 'USAGE')"
    )
    try:
        return _asked(session, planner.major, each)
    finally:
        session.execute("RESET search_path")


def refuse_unclear(tree: ast.Node, facts: SchemaFacts) -> None:
    """Raise UsageError for a table that several schemas have, and none of the search path: as of tenants."""
    known = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
    for node in walk(tree):
        if not isinstance(node, ast.RangeVar) or node.schemaname or node.relname in known:
            continue
        schemas = (
            []
            if facts.table(str(node.relname))
            else sorted(each.schema_ for each in facts.tables if each.name == node.relname)
        )
        if len(schemas) > 1:
            more = [f"{len(schemas) - 2} more"] if schemas[2:] else []
            raise UsageError(
                f"{node.relname} is in the schemas {join([*schemas[:2], *more])}: name one in the connection "
                "string, options=-csearch_path=SCHEMA"
            )


def _asked(session: ControlSession, major: int, each: _Text) -> object:
    if each.has_values:
        # The extended protocol takes one statement alone, whatever the text is.
        return _first(session.execute(f"EXPLAIN ({_OPTIONS}) {each.text}".encode(), prepare=True))
    if major >= _GENERIC_MAJOR_MIN:
        # A parameter without a value is taken in the simple protocol alone; `read` has found one statement.
        return _first(session.execute(f"EXPLAIN ({_OPTIONS}, GENERIC_PLAN) {each.text}".encode()))
    nulls = ", ".join(["NULL"] * max(int(number) for number in _PARAMETER.findall(each.text)))
    session.execute("SET plan_cache_mode = force_generic_plan")
    session.execute(f"PREPARE pgassay_diagnose AS {each.text}".encode())
    try:
        return _first(session.execute(f"EXPLAIN ({_OPTIONS}) EXECUTE pgassay_diagnose({nulls})".encode()))
    finally:
        with suppress(psycopg.Error):
            session.execute("DEALLOCATE pgassay_diagnose")


def _first(cursor: "psycopg.Cursor[tuple[object, ...]]") -> object:
    row = cursor.fetchone()
    return row[0] if row else None


def _without_output(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_output(each) for name, each in value.items() if name != _OUTPUT}
    if isinstance(value, list):
        return [_without_output(each) for each in value]
    return value


# --- The tables.


def _tables(
    planned: Sequence[PlannedStatement], facts: SchemaFacts, hidden: frozenset[tuple[object, ...]]
) -> Iterator[TableShape]:
    names = {
        (node.relation_schema or "", node.relation)
        for each in planned
        if each.document
        for node in read_plans(each.document, each.key)[0].nodes
        if node.relation
    }
    for table in facts.tables:
        if (table.schema_, table.name) in names:
            yield _shape(table, facts, is_hidden=(table.schema_, table.name) in hidden)


def _shape(table: TableFacts, facts: SchemaFacts, *, is_hidden: bool) -> TableShape:
    # Of a table that was never analyzed or vacuumed pg_class says so to everybody (reltuples is -1).
    is_analyzed = table.rows >= 0 if is_hidden else any(each.distinct is not None for each in table.columns)
    return TableShape(
        schema=table.schema_,
        name=table.name,
        rows=table.rows,
        changed_rows=table.changed_since_analyze,
        is_analyzed=is_analyzed,
        indexes={
            index.name: tuple(map(_key_with_class, index.keys))
            for index in table.indexes
            if index.valid and index.method == "btree" and index.predicate is None
        },
        referencing=tuple(_referencing(table, facts.tables)),
        types={column.name: column.own_type for column in table.columns},
        partition_of=_top_of(table, _parents(facts.tables)),
    )


def _key_with_class(key: IndexKey) -> str:
    """A key as SQL, with the operator class that has it serve patterns."""
    return f"{key.sql} {key.opclass}" if key.opclass.endswith("_pattern_ops") else key.sql


def _parents(tables: Sequence[TableFacts]) -> _Parents:
    return {
        (each.schema_, each.name): (each.parent_schema or "", each.parent) for each in tables if each.parent
    }


def _top_of(table: TableFacts, parents: _Parents) -> tuple[str, str] | None:
    """The partitioned table that a partition belongs to, through all levels; None for none."""
    top = parents.get((table.schema_, table.name))
    while top is not None and top in parents:
        top = parents[top]
    return top


def _keys(index: IndexFacts) -> tuple[str, ...]:
    return tuple(key.column or f"({key.expression})" for key in index.keys)


def _referencing(table: TableFacts, others: Sequence[TableFacts]) -> Iterator[Referencing]:
    keys = {
        (other.schema_, other.name): {
            each.columns
            for each in other.constraints
            if each.kind == "foreign"
            and (each.referenced_schema, each.referenced_table) == (table.schema_, table.name)
        }
        for other in others
    }
    for other in others:
        # A partition has the keys of its partitioned table, where their index goes.
        inherited = keys.get((other.parent_schema or "", other.parent or ""), set())
        for columns in sorted(keys[other.schema_, other.name] - inherited):
            yield Referencing(
                schema=other.schema_,
                table=other.name,
                columns=columns,
                rows=_rows(other, others),
                is_indexed=any(
                    set(_keys(index)[: len(columns)]) == set(columns)
                    for index in other.indexes
                    if index.valid and index.predicate is None
                ),
                is_partitioned=other.kind == "partitioned",
            )


def _rows(table: TableFacts, others: Sequence[TableFacts]) -> float:
    """Its rows; autovacuum never counts those of a partitioned table."""
    if table.kind != "partitioned":
        return table.rows
    top, parents = (table.schema_, table.name), _parents(others)
    return sum(
        max(0.0, each.rows) for each in others if each.kind == "table" and _top_of(each, parents) == top
    )
