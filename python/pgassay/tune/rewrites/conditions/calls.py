"""Calls of functions and aggregates: whose they are, and whether the data alone decide what they return."""

from collections.abc import Iterator, Mapping

from pglast import ast

from pgassay.tune.facts.schema import FunctionFacts, SchemaFacts
from pgassay.tune.rewrites.functions import (
    AGGREGATES,
    ARBITRARY_AGGREGATES,
    DECIDED_FUNCTIONS,
    NOW_LIKE,
    ORDERED_AGGREGATES,
    SET_RETURNING,
    TIE_PROOF_WINDOWS,
    TIED_WINDOWS,
)
from pgassay.tune.rewrites.names.data_types import KNOWN_TYPES
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, children, items, meaning, names_of, walk

LISTED = DECIDED_FUNCTIONS | AGGREGATES | TIE_PROOF_WINDOWS | TIED_WINDOWS | {"age"}
_ANY_TYPES = frozenset({'"any"', "any", "anyelement", "anyarray", "anynonarray", "anycompatible", ""})


def is_aggregate(node: object) -> bool:
    """A call of an aggregate that is no window function; rank() WITHIN GROUP is one too."""
    if not isinstance(node, ast.FuncCall) or node.over is not None:
        return False
    return names_of(node.funcname)[-1] in AGGREGATES or bool(node.agg_within_group)


def aggregates_of(value: ast.Node) -> list[ast.FuncCall]:
    """The aggregates in an expression, those of its subqueries too."""
    return [one for one in walk(value) if isinstance(one, ast.FuncCall) and is_aggregate(one)]


def has_aggregates(select: ast.SelectStmt) -> bool:
    """Whether the SELECT itself (not a subquery of it) is grouped."""
    if select.groupClause or select.havingClause:
        return True
    parts = (select.targetList, select.sortClause)
    return any(is_aggregate(node) for part in parts for node in walk(part, into_selects=False))


def returns_set(call: ast.FuncCall, facts: SchemaFacts) -> bool:
    """Whether the call may give several rows, or none."""
    own = own_functions(call, facts)
    return names_of(call.funcname)[-1] in SET_RETURNING or any(one.returns_set for one in own)


def returns_sets(select: ast.SelectStmt, facts: SchemaFacts) -> bool:
    """Whether the output may hold several rows for one, so that what tells rows apart tells these not."""
    return any(
        isinstance(node, ast.FuncCall) and returns_set(node, facts)
        for node in walk((select.targetList, select.groupClause, select.sortClause), into_selects=False)
    )


def own_functions(node: ast.FuncCall, facts: SchemaFacts) -> list[FunctionFacts]:
    """The functions of users that a call may mean by its name."""
    words = names_of(node.funcname)
    if words[:-1] == ("pg_catalog",):
        return []
    return [one for one in facts.functions if one.name == words[-1] and words[:-1] in ((), (one.schema_,))]


def is_builtin(node: ast.FuncCall, facts: SchemaFacts) -> bool:
    """Whether the call means PostgreSQL's own function of that name, and can mean no user's."""
    words, own = names_of(node.funcname), own_functions(node, facts)
    if words[:-1]:
        return words[:-1] == ("pg_catalog",)
    return not (_hiding(own, facts) if words[-1] in LISTED else own)


def _hiding(own: list[FunctionFacts], facts: SchemaFacts) -> list[FunctionFacts]:
    """Those that a name without a schema may choose in place of PostgreSQL's own."""
    return [one for one in own if one.schema_ in facts.search_path and _may_hide(one)]


def _may_hide(function: FunctionFacts) -> bool:
    """Whether arguments of PostgreSQL's own types can choose it; min(citext) of an extension needs others."""
    types = KNOWN_TYPES | _ANY_TYPES
    parts = [part.strip() for part in function.arguments.split(",")]
    return all(part in types or any(part.endswith(f" {kind}") for kind in types if kind) for part in parts)


def why_undecided_call(node: ast.FuncCall, facts: SchemaFacts) -> str | None:
    """Why the call's value is not decided by the data alone; None when it is."""
    words = names_of(node.funcname)
    name = words[-1]
    own = own_functions(node, facts)
    if any(one.volatility == "v" for one in own):
        return f"{name}() is volatile"
    if any(one.kind in ("a", "w") for one in own) and name not in AGGREGATES:
        return f"{name}() is an aggregate or a window function of your own"
    # The rules know PostgreSQL's own functions by their names alone.
    if own and name in LISTED and not is_builtin(node, facts):
        return f"{name}() may be another than PostgreSQL's own"
    if name in NOW_LIKE or (name == "age" and len(items(node.args)) == 1):
        return f"{name}() has another value at each run"
    builtin = words[:-1] in ((), ("pg_catalog",))
    if not own and not (builtin and name in LISTED):
        return f"{'.'.join(words)}() is not known to be immutable or stable"
    if node.over is not None:
        return None
    if name in ARBITRARY_AGGREGATES:
        return f"{name}() may choose among values"
    if name in ORDERED_AGGREGATES and not _orders_its_arguments(node):
        return f"{name}() without an order of all that it collects"
    return None


def _orders_its_arguments(node: ast.FuncCall) -> bool:
    """Ties in the aggregate's order are then equal values."""
    ordered = {repr(meaning(one.node)) for one in items(node.agg_order) if isinstance(one, ast.SortBy)}
    return all(isinstance(one, ast.A_Const) or repr(meaning(one)) in ordered for one in items(node.args))


def why_of_another(scope: Scope, scopes: Mapping[int, Scope]) -> str | None:
    """Why an aggregate of this SELECT belongs to one around it: it is of that one's columns alone.

    That one is then grouped, though nothing of its own says so.
    """
    select = scope.select
    parts = (
        select.targetList, select.fromClause, select.whereClause, select.groupClause, select.havingClause,
        select.windowClause, select.sortClause,
    )  # fmt: skip
    for call in _own_aggregates(parts):
        levels = list(_levels((call.args, call.agg_filter, call.agg_order), scope, scopes, 0))
        if levels and min(levels) > 0:
            name = names_of(call.funcname)[-1]
            return f"{name}() aggregates columns of the statement around its subquery"
    return None


def _own_aggregates(node: object) -> Iterator[ast.FuncCall]:
    """The aggregates of one SELECT, not those of its subqueries."""
    if isinstance(node, ast.FuncCall) and is_aggregate(node):
        yield node
    for child in children(node):
        if not isinstance(child, ast.SelectStmt):
            yield from _own_aggregates(child)


def _levels(node: object, scope: Scope, scopes: Mapping[int, Scope], below: int) -> Iterator[int]:
    """How far out each column stands that is named; `below` is how deep `scope` is in the first SELECT."""
    if isinstance(node, ast.ColumnRef):
        words = names_of(node)
        try:
            level = scope.resolve(node).level
        except RefusedError:
            # A row of this SELECT's own, or a name that is in doubt.
            if scope.entry(words[0]) is None and words != ("*",):
                raise
            level = 0
        if level >= below:
            yield level - below
        return
    for child in children(node):
        if isinstance(child, ast.SelectStmt):
            inner = scopes.get(id(child))
            yield from _levels(child, inner, scopes, below + 1) if inner is not None else (0,)
        else:
            yield from _levels(child, scope, scopes, below)
