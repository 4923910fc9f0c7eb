"""WITH x AS → AS MATERIALIZED or AS NOT MATERIALIZED: computed once, or seen by the planner as a whole."""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import CTEMaterialize

from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site
from pgassay.tune.rewrites.safety import errors_of
from pgassay.tune.rewrites.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, changed, conjuncts, items, walk


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
    # The border of a materialised CTE also keeps conditions from being evaluated for rows that it leaves out.
    for scope in context.scopes:
        _check_errors(scope)
    always, never = CTEMaterialize.CTEMaterializeAlways, CTEMaterialize.CTEMaterializeNever
    now = node.ctematerialized == always or (node.ctematerialized != never and uses > 1)
    made = changed(node, ctematerialized=never if now else always)
    reason = f"{node.ctename} only reads, its rows follow from the data, and no condition can raise an error."
    return Edit(((node, made),), reason)


def _check_errors(scope: Scope) -> None:
    select = scope.select
    conditions = conjuncts(select.whereClause) + [
        one.quals
        for one in walk(select.fromClause, into_selects=False)
        if isinstance(one, ast.JoinExpr) and isinstance(one.quals, ast.Node)
    ]
    if any(errors_of(one, scope) == "may" for one in conditions):
        raise RefusedError("a condition may raise an error for rows that the CTE keeps from it")


REWRITE = Rewrite("cte-materialized", _sites, _edit, apart=True)
