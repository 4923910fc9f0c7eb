"""WITH x AS → AS MATERIALIZED or AS NOT MATERIALIZED: computed once, or seen by the planner as a whole."""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import CTEMaterialize

from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site
from pgassay.tune.rewrites.conditions.errors import errors_of_conditions, errors_of_values
from pgassay.tune.rewrites.conditions.row_order import depends_on_row_order
from pgassay.tune.rewrites.functions import AGGREGATES
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, changed, items, names_of, walk


def _sites(context: Context) -> Iterator[Site]:
    for node in walk(context.tree):
        if isinstance(node, ast.WithClause):
            yield from (Site(one) for one in items(node.ctes) if isinstance(one, ast.CommonTableExpr))


def _edit(context: Context, site: Site) -> Edit:
    node = site.node
    assert isinstance(node, ast.CommonTableExpr)
    clause = next(
        one for one in walk(context.tree) if isinstance(one, ast.WithClause) and node in items(one.ctes)
    )
    if clause.recursive or node.search_clause or node.cycle_clause:
        raise RefusedError("WITH RECURSIVE is computed in one way only")
    if not isinstance(node.ctequery, ast.SelectStmt):
        raise RefusedError(f"{node.ctename} changes data")
    uses = sum(
        isinstance(one, ast.RangeVar) and one.relname == node.ctename and not one.schemaname
        for one in walk(context.tree)
    )
    names = [one.ctename for one in walk(context.tree) if isinstance(one, ast.CommonTableExpr)]
    if names.count(node.ctename) > 1:
        raise RefusedError(f"two CTEs have the name {node.ctename}")
    if not uses:
        raise RefusedError(f"nothing reads {node.ctename}")
    inside = {id(one) for one in walk(node.ctequery)}
    own = [scope for scope in context.scopes if id(scope.select) in inside]
    # The border of a materialised CTE also keeps conditions from being evaluated for rows that it leaves out.
    # Its values are computed for all of its rows, those of one that the planner sees through for the rows
    # and columns asked for.
    errors = {errors_of_conditions(scope) for scope in context.scopes} | {
        errors_of_values(scope) for scope in own
    }
    if "may" in errors:
        raise RefusedError("what the CTE computes, or a condition, may raise an error for rows not asked for")
    if uses > 1 and any(_depends_on_row_order(scope) for scope in own):
        raise RefusedError(
            "an aggregate computed twice may be rounded in two ways, or return another equal value"
        )
    always, never = CTEMaterialize.CTEMaterializeAlways, CTEMaterialize.CTEMaterializeNever
    now = node.ctematerialized == always or (node.ctematerialized != never and uses > 1)
    made = changed(node, ctematerialized=never if now else always)
    reason = f"{node.ctename} only reads, its rows follow from the data, and nothing in it can raise an error"
    if "overflow" in errors:
        return Edit(((node, made),), f"{reason} but an overflow.", "by test")
    return Edit(((node, made),), f"{reason}.")


def _depends_on_row_order(scope: Scope) -> bool:
    return any(
        isinstance(one, ast.FuncCall)
        and (names_of(one.funcname)[-1] in AGGREGATES or one.agg_within_group)
        and depends_on_row_order(one, scope)
        for one in walk(scope.select, into_selects=False)
    )


REWRITE = Rewrite(
    "cte-materialized",
    _sites,
    _edit,
    "the CTE is planned apart from the query, or computed more than once",
    apart=True,
)
