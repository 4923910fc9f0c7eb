"""UNION → UNION ALL, where no row of one branch is in another and no branch has a row twice."""

from collections.abc import Iterator
from decimal import Decimal

from pglast import ast
from pglast.enums import SetOperation

from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site
from pgassay.tune.rewrites.conditions.calls import has_aggregates, returns_sets
from pgassay.tune.rewrites.conditions.proofs import determined, resolved, same_value
from pgassay.tune.rewrites.names.data_types import INTEGERS, TEXTS, compared_exactly
from pgassay.tune.rewrites.names.outputs import output_expression
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed_select,
    conjuncts,
    constant,
    has_grouping_sets,
    is_operation,
    items,
    meaning,
    names_of,
    references,
    sides,
    substitute,
    text,
    walk,
)

# The least and the greatest value of an output column; either may be open.
Span = tuple[Decimal | None, Decimal | None]
# What a value of an output column is: of a type, or an expression of a shape; a literal without a type takes
# that of the others.
Kind = tuple[str, object]
LITERAL: Kind = ("literal", None)


def _sites(context: Context) -> Iterator[Site]:
    below = {
        id(side)
        for node in walk(context.tree)
        if isinstance(node, ast.SelectStmt) and node.op == SetOperation.SETOP_UNION
        for side in (node.larg, node.rarg)
    }
    for node in walk(context.tree):
        if isinstance(node, ast.SelectStmt) and id(node) not in below:
            unions = list(_unions(node))
            if any(not one.all for one in unions):
                yield Site(node)


def _unions(node: ast.SelectStmt | None) -> Iterator[ast.SelectStmt]:
    if node is not None and node.op == SetOperation.SETOP_UNION:
        yield node
        yield from _unions(node.larg)
        yield from _unions(node.rarg)


def _branches(node: ast.SelectStmt | None) -> list[ast.SelectStmt]:
    if node is None:
        return []
    if node.op == SetOperation.SETOP_UNION:
        return _branches(node.larg) + _branches(node.rarg)
    return [node]


def _edit(context: Context, site: Site) -> Edit:
    assert isinstance(site.node, ast.SelectStmt)
    unions = list(_unions(site.node))
    if any(one.all for one in unions):
        raise RefusedError("UNION and UNION ALL are mixed")
    if any(one is not site.node and (one.sortClause or one.limitCount or one.withClause) for one in unions):
        raise RefusedError("a part of the UNION is sorted or limited")
    scopes = []
    for branch in _branches(site.node):
        scope = next((one for one in context.scopes if one.select is branch), None)
        if scope is None or branch.valuesLists or branch.limitCount or branch.limitOffset:
            raise RefusedError("a branch is a list of values, limited, or its tables are not known")
        scopes.append(scope)
    outputs = [_outputs(scope) for scope in scopes]
    if len({len(values) for values in outputs}) != 1:
        raise RefusedError("the branches return different numbers of columns")
    # A literal beside an integer column is an integer: '1' and '01' are then one value.
    columns = [list(zip(scopes, values, strict=True)) for values in zip(*outputs, strict=True)]
    texts = {
        place
        for place, column in enumerate(columns)
        if all(_is_text(scope, value) for scope, value in column)
    }
    kept = {place for place, column in enumerate(columns) if _stay_apart(column)}
    for scope in scopes:
        _check_no_copies(scope, kept)
    for number, scope in enumerate(scopes):
        for other in scopes[number + 1 :]:
            if not _disjoint(scope, other, texts, kept):
                raise RefusedError("nothing proves that two branches have no row in common")
    return Edit(
        ((site.node, _all(site.node)),),
        "No branch has a row twice, by its keys, and a column distinguishes the branches.",
    )


def _all(node: ast.SelectStmt) -> ast.SelectStmt:
    if node.op != SetOperation.SETOP_UNION or node.larg is None or node.rarg is None:
        return node
    return changed_select(node, all=True, larg=_all(node.larg), rarg=_all(node.rarg))


def _outputs(scope: Scope) -> list[ast.Node]:
    values = [one.val for one in items(scope.select.targetList) if isinstance(one, ast.ResTarget)]
    found = [value for value in values if isinstance(value, ast.Node)]
    if any(isinstance(value, ast.ColumnRef) and "*" in names_of(value) for value in found):
        raise RefusedError("a branch returns a star, whose columns are the table's of the day")
    return found


def _stay_apart(column: list[tuple[Scope, ast.Node]]) -> bool:
    """Whether different values stay different in the type that the union gives the column.

    Beside a float a bigint loses digits, and beside another collation a text its case.
    """
    kinds = [kind for scope, value in column if (kind := _kind(scope, value)) != LITERAL]
    if all(kind[0] == "type" for kind in kinds):
        return compared_exactly({str(kind[1]) for kind in kinds} or {""})
    return all(kind == kinds[0] for kind in kinds)


def _kind(scope: Scope, value: ast.Node) -> Kind:
    own = constant(value)
    if isinstance(value, ast.ColumnRef):
        found = scope.resolve(value).column
        return ("type", found.type) if found.type else ("unknown", id(value))
    if isinstance(own, bool):
        return "type", "boolean"
    if isinstance(value, ast.A_Const):
        return LITERAL if own is None or isinstance(own, str) else ("type", "numeric")
    if any(isinstance(one, ast.SelectStmt) for one in walk(value)):
        return "unknown", id(value)
    types = {id(one): text(scope.resolve(one).column.type) for one in references(value)}
    return "expression", repr(meaning(substitute(value, types)))


def _check_no_copies(scope: Scope, kept: set[int]) -> None:
    """Check that no row comes twice. `kept` are the places where different values stay different."""
    select, outputs = scope.select, _outputs(scope)
    if select.distinctClause == (None,):
        if len(kept) < len(outputs):
            raise RefusedError("a branch is distinct in types that the other branches do not have")
        return
    outputs = [value for place, value in enumerate(outputs) if place in kept]
    if returns_sets(select, scope.facts):
        raise RefusedError("a function in a branch's output may return several rows for one")
    if any(isinstance(node, ast.FuncCall) and node.over is not None for node in walk(select, False)):
        raise RefusedError("a branch has a window function")
    if has_aggregates(select):
        groups = [output_expression(select, one, scope) for one in items(select.groupClause)]
        if has_grouping_sets(select) or not all(
            any(same_value(scope, group, one) for one in outputs) for group in groups
        ):
            raise RefusedError("a branch does not return all that it is grouped by")
        return
    start = set()
    for value in outputs:
        found = resolved(scope, value) if isinstance(value, ast.ColumnRef) else None
        if found is not None and found.column.deterministic:
            start.add((found.entry.name, found.column.name))
    missing = {entry.name for entry in scope.entries} - determined(scope, start)
    if missing:
        raise RefusedError(
            f"a branch may return a row twice: no key of {sorted(missing)[0]} is in its output"
        )


def _is_text(scope: Scope, value: ast.Node) -> bool:
    if isinstance(value, ast.ColumnRef):
        found = scope.resolve(value)
        return found.column.type in TEXTS and found.column.deterministic
    return isinstance(constant(value), str)


def _disjoint(one: Scope, other: Scope, texts: set[int], kept: set[int]) -> bool:
    """Whether a column has no value in common. `texts` are the places of columns of text in all branches,
    `kept` those where different values stay different."""
    for place, (left, right) in enumerate(zip(_outputs(one), _outputs(other), strict=True)):
        first, second = _text_value(one, left), _text_value(other, right)
        told_apart = first is not None and second is not None and first != second
        if place in texts and told_apart and one.facts.deterministic:
            return True
        if place in kept and _in_other_spans(one, left, other, right):
            return True
    return False


def _in_other_spans(one: Scope, left: ast.Node, other: Scope, right: ast.Node) -> bool:
    span, opposite = _span(one, left), _span(other, right)
    return _before(span, opposite) or _before(opposite, span)


def _before(low: Span, high: Span) -> bool:
    return low[1] is not None and high[0] is not None and low[1] < high[0]


def _text_value(scope: Scope, value: ast.Node) -> str | None:
    """The text that a column always has: a literal, or by `column = 'literal'` in WHERE."""
    own = constant(value)
    if isinstance(own, str):
        return own
    found = resolved(scope, value) if isinstance(value, ast.ColumnRef) else None
    if found is None or found.column.type not in TEXTS or not found.column.deterministic:
        return None
    for operator, number in _comparisons(scope, found.entry.name, found.column.name):
        said = constant(number)
        if operator == "=" and isinstance(said, str):
            return said
    return None


def _comparisons(scope: Scope, entry: str, name: str) -> Iterator[tuple[str, ast.Node]]:
    """What WHERE compares a column with; nothing where ROLLUP or its kin puts NULL in the column's place."""
    if has_grouping_sets(scope.select):
        return
    mirrored = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
    for condition in conjuncts(scope.select.whereClause):
        if not is_operation(condition, *mirrored):
            continue
        assert isinstance(condition, ast.A_Expr)
        operator = names_of(condition.name)[0]
        for (one, number), said in (
            (sides(condition), operator),
            (sides(condition)[::-1], mirrored[operator]),
        ):
            found = resolved(scope, one) if isinstance(one, ast.ColumnRef) else None
            if found is not None and (found.entry.name, found.column.name) == (entry, name):
                yield said, number


def _span(scope: Scope, value: ast.Node) -> Span:
    """Between which numbers an integer column lies by WHERE. A number that is no integer is left out."""
    own = _number(value)
    if own is not None:
        return own, own
    found = resolved(scope, value) if isinstance(value, ast.ColumnRef) else None
    if found is None or found.column.type not in INTEGERS:
        return None, None
    low: Decimal | None = None
    high: Decimal | None = None
    for operator, node in _comparisons(scope, found.entry.name, found.column.name):
        number = _number(node)
        if number is None:
            continue
        if operator in ("=", ">", ">="):
            least = number + 1 if operator == ">" else number
            low = least if low is None else max(low, least)
        if operator in ("=", "<", "<="):
            most = number - 1 if operator == "<" else number
            high = most if high is None else min(high, most)
    return low, high


def _number(node: ast.Node) -> Decimal | None:
    value = constant(node)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return Decimal(value) if value == int(value) else None


REWRITE = Rewrite(
    "union-all", _sites, _edit, "UNION sorts or hashes all rows to remove duplicates that do not exist"
)
