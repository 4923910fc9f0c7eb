"""Orders that leave no choice: rows that agree in what they are sorted by are one row."""

from collections.abc import Mapping

from pglast import ast
from pglast.enums import BoolTestType, SetOperation

from pgassay.tune.rewrites.conditions.calls import has_aggregates, returns_sets
from pgassay.tune.rewrites.conditions.proofs import determined, resolved, same_value
from pgassay.tune.rewrites.names.outputs import output_expression, output_name
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, conjuncts, has_grouping_sets, items, meaning, names_of


def orders_totally(scope: Scope, by: list[ast.Node]) -> bool:
    """Whether rows that agree in these expressions are one row, so that an order by them has no ties."""
    select = scope.select
    if not select.fromClause:
        return True
    if has_grouping_sets(select) or returns_sets(select, scope.facts):
        return False
    if has_aggregates(select):
        grouped = [output_expression(select, node, scope) for node in items(select.groupClause)]
        return all(any(same_value(scope, group, one) for one in by) for group in grouped)
    outputs = [one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    if select.distinctClause == (None,):
        return all(
            isinstance(value, ast.Node) and any(same_value(scope, value, one) for one in by)
            for value in outputs
        )
    start = set()
    for one in by:
        found = resolved(scope, one)
        if found is not None and found.column.deterministic:
            start.add((found.entry.name, found.column.name))
    return {entry.name for entry in scope.entries} <= determined(scope, start)


def has_total_order(select: ast.SelectStmt, scopes: Mapping[int, Scope]) -> bool:
    """Whether ORDER BY leaves no choice; `scopes` are those of the SELECTs by their ids. Raises
    `RefusedError`."""
    if select.valuesLists:
        return False
    branches = _branches(select)
    if branches is None:
        return False
    ordered = []
    for branch in branches:
        scope = scopes.get(id(branch))
        if scope is None or (branch is not select and (branch.limitCount or branch.limitOffset)):
            return False
        # The names that a set operation is sorted by are those of its first branch.
        by = [_place_or_value(branches, branch, item) for item in items(select.sortClause)]
        ordered.append(orders_totally(scope, by))
    pairs = [(one, other) for place, one in enumerate(branches) for other in branches[place + 1 :]]
    return all(ordered) and all(_excludes(one, other) for one, other in pairs)


def _place_or_value(branches: list[ast.SelectStmt], branch: ast.SelectStmt, item: ast.Node) -> ast.Node:
    assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
    node = item.node
    if len(branches) > 1 and isinstance(node, ast.ColumnRef):
        names = [output_name(one) for one in items(branches[0].targetList) if isinstance(one, ast.ResTarget)]
        word = names_of(node)[-1]
        if names.count(word) != 1:
            raise RefusedError(f"{word} is not the name of one output column")
        node = ast.A_Const(val=ast.Integer(ival=names.index(word) + 1))
    return output_expression(branch, node, None)


def _branches(select: ast.SelectStmt) -> list[ast.SelectStmt] | None:
    """The SELECTs below UNION ALL, None below any other set operation."""
    if select.op == SetOperation.SETOP_NONE:
        return [select]
    if select.op != SetOperation.SETOP_UNION or not select.all or select.larg is None or select.rarg is None:
        return None
    left, right = _branches(select.larg), _branches(select.rarg)
    return None if left is None or right is None else left + right


def _excludes(one: ast.SelectStmt, other: ast.SelectStmt) -> bool:
    """Whether the second SELECT is the first with other conditions, one of which is that the first's is
    not true. Groups and distinct rows of two branches may be equal though no row is in both."""
    if any(branch.distinctClause or has_aggregates(branch) for branch in (one, other)):
        return False
    if meaning(one.fromClause) != meaning(other.fromClause) or meaning(one.targetList) != meaning(
        other.targetList
    ):
        return False
    first = [meaning(part) for part in conjuncts(one.whereClause)]
    return any(
        isinstance(part, ast.BooleanTest)
        and part.booltesttype == BoolTestType.IS_NOT_TRUE
        and isinstance(part.arg, ast.Node)
        and all(meaning(piece) in first for piece in conjuncts(part.arg))
        for part in conjuncts(other.whereClause)
    )
