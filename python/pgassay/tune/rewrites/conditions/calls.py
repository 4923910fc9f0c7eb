"""Calls of functions and aggregates: whether the data alone decide their values, and whose they are."""

from collections.abc import Iterator, Mapping

from pglast import ast

from pgassay.tune.facts.schema import FunctionFacts, SchemaFacts
from pgassay.tune.rewrites.functions import (
    ARBITRARY_AGGREGATES,
    DECIDED_FUNCTIONS,
    NOW_LIKE,
    ORDERED_AGGREGATES,
    TIE_PROOF_WINDOWS,
    TIED_WINDOWS,
)
from pgassay.tune.rewrites.proofs import AGGREGATES, is_aggregate
from pgassay.tune.rewrites.scope import KNOWN_TYPES, Scope
from pgassay.tune.rewrites.tree import RefusedError, children, items, meaning, names_of

LISTED = DECIDED_FUNCTIONS | AGGREGATES | TIE_PROOF_WINDOWS | TIED_WINDOWS | {"age"}
_ANY_TYPES = frozenset({'"any"', "any", "anyelement", "anyarray", "anynonarray", "anycompatible", ""})


def why_undecided_call(node: ast.FuncCall, facts: SchemaFacts) -> str | None:
    """Why the call's value is not decided by the data alone; None when it is."""
    words = names_of(node.funcname)
    name = words[-1]
    own = own_functions(node, facts)
    reason = _why_not_own(words, own, facts)
    if reason is not None:
        return reason
    if name in NOW_LIKE or (name == "age" and len(items(node.args)) == 1):
        return f"{name}() has another value at each run"
    builtin = words[:-1] in ((), ("pg_catalog",))
    if not own and not (builtin and name in LISTED):
        return f"{'.'.join(words)}() is not known to be immutable or stable"
    if node.agg_within_group and name not in AGGREGATES:
        return f"{name}() as an aggregate is not judged"
    if node.over is not None:
        return None
    if name in ARBITRARY_AGGREGATES:
        return f"{name}() may choose among values"
    if name in ORDERED_AGGREGATES and not _orders_its_arguments(node):
        return f"{name}() without an order of all that it collects"
    return None


def own_functions(node: ast.FuncCall, facts: SchemaFacts) -> list[FunctionFacts]:
    """The functions of users that a call may mean."""
    words = names_of(node.funcname)
    if words[:-1] == ("pg_catalog",):
        return []
    return [one for one in facts.functions if one.name == words[-1] and words[:-1] in ((), (one.schema_,))]


def _why_not_own(words: tuple[str, ...], own: list[FunctionFacts], facts: SchemaFacts) -> str | None:
    """Why what users made under a name keeps the call from being judged."""
    name = words[-1]
    if any(one.volatility == "v" for one in own):
        return f"{name}() is volatile"
    if any(one.kind in ("a", "w") for one in own) and name not in LISTED:
        return f"{name}() is an aggregate or a window function of the user's"
    # The rules know PostgreSQL's own functions by their names alone.
    hiding = [one for one in own if len(words) > 1 or (one.schema_ in facts.search_path and _may_hide(one))]
    if name in LISTED and hiding:
        return f"{name}() may be another than PostgreSQL's own"
    return None


def _may_hide(function: FunctionFacts) -> bool:
    """Whether arguments of PostgreSQL's own types can choose it; min(citext) of an extension needs others."""
    types = KNOWN_TYPES | _ANY_TYPES
    parts = [part.strip() for part in function.arguments.split(",")]
    return all(part in types or any(part.endswith(f" {kind}") for kind in types if kind) for part in parts)


def _orders_its_arguments(node: ast.FuncCall) -> bool:
    """Ties in the aggregate's order are then equal values."""
    ordered = {repr(meaning(one.node)) for one in items(node.agg_order) if isinstance(one, ast.SortBy)}
    return all(isinstance(one, ast.A_Const) or repr(meaning(one)) in ordered for one in items(node.args))


def why_of_another(scope: Scope, scopes: Mapping[int, Scope]) -> str | None:
    """Why an aggregate of this SELECT belongs to one around it: it is of that one's columns alone.

    That one is then grouped, though nothing of its own says so.
    """
    select = scope.select
    for call in _calls((select.targetList, select.havingClause, select.sortClause, select.whereClause)):
        levels = list(_levels((call.args, call.agg_filter, call.agg_order), scope, scopes, 0))
        if levels and min(levels) > 0:
            return f"{names_of(call.funcname)[-1]}() is of columns around its subquery and belongs there"
    return None


def _calls(node: object) -> Iterator[ast.FuncCall]:
    """The aggregates of one SELECT, not those of its subqueries."""
    if isinstance(node, ast.FuncCall) and is_aggregate(node):
        yield node
    for child in children(node):
        if not isinstance(child, ast.SelectStmt):
            yield from _calls(child)


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
