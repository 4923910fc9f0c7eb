"""NOT IN (subquery) → NOT EXISTS, which the server can join.

Where neither side can be NULL they mean the same. Else NOT IN is never true when the subquery has a NULL, nor
for a NULL when it has any row; in WHERE, where "neither true nor false" is as good as false, that is written
out.
"""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import BoolExprType, NullTestType, SubLinkType

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, named, qualified, scope_of_site
from pgassay.tune.rewrites.conditions.calls import has_aggregates
from pgassay.tune.rewrites.conditions.errors import errors_of_rows
from pgassay.tune.rewrites.conditions.proofs import alike, never_null
from pgassay.tune.rewrites.names.tree_scopes import scopes_below
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed_select,
    conjunction,
    conjuncts,
    exists,
    integer,
    is_plain,
    items,
    negation,
    operation,
    target,
)


def _sites(context: Context) -> Iterator[Site]:
    for site in context.nodes():
        if _sublink(site.node) is not None:
            yield site


def _sublink(node: ast.Node) -> ast.SubLink | None:
    """The subquery of `x NOT IN (…)`; `x <> ALL (…)` is another node and not looked at."""
    if not isinstance(node, ast.BoolExpr) or node.boolop != BoolExprType.NOT_EXPR:
        return None
    link = items(node.args)[0]
    plain = isinstance(link, ast.SubLink) and link.subLinkType == SubLinkType.ANY_SUBLINK
    return link if isinstance(link, ast.SubLink) and plain and not link.operName else None


def _edit(context: Context, site: Site) -> Edit:
    del context
    scope = scope_of_site(site)
    link = _sublink(site.node)
    assert link is not None
    outer, select = link.testexpr, link.subselect
    if not isinstance(outer, ast.ColumnRef):
        raise RefusedError("what stands before NOT IN is not a plain column")
    if not isinstance(select, ast.SelectStmt) or not is_plain(select) or has_aggregates(select):
        raise RefusedError("the subquery of NOT IN is grouped, ordered, limited or a set operation")
    inner = scopes_below(select, scope)
    targets = items(select.targetList)
    value = targets[0].val if len(targets) == 1 and isinstance(targets[0], ast.ResTarget) else None
    if inner is None or not isinstance(value, ast.ColumnRef):
        raise RefusedError("the subquery of NOT IN returns no plain column")
    left, right = scope.resolve(outer), inner.resolve(value)
    if right.level:
        raise RefusedError("the subquery of NOT IN returns a column of the statement around it")
    if not alike(left, right):
        raise RefusedError(f"{named(left, outer)} and {named(right, value)} are of different types")
    errors = errors_of_rows(inner)
    if errors == "may":
        raise RefusedError("the subquery of NOT IN can raise an error, and would be evaluated for other rows")
    proof: RewriteProof = "by test" if errors == "overflow" else "proven"
    filled = never_null(scope, outer), never_null(inner, value)
    parts = [negation(exists(_with(select, operation(value, "=", qualified(scope, outer, inner)))))]
    if all(filled):
        reason = f"{named(left, outer)} and {named(right, value)} are never NULL."
        return Edit(((site.node, parts[0]),), reason, proof)
    empty = [
        named(*pair) for pair, full in zip(((left, outer), (right, value)), filled, strict=True) if not full
    ]
    if not any(one is site.node for one in conjuncts(scope.select.whereClause)):
        raise RefusedError(f"{empty[0]} may be NULL, and NOT IN is then neither true nor false")
    if not filled[1]:
        null = ast.NullTest(arg=value, nulltesttype=NullTestType.IS_NULL, argisrow=False)
        parts.append(negation(exists(_with(select, null))))
    if not filled[0]:
        known = ast.NullTest(arg=outer, nulltesttype=NullTestType.IS_NOT_NULL, argisrow=False)
        no_row = negation(exists(_with(select)))
        parts.append(ast.BoolExpr(boolop=BoolExprType.OR_EXPR, args=(known, no_row)))
    made = conjunction(parts)
    assert made is not None
    reason = f"What NOT IN says of NULLs in {' and '.join(empty)} is written out."
    return Edit(((site.node, made),), reason, proof)


def _with(select: ast.SelectStmt, *more: ast.Node) -> ast.SelectStmt:
    """SELECT 1 of the subquery's rows that meet one more condition."""
    where = conjunction([*conjuncts(select.whereClause), *more])
    return changed_select(select, targetList=(target(integer(1)),), whereClause=where)


REWRITE = Rewrite(
    "not-in", _sites, _edit, "NOT IN is checked row by row, since it can't be planned as a join"
)
