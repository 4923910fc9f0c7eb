"""From what a server counted to statements that can be measured: each with values for its parameters.

Values come from the user first, then from the server's log, then from its statistics. A statement without is
left out with the reason, and the others go on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pglast
import psycopg
from pglast import ast
from pglast.parser import ParseError

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError, first_line
from pgassay.model.tuning.source import NO_RIGHT, SourceLeftOut
from pgassay.model.workload import Statement
from pgassay.sql_text import identifier, without_literals
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.tree import RefusedError, cast, read, substitute, walk, write
from pgassay.tune.source.alignment import (
    LIST_ELEMENTS,
    LoggedSets,
    UnlikeError,
    aligned,
    cut_lists,
    list_lengths,
    with_lists,
)
from pgassay.tune.source.counted import SourceStatement
from pgassay.tune.source.few_rows import with_documents, with_values
from pgassay.tune.source.log import LoggedValues
from pgassay.tune.source.passed_on import numbers_of
from pgassay.tune.source.source_server import SourceServer
from pgassay.tune.source.use import Use
from pgassay.tune.source.uses import merged, uses_of
from pgassay.tune.source.values import NoValueError, age_bounds, draw
from pgassay.tune.tuned_statements import values_of_heading, with_sets
from pgassay.words import join
from pgassay.workloads.sql_files import read_sql_file
from pgassay.workloads.statement_names import headed_statements

Values = tuple[str | None, ...]
# By the fingerprint of statements each text that a user's file has of them, with its sets of values.
Given = Mapping[str, Sequence[tuple[str, tuple[Values, ...]]]]
_PREPARED = "pgassay_tune"
# Lines of a log that are no statement of those wanted are told from them by their fingerprint.
_TEXTS_KEPT_MAX = 20_000
_SHOWN_MAX = 100
_SCHEMAS_SHOWN = 2
_NOT_READ = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname::text = ANY (%s) AND n.nspname !~ '^pg_' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE')
            AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')))"""


@dataclass
class WantedStatements:
    """A statement that is to get values. `tree` has one parameter for each constant of the source's text."""

    counted: SourceStatement
    tree: ast.Node
    fingerprint: str
    cut: set[int]
    lengths: Counter[tuple[tuple[int, int], ...]] = field(default_factory=Counter)
    found: LoggedSets = field(default_factory=LoggedSets)
    logged: list[LoggedValues] = field(default_factory=list)


@dataclass(frozen=True)
class ServerStatements:
    """The statements that are measured, those left out, and what was assumed, in sentences."""

    statements: tuple[TunedStatement, ...]
    left_out: tuple[SourceLeftOut, ...]
    notes: tuple[str, ...] = ()


def given_values(path: Path) -> Given:
    """The texts of a user's file and their sets of values, by fingerprint.

    The file is one of statements, `-- parameters: …` above each. Raises UsageError for one that is none.
    """
    found: dict[str, dict[str, tuple[Values, ...]]] = {}
    for number, (heading, text) in enumerate(headed_statements(read_sql_file(path), str(path)), start=1):
        sets = values_of_heading(heading, f"{path}, statement {number}")
        if not sets:
            raise UsageError(
                f"{path}, statement {number} has no line '-- parameters: …' above it: write its values there"
            )
        try:
            alike = found.setdefault(pglast.fingerprint(text), {})
        except ParseError as error:
            raise UsageError(f"{path}, statement {number}: {error.args[0]}: correct its SQL") from None
        alike[text] = (*alike.get(text, ()), *sets)
    return {name: tuple(alike.items()) for name, alike in found.items()}


def unmatched(given: Given, chosen: Iterable[SourceStatement]) -> list[str]:
    """The beginnings of a user's statements that are none of those of the server, without their literals."""
    known = {pglast.fingerprint(each.sql) for each in chosen}
    texts = [text for name, alike in given.items() if name not in known for text, _ in alike]
    return [" ".join(without_literals(text).split())[:_SHOWN_MAX] for text in texts]


def gather(
    source: SourceServer,
    session: ControlSession,
    chosen: Iterable[SourceStatement],
    given: Given,
    log: Iterable[LoggedValues],
) -> ServerStatements:
    """Give every statement its sets of values; raises UsageError where a user's values don't fit."""
    wanted = [_wanted(each) for each in chosen]
    read_logged(wanted, log, source.resolved.server.dbname)
    statements: list[TunedStatement] = []
    left_out: list[SourceLeftOut] = []
    notes: list[str] = []
    calls_min = min((each.counted.calls for each in wanted), default=1.0)
    for each in wanted:
        counted = each.counted
        try:
            sql, sets, assumed = _with_values(source, session, each, given)
            statement = with_sets(Statement(name=counted.name, sql=sql), sets, source.name)
        except (NoValueError, RefusedError, UsageError) as error:
            if isinstance(error, UsageError) and each.fingerprint in given:
                raise
            reason = str(error)
            if isinstance(error, NoValueError):
                reason += out_of_path(each.tree, source.facts)
                reason += _lack_of_rights(session, source.role, each.tree)
            left_out.append(
                SourceLeftOut(name=counted.name, sql=counted.sql, share=counted.share, reason=reason)
            )
            continue
        notes += [f"{counted.name}: {sentence}" for sentence in assumed]
        weight = float(f"{counted.calls / calls_min:.4g}")
        statements.append(statement.model_copy(update={"weight": weight}))
    return ServerStatements(tuple(statements), tuple(left_out), tuple(notes))


def out_of_path(tree: ast.Node, facts: SchemaFacts) -> str:
    """Which schema to name for a table that the search path lacks, as the end of a reason; '' else."""
    named = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
    for node in walk(tree):
        if not isinstance(node, ast.RangeVar) or node.schemaname or node.relname in named:
            continue
        name = str(node.relname)
        schemas = sorted({table.schema_ for table in facts.tables if table.name == name})
        if schemas and facts.table(name) is None:
            more = len(schemas) - _SCHEMAS_SHOWN
            where = join([*schemas[:_SCHEMAS_SHOWN], *([f"{more} more"] if more > 0 else [])])
            return (
                f"; {name} is in {where}, which the search path does not have: name one in the connection "
                "string (options=-csearch_path=SCHEMA)"
            )
    return ""


def _lack_of_rights(session: ControlSession, role: str, tree: ast.Node) -> str:
    """What to grant, as the end of a reason; '' where the role may read all tables of the statement."""
    names = [str(node.relname) for node in walk(tree) if isinstance(node, ast.RangeVar)]
    row = session.execute(_NOT_READ, (names,)).fetchone()
    if row is None or not row[0]:
        return ""
    return f"; the role {role} {NO_RIGHT}: type GRANT pg_read_all_data TO {identifier(role)} there"


def _wanted(counted: SourceStatement) -> WantedStatements:
    tree = merged(read(counted.sql))
    return WantedStatements(counted, tree, pglast.fingerprint(counted.sql), cut_lists(counted.sql))


def _with_values(
    source: SourceServer,
    session: ControlSession,
    wanted: WantedStatements,
    given: Given,
) -> tuple[str, tuple[Values, ...], tuple[str, ...]]:
    """(the statement's text, its sets of values, what was assumed)."""
    if wanted.fingerprint in given:
        return (*_most_alike(wanted.tree, given[wanted.fingerprint]), ())
    if not numbers_of(wanted.tree):
        return wanted.counted.sql, (), ()
    if wanted.found.calls:
        tree = _as_numeric(_with_logged_lists(wanted), wanted.found.numeric)
        return write(tree), wanted.found.chosen(), ()
    tree = with_lists(wanted.tree, dict.fromkeys(wanted.cut, LIST_ELEMENTS))
    uses = uses_of(tree, source.facts)
    sql = write(tree)
    types = types_of(session, sql) if any(use.kind == "output" for use in uses.values()) else {}
    counted = wanted.counted
    uses = with_values(session, with_documents(session, uses, counted.rows / counted.calls))
    drawn = draw(uses, types, counted.rows / counted.calls, _ages(session, uses))
    assumed = [*drawn.assumed]
    if wanted.cut:
        assumed.append(f"lists whose length is not recorded were assumed to have {LIST_ELEMENTS} elements")
    return sql, drawn.sets, tuple(assumed)


def _most_alike(
    tree: ast.Node, texts: Sequence[tuple[str, tuple[Values, ...]]]
) -> tuple[str, tuple[Values, ...]]:
    """Of a user's texts with its fingerprint the one that differs in constants alone, else the last."""
    for sql, sets in texts:
        try:
            aligned(tree, LoggedValues(sql, sets[0]))
        except UnlikeError:
            continue
        return sql, sets
    return texts[-1]


# --- From a log.


def read_logged(wanted: Iterable[WantedStatements], log: Iterable[LoggedValues], database: str) -> None:
    """Count the values with which a log has each of the statements, into their `found`.

    Statements whose lists are of other lengths have one fingerprint: each takes those of its own length.
    Where it shows lists of several lengths in the place of one that the server has cut, the most frequent
    length is taken, and the executions that had it.
    """
    by_print: dict[str, list[WantedStatements]] = {}
    for each in wanted:
        by_print.setdefault(each.fingerprint, []).append(each)
    fingerprints: dict[str, str] = {}
    for logged in log:
        if logged.database and logged.database != database:
            continue
        if logged.sql not in fingerprints:
            if len(fingerprints) >= _TEXTS_KEPT_MAX:
                fingerprints.clear()
            fingerprints[logged.sql] = _fingerprint(logged.sql)
        for statement in by_print.get(fingerprints[logged.sql], ()):
            if statement.cut:
                lengths = list_lengths(statement.tree, read(logged.sql), statement.cut)
                statement.lengths[tuple(sorted(lengths.items()))] += 1
                statement.logged.append(logged)
                del statement.logged[:-_TEXTS_KEPT_MAX]
            else:
                _count(statement, statement.tree, logged)
    for statement in (each for alike in by_print.values() for each in alike):
        if statement.lengths:
            tree = _with_logged_lists(statement)
            for logged in statement.logged:
                _count(statement, tree, logged)


def _with_logged_lists(wanted: WantedStatements) -> ast.Node:
    if not wanted.lengths:
        return wanted.tree
    return with_lists(wanted.tree, dict(wanted.lengths.most_common(1)[0][0]))


def _fingerprint(sql: str) -> str:
    try:
        return str(pglast.fingerprint(sql))
    except (ParseError, RecursionError):
        return ""


def _count(wanted: WantedStatements, tree: ast.Node, logged: LoggedValues) -> None:
    try:
        values, numeric = aligned(tree, logged)
    except UnlikeError:
        return
    wanted.found.numeric |= numeric
    last = max(numbers_of(tree), default=0)
    wanted.found.add(tuple(values.get(number) for number in range(1, last + 1)), logged.duration_ms)


def _as_numeric(tree: ast.Node, numbers: set[int]) -> ast.Node:
    """Parameters that stood for numbers with a fraction say so: an integer column would refuse their text."""
    found = [each for each in walk(tree) if isinstance(each, ast.ParamRef) and each.number in numbers]
    return substitute(tree, {id(each): cast(ast.ParamRef(number=each.number), "numeric") for each in found})


# --- From the server, which is asked and never changed. A session that it ends is an error of psycopg's.


def types_of(session: ControlSession, sql: str) -> dict[int, str]:
    """The types that the server gives the parameters; {} where it can't tell, as its own EXPLAIN will say."""
    try:
        with session.transaction(force_rollback=True):
            session.execute(f"PREPARE {_PREPARED} AS {sql}".encode(), prepare=False)
            row = session.execute(
                "SELECT parameter_types::text[] FROM pg_catalog.pg_prepared_statements WHERE name = %s",
                (_PREPARED,),
            ).fetchone()
            session.execute(f"DEALLOCATE {_PREPARED}".encode(), prepare=False)
    except psycopg.Error:
        if session.closed:
            raise
        _forget(session)
        return {}
    return dict(enumerate(row[0], start=1)) if row else {}


def _forget(session: ControlSession) -> None:
    """A prepared statement outlives the transaction that failed after it."""
    session.execute(b"DEALLOCATE ALL", prepare=False)


def _ages(session: ControlSession, uses: Mapping[int, Use]) -> dict[str, str]:
    """How long ago moments of the statistics were, as intervals in PostgreSQL's text form."""
    found: dict[str, str] = {}
    for bound in age_bounds(uses):
        try:
            row = session.execute(
                "SELECT (pg_catalog.now() - %s::timestamptz)::text", (bound,), prepare=False
            ).fetchone()
        except psycopg.Error:
            if session.closed:
                raise
            continue  # no moment: the statement is left out with the reason
        if row is not None:
            found[bound] = str(row[0])
    return found


def explained_on(session: ControlSession, sql: str) -> tuple[object, str]:
    """(the server's plan as EXPLAIN's JSON, why it has none or ''). The statement is not executed."""
    try:
        row = session.execute(
            f"EXPLAIN (VERBOSE, SETTINGS, FORMAT JSON) {sql}".encode(), prepare=False
        ).fetchone()
    except psycopg.Error as error:
        if session.closed:
            raise
        return None, error.diag.message_primary or first_line(error)
    return (row[0][0] if row else {}), ""
