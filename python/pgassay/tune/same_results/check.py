"""Whether another statement returns the same rows as the original.

Both run in one snapshot on the data, for every set of parameters, and their rows are compared as bags, in
their order where the original orders them. Then they run on small instances made from the schema, which
hold what data seldom do: NULLs, copies, empty groups, ties, boundaries. A difference is a proof; equality
is evidence, and the verdict says how much.
"""

import random
from dataclasses import dataclass, replace
from typing import Literal

from pglast import ast
from pglast.enums import SetOperation
from psycopg import Connection, OperationalError, pq
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from pgassay.experiment.running.result_bag import FLOATS_UNKNOWN, WITHIN_ROUNDING
from pgassay.tune.candidate import RewriteProof, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.conditions.decided import why_undecided
from pgassay.tune.rewrites.conditions.orders import has_total_order
from pgassay.tune.rewrites.names.outputs import output_expression
from pgassay.tune.rewrites.names.tree_scopes import scopes_by_select
from pgassay.tune.rewrites.tree import RefusedError, items, meaning, names_of, read, write
from pgassay.tune.same_results.instances import Scratch, read_tables, without_schemas
from pgassay.tune.same_results.rows import (
    QUERY_CANCELED,
    CommandError,
    Outcome,
    Row,
    RowOrder,
    command,
    difference,
    run,
)
from pgassay.tune.same_results.values import constants

Verdict = Literal["proven", "equal", "different", "not checked"]
INSTANCES = 100
TIMEOUT_MS = 60_000
ROWS_MAX = 5_000_000


@dataclass(frozen=True)
class SameResults:
    """The verdict and what it rests on.

    `instances` is how many small instances agreed, `with_rows` how many of them gave a row that empty tables
    do not give: count(*) has one whatever the conditions are.
    `counterexample` is the parameters and the rows on which they differ. "equal" never says more than that
    no difference was found. `is_rounded`: floats of the data are the same within rounding alone.
    """

    verdict: Verdict
    reason: str
    instances: int = 0
    with_rows: int = 0
    counterexample: str | None = None
    is_rounded: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the other statement may take the original's place."""
        return self.verdict in ("proven", "equal")

    @property
    def words(self) -> str:
        """As reports say it: "proven", "equal on 40 instances", "different", "not checked"."""
        said = f"equal on {self.instances} instances" if self.verdict == "equal" else self.verdict
        return f"{said}; {WITHIN_ROUNDING}" if self.accepted and self.is_rounded else said


class _DecidedError(Exception):
    """What was found decides; carries the verdict."""

    def __init__(self, result: SameResults) -> None:
        super().__init__(result.reason)
        self.result = result


def same_results(
    connection: "Connection[TupleRow]",
    original: TunedStatement,
    other_sql: str,
    facts: SchemaFacts,
    *,
    proof: RewriteProof | None = None,
    on_data: bool = True,
    instances: int = INSTANCES,
    seed: int = 1,
    timeout_ms: int = TIMEOUT_MS,
    rows_max: int = ROWS_MAX,
) -> SameResults:
    """Compare a statement with another that is meant to return the same rows.

    `connection` is one to the copy, outside of a transaction; nothing that is done stays. `proof` is the
    rewrite's: with "proven", equality on all that was run is "proven". Each run of a statement has
    `timeout_ms`. `on_data`: whether they are run on the data as well, which an original that does not end
    can't be. Raises psycopg.OperationalError when the connection is lost.
    """
    try:
        trees = (read(original.sql), read(other_sql))
        order = _order(trees, facts)
    except RefusedError as reason:
        return SameResults("not checked", str(reason))
    for tree in trees:
        undecided = "the original changes data" if original.writes else why_undecided(tree, facts)
        if undecided is not None:
            return SameResults("not checked", undecided)
    session = connection.pgconn
    if session.transaction_status != pq.TransactionStatus.IDLE:
        return SameResults("not checked", "the connection is in a transaction")
    sets = original.parameters or ((),)
    try:
        rows, is_rounded = None, False
        if on_data:
            texts = (original.sql, other_sql)
            rows, is_rounded = _on_data(session, texts, sets, order, timeout_ms, rows_max)
        wanted = _Wanted(proof, instances, seed, timeout_ms, rows)
        found = _on_instances(session, trees, sets, order, facts, wanted)
        return replace(found, is_rounded=is_rounded)
    except _DecidedError as decided:
        return decided.result
    except CommandError as error:
        if session.status != pq.ConnStatus.OK:
            raise OperationalError(str(error)) from error
        return SameResults("not checked", f"the check itself failed: {str(error).strip()}")


@dataclass(frozen=True)
class _Wanted:
    proof: RewriteProof | None
    instances: int
    seed: int
    timeout_ms: int
    data_rows: int | None


def _order(trees: tuple[ast.Node, ...], facts: SchemaFacts) -> RowOrder:
    """What of the original's order has to be kept. Raises `RefusedError` where that can't be seen in the
    rows."""
    tree, other = trees
    if not isinstance(tree, ast.SelectStmt) or not tree.sortClause:
        return RowOrder()
    scopes = scopes_by_select(tree, facts)
    if has_total_order(tree, scopes):
        return RowOrder(total=True)
    places = []
    for item in items(tree.sortClause):
        place = _place(tree, item)
        if place is None:
            break
        places.append(place)
    same_clause = isinstance(other, ast.SelectStmt) and meaning(other.sortClause) == meaning(tree.sortClause)
    if len(places) < len(items(tree.sortClause)) and not same_clause:
        raise RefusedError(
            "it is ordered by a column that is not in its output, so the order can't be compared"
        )
    return RowOrder(keys=tuple(places))


def _place(tree: ast.SelectStmt, item: ast.Node) -> int | None:
    """The place of the output column that an item of ORDER BY sorts by."""
    assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
    first = tree
    while first.op != SetOperation.SETOP_NONE and first.larg is not None:
        first = first.larg
    try:
        value = output_expression(first, item.node, None)
    except RefusedError:
        return None
    for number, node in enumerate(items(first.targetList)):
        if isinstance(node, ast.ResTarget) and node.val is not None:
            if isinstance(node.val, ast.ColumnRef) and "*" in names_of(node.val):
                return None
            if node.val is value or meaning(node.val) == meaning(value):
                return number
    return None


def _on_data(
    session: PGconn,
    texts: tuple[str, str],
    sets: tuple[Row, ...],
    order: RowOrder,
    timeout_ms: int,
    rows_max: int,
) -> tuple[int, bool]:
    """How many rows came, and whether only the rounding of floats differs, on the data in one snapshot.

    Raises `_DecidedError`.
    """
    command(session, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        command(session, f"SET LOCAL statement_timeout = {timeout_ms}")
        rows, is_rounded = 0, False
        for values in sets:
            one, other = (run(session, text, values, order, rows_max) for text in texts)
            is_rounded |= _compare(one, other, values, "the data")
            rows += one.bag.rows
        return rows, is_rounded
    finally:
        command(session, "ROLLBACK")


def _compare(one: Outcome, other: Outcome, values: Row, where: str) -> bool:
    """Whether they are the same within the rounding of floats alone; raises `_DecidedError` for others."""
    late = [outcome for outcome in (one, other) if outcome.error == QUERY_CANCELED]
    if late:
        raise _DecidedError(SameResults("not checked", f"it exceeded its time limit on {where}"))
    if one.too_many or other.too_many:
        raise _DecidedError(
            SameResults("not checked", f"it returns more than {one.bag.rows} rows on {where}")
        )
    found = difference(one, other)
    if found == FLOATS_UNKNOWN:
        raise _DecidedError(SameResults("not checked", f"on {where} {found}"))
    if found is not None:
        given = "".join(f"${number} = {value}; " for number, value in enumerate(values, 1))
        example = f"{given}the original: {one.shown()}; the other: {other.shown()}"
        raise _DecidedError(SameResults("different", f"on {where} {found}", counterexample=example))
    return one.bag.is_rounded_to(other.bag)


def _on_instances(
    session: PGconn,
    trees: tuple[ast.Node, ...],
    sets: tuple[Row, ...],
    order: RowOrder,
    facts: SchemaFacts,
    wanted: _Wanted,
) -> SameResults:
    try:
        tables = read_tables(trees, facts)
        texts = tuple(write(without_schemas(tree, tables)) for tree in trees)
    except RefusedError as reason:
        return _judged(wanted, 0, 0, f"no instances: {reason}")
    command(session, "BEGIN")
    try:
        command(session, f"SET LOCAL statement_timeout = {wanted.timeout_ms}")
        command(session, "SET LOCAL client_min_messages = error")
        scratch = Scratch(session, tables, constants(trees, sets))
        with_rows = 0
        # The first instance has no row at all.
        empty: Outcome | None = None
        for number in range(wanted.instances):
            instance = scratch.instance(number, wanted.seed)
            command(session, "SAVEPOINT pgassay_instance")
            scratch.fill(instance)
            values = _values(sets, number, wanted.seed)
            one, other = (run(session, text, values, order) for text in texts)
            try:
                _compare(one, other, values, "a small instance")
            except _DecidedError as found:
                raise _with_content(found.result, scratch) from found
            empty = empty or one
            with_rows += bool(one.bag.rows) and difference(empty, one) is not None
            command(session, "ROLLBACK TO SAVEPOINT pgassay_instance")
        return _judged(wanted, wanted.instances, with_rows, "")
    finally:
        command(session, "ROLLBACK")


def _with_content(result: SameResults, scratch: Scratch) -> _DecidedError:
    content = "; ".join(scratch.content())
    example = f"{content or 'empty tables'}; {result.counterexample}"
    return _DecidedError(SameResults(result.verdict, result.reason, counterexample=example))


def _values(sets: tuple[Row, ...], number: int, seed: int) -> Row:
    """The parameters of an instance: the given sets in turn; in every fifth instance one value is NULL."""
    values = sets[number % len(sets)]
    if values and number % 5 == 4:
        place = random.Random(f"{seed}/{number}/NULL").randrange(len(values))
        values = (*values[:place], None, *values[place + 1 :])
    return values


def _judged(wanted: _Wanted, instances: int, with_rows: int, missing: str) -> SameResults:
    """The verdict when no difference was found."""
    rows = "" if wanted.data_rows is None else f"in {wanted.data_rows} rows of the data"
    both, equal = (f"{rows} and ", f"equal {rows}, and ") if rows else ("", "")
    if wanted.proof == "proven":
        reason = f"proven by keys and constraints; no difference {both}on {instances} instances"
        return SameResults("proven", reason, instances, with_rows)
    if missing:
        return SameResults("not checked", f"{equal}{missing}")
    if not with_rows:
        return SameResults("not checked", f"{equal}no instance gave a row of its own", instances)
    reason = f"no difference {both}on {instances} instances, {with_rows} of them with rows"
    return SameResults("equal", reason, instances, with_rows)
