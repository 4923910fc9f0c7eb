"""SELECT DISTINCT columns of a FROM a JOIN b → SELECT … FROM a WHERE EXISTS (SELECT … FROM b …).

The join makes each row of `a` as often as it has partners, and DISTINCT takes the copies away again. Where
the output holds a key of `a`, its rows are distinct without DISTINCT; else DISTINCT stays.
"""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import JoinType

from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, scope_of_site
from pgassay.tune.rewrites.conditions.calls import has_aggregates
from pgassay.tune.rewrites.conditions.errors import errors_of
from pgassay.tune.rewrites.conditions.proofs import joins, key_columns, resolved
from pgassay.tune.rewrites.names.data_types import IDENTITY_TYPES
from pgassay.tune.rewrites.names.outputs import output_expression, output_name
from pgassay.tune.rewrites.names.scope import Entry, Scope
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed_select,
    conjunction,
    conjuncts,
    exists,
    integer,
    items,
    names_of,
    new_select,
    references,
    target,
    walk,
)


def _sites(context: Context) -> Iterator[Site]:
    for scope in context.scopes:
        if scope.select.distinctClause == (None,) and len(scope.entries) > 1:
            yield Site(scope.select, scope)


def inner_tables(scope: Scope) -> list[ast.Node]:
    """The conditions of inner joins of plain tables. Raises `RefusedError` where FROM holds anything else."""
    if scope.merged:
        raise RefusedError("a join names its columns by USING or NATURAL")
    if any(entry.table is None for entry in scope.entries):
        raise RefusedError("a subquery, a CTE or a function stands in FROM")
    found = []
    for item in items(scope.select.fromClause):
        for join in joins(item):
            if join.jointype != JoinType.JOIN_INNER:
                raise RefusedError("an outer join stands in FROM")
            found += conjuncts(join.quals)
    return found


def _edit(context: Context, site: Site) -> Edit:
    del context
    scope = scope_of_site(site)
    select = scope.select
    quals = inner_tables(scope) + conjuncts(select.whereClause)
    if has_aggregates(select) or select.windowClause:
        raise RefusedError("the distinct rows are groups")
    kept, columns = _kept(scope)
    if any(errors_of(one, scope) != "never" for one in quals):
        raise RefusedError("a condition can raise an error, and would be evaluated for other rows")
    outside = [one for one in quals if _entries(scope, one) <= {kept.name}]
    inside = [one for one in quals if not _entries(scope, one) <= {kept.name}]
    others = [entry for entry in scope.entries if entry is not kept]
    for entry in others:
        if not any(entry.name in _entries(scope, one) for one in inside):
            raise RefusedError(f"no condition joins {entry.name}")
    assert kept.table is not None
    key = next((key for key in key_columns(kept.table, nulls=False) if set(key) <= set(columns)), None)
    if key is None:
        _check_representatives(kept, columns)
    _check_order(scope, columns, kept)
    inner = new_select(
        targetList=(target(integer(1)),),
        fromClause=tuple(entry.node for entry in others),
        whereClause=conjunction(inside),
    )
    made = changed_select(
        select,
        fromClause=(kept.node,),
        whereClause=conjunction([*outside, exists(inner)]),
        distinctClause=None if key else select.distinctClause,
    )
    if key is None:
        return Edit(((select, made),), f"Only columns of {kept.name} are returned, and DISTINCT stays.")
    reason = f"Only columns of {kept.name} are returned, and ({', '.join(key)}) is its key."
    return Edit(((select, made),), reason)


def _kept(scope: Scope) -> tuple[Entry, list[str]]:
    """The one table whose columns are returned, and these columns."""
    entries: list[Entry] = []
    columns = []
    for node in items(scope.select.targetList):
        assert isinstance(node, ast.ResTarget)
        if isinstance(node.val, ast.ColumnRef) and "*" in names_of(node.val):
            words = names_of(node.val)
            entry = scope.entry(words[0]) if len(words) == 2 else None
            if entry is None:
                raise RefusedError("a star returns columns of both sides")
            entries.append(entry)
            columns += [column.name for column in entry.columns or ()]
            continue
        found = resolved(scope, node.val)
        if found is None:
            raise RefusedError("DISTINCT returns something other than plain columns of one table")
        entries.append(found.entry)
        columns.append(found.column.name)
    if not entries or any(entry is not entries[0] for entry in entries):
        raise RefusedError("DISTINCT returns columns of both sides")
    return entries[0], columns


def _entries(scope: Scope, condition: ast.Node) -> set[str]:
    """The tables of this FROM that a condition names, in its subqueries too; all where that is not sure."""
    everything = {entry.name for entry in scope.entries}
    if any(isinstance(node, ast.SelectStmt) for node in walk(condition)):
        return everything
    return {found.entry.name for one in references(condition) if (found := scope.resolve(one)).level == 0}


def _check_representatives(kept: Entry, columns: list[str]) -> None:
    for name in columns:
        column = kept.column(name)
        if column is None or column.type not in IDENTITY_TYPES or not column.deterministic:
            raise RefusedError(
                f"values of {kept.name}.{name} can be equal and not the same, and DISTINCT keeps one"
            )


def _check_order(scope: Scope, columns: list[str], kept: Entry) -> None:
    """SELECT DISTINCT is sorted by its output columns only, so this holds for what the server accepts."""
    for item in items(scope.select.sortClause):
        assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
        value = output_expression(scope.select, item.node, None)
        found = resolved(scope, value)
        if found is None or found.entry is not kept or found.column.name not in columns:
            raise RefusedError("ORDER BY sorts by something other than the columns that are returned")
    names = [output_name(one) for one in items(scope.select.targetList) if isinstance(one, ast.ResTarget)]
    if scope.select.sortClause and len(set(names)) != len(names):
        raise RefusedError("two output columns have one name")


REWRITE = Rewrite(
    "distinct-exists",
    _sites,
    _edit,
    "the join makes many copies of each row, which DISTINCT removes again",
    apart=True,
    moves=True,
)
