"""(SELECT count(*) …) > 0 → EXISTS (SELECT …): a count needs all rows, an existence the first."""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import SubLinkType

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, scope_of_site
from pgassay.tune.rewrites.conditions.errors import errors_of_rows
from pgassay.tune.rewrites.conditions.proofs import never_null
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.names.tree_scopes import scopes_below
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed_select,
    constant,
    exists,
    integer,
    is_operation,
    is_plain,
    items,
    names_of,
    negation,
    sides,
    target,
)

# Of `count OPERATOR number`: whether that says there is a row (True) or there is none (False).
SAYS = {
    (">", 0): True, (">=", 1): True, ("<>", 0): True, ("!=", 0): True,
    ("=", 0): False, ("<", 1): False, ("<=", 0): False,
}  # fmt: skip
MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "=": "=", "<>": "<>", "!=": "!="}


def _sites(context: Context) -> Iterator[Site]:
    for site in context.nodes():
        if _parts(site.node) is not None:
            yield site


def _parts(node: ast.Node) -> tuple[ast.SelectStmt, bool] | None:
    """The subquery that counts, and what the comparison says."""
    if not is_operation(node, *MIRRORED):
        return None
    left, right = sides(node)
    assert isinstance(node, ast.A_Expr)
    operator = names_of(node.name)[0]
    if isinstance(right, ast.SubLink):
        left, right, operator = right, left, MIRRORED[operator]
    number = constant(right)
    if isinstance(number, bool) or not isinstance(number, int) or (operator, number) not in SAYS:
        return None
    if not isinstance(left, ast.SubLink) or left.subLinkType != SubLinkType.EXPR_SUBLINK:
        return None
    select = left.subselect
    if not isinstance(select, ast.SelectStmt) or _count(select) is None:
        return None
    return select, SAYS[operator, number]


def _count(select: ast.SelectStmt) -> ast.FuncCall | None:
    targets = items(select.targetList)
    value = targets[0].val if len(targets) == 1 and isinstance(targets[0], ast.ResTarget) else None
    if isinstance(value, ast.FuncCall) and names_of(value.funcname)[-1] == "count":
        return value
    return None


def _edit(context: Context, site: Site) -> Edit:
    del context
    scope = scope_of_site(site)
    parts = _parts(site.node)
    assert parts is not None
    select, some = parts
    count = _count(select)
    assert count is not None
    if select.groupClause or select.havingClause:
        raise RefusedError("the count is of groups: without a row there is no group, and the count is NULL")
    if not is_plain(select):
        raise RefusedError("the subquery that counts is ordered, limited, distinct or a set operation")
    if count.agg_filter or count.over:
        raise RefusedError("the count has a FILTER or is a window function")
    inner = scopes_below(select, scope)
    if inner is None:
        raise RefusedError("the tables of the subquery that counts are not known")
    if not count.agg_star:
        _check_argument(count, inner)
    # EXISTS stops at the first row, where a count would have gone on to the one that fails.
    errors = errors_of_rows(inner)
    if errors == "may":
        raise RefusedError("the subquery that counts can raise an error for a row that EXISTS leaves out")
    proof: RewriteProof = "by test" if errors == "overflow" else "proven"
    made: ast.Node = exists(changed_select(select, targetList=(target(integer(1)),)))
    reason = "A count without GROUP BY is above 0 exactly where a row exists."
    return Edit(((site.node, made if some else negation(made)),), reason, proof)


def _check_argument(count: ast.FuncCall, inner: Scope) -> None:
    """count(x) counts rows, like count(*), where x is never NULL."""
    if count.agg_order:
        raise RefusedError("what is counted has an order of its own")
    value = items(count.args)[0] if len(items(count.args)) == 1 else None
    if constant(value) is not None:
        return
    if not isinstance(value, ast.ColumnRef):
        raise RefusedError("what is counted may be NULL")
    if not never_null(inner, value):
        raise RefusedError(f"{'.'.join(names_of(value))} may be NULL, and a NULL is not counted")


REWRITE = Rewrite(
    "count-exists", _sites, _edit, "all rows are counted, although it only matters whether there is one"
)
