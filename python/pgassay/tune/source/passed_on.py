"""Parameters that stand in an output: what a subquery or a CTE passes on to conditions around it, and others.

`WITH p AS (SELECT $1 AS day) SELECT … WHERE t.day = p.day` compares $1 with t.day, as the statement without
the CTE would. A constant that is only returned decides no plan.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pglast import ast
from pglast.enums import SetOperation, SubLinkType

from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.names.outputs import keep_names
from pgassay.tune.rewrites.names.scope import Cte, Entry, Scope
from pgassay.tune.rewrites.names.tree_scopes import ctes_of, scope_of, scoped_selects
from pgassay.tune.rewrites.tree import RefusedError, items, substitute, walk

# A CTE may read another one, and that a third.
_PASSED_MAX = 4


@dataclass(frozen=True)
class PassedOn:
    """A statement with parameters in the place of columns that are nothing else.

    `deciding`: the numbers of those that stand in a condition or a join then, which decide the rows.
    """

    tree: ast.Node
    deciding: frozenset[int]


def passed_on(tree: ast.Node, facts: SchemaFacts) -> PassedOn:
    """Follow parameters from the output of subqueries and CTEs to where their columns are named."""
    deciding: set[int] = set()
    for _ in range(_PASSED_MAX):
        replaced: dict[int, ast.Node] = {}
        for scope in scopes_of(tree, facts):
            if isinstance(scope, Scope):
                select = scope.select
                conditions = (select.fromClause, select.whereClause, select.havingClause)
                found = {id(node): number for node, number in _standing_for(scope, select)}
                inside = {id(node) for node in walk(conditions, into_selects=False)}
                replaced |= {each: ast.ParamRef(number=number) for each, number in found.items()}
                deciding |= {number for each, number in found.items() if each in inside}
                deciding |= {number for name in scope.merged for number in _merged(scope, name)}
        if not replaced:
            break
        try:
            # SELECT p.day becomes SELECT $1, which has no name of its own.
            tree = substitute(tree, replaced | keep_names(tree, set(replaced)))
        except RefusedError:
            break
    return PassedOn(tree, frozenset(deciding))


def _standing_for(scope: Scope, select: ast.SelectStmt) -> Iterator[tuple[ast.Node, int]]:
    """The nodes of a SELECT that are a parameter by another name, with its number."""
    for node in walk(select, into_selects=False):
        number = None
        if isinstance(node, ast.ColumnRef):
            try:
                found = scope.resolve(node)
            except RefusedError:
                continue
            owner: Scope | None = scope
            for _ in range(found.level):
                owner = owner.parent if owner is not None else None
            number = None if owner is None else _passed(owner, found.entry, found.column.name)
        elif isinstance(node, ast.SubLink) and node.subLinkType == SubLinkType.EXPR_SUBLINK:
            number = _only_output(node.subselect)
        if number is not None:
            yield node, number


def _merged(scope: Scope, name: str) -> Iterator[int]:
    """The parameters that USING or NATURAL compare by a column of that name."""
    found = (_passed(scope, entry, name) for entry in scope.entries if entry.column(name))
    yield from (number for number in found if number is not None)


def _passed(owner: Scope, entry: Entry, name: str) -> int | None:
    """The number of the parameter that a column of a subquery or a CTE is; None for any other column."""
    query: object = entry.select
    if query is None and entry.table is None and isinstance(entry.node, ast.RangeVar):
        cte = owner.ctes.get(str(entry.node.relname))
        query = cte.node.ctequery if cte is not None else None
    if not isinstance(query, ast.SelectStmt) or query.op != SetOperation.SETOP_NONE or query.valuesLists:
        return None
    targets, names = items(query.targetList), [each.name for each in entry.columns or ()]
    if len(targets) != len(names) or name not in names:
        return None
    return parameter(getattr(targets[names.index(name)], "val", None))


def _only_output(query: object) -> int | None:
    """The number of the parameter in `(SELECT $1)`."""
    if not isinstance(query, ast.SelectStmt) or query.fromClause or query.whereClause or query.limitCount:
        return None
    targets = items(query.targetList)
    return parameter(getattr(targets[0], "val", None)) if len(targets) == 1 else None


def scopes_of(tree: ast.Node, facts: SchemaFacts) -> Iterator[Scope | RefusedError]:
    """The scope of every SELECT, and of what an UPDATE or DELETE reads, in WITH too."""
    if isinstance(tree, ast.SelectStmt):
        yield from scoped_selects(tree, facts)
    elif not isinstance(tree, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
        yield RefusedError("what a MERGE compares is not read")
        return
    ctes = ctes_of(ast.SelectStmt(withClause=getattr(tree, "withClause", None)), {})
    for node in walk(tree):
        if isinstance(node, ast.UpdateStmt | ast.DeleteStmt):
            try:
                yield _reading(node, facts, ctes)
            except RefusedError as reason:
                yield reason
        elif isinstance(node, ast.SelectStmt) and not isinstance(tree, ast.SelectStmt):
            yield from scoped_selects(node, facts, None, ctes)


def _reading(tree: ast.UpdateStmt | ast.DeleteStmt, facts: SchemaFacts, ctes: Mapping[str, Cte]) -> Scope:
    """The scope of what it reads. Raises `RefusedError`."""
    others = tree.fromClause if isinstance(tree, ast.UpdateStmt) else tree.usingClause
    sources, where = (tree.relation, *items(others)), tree.whereClause
    made = tree.targetList if isinstance(tree, ast.UpdateStmt) else ()
    reading = ast.SelectStmt(
        fromClause=sources, whereClause=where, targetList=made, withClause=tree.withClause
    )
    return scope_of(reading, facts, None, ctes)


def parameter(node: object) -> int | None:
    """The number of a parameter, below casts; None for anything else."""
    while isinstance(node, ast.TypeCast | ast.CollateClause):
        node = node.arg
    return (node.number or 0) if isinstance(node, ast.ParamRef) else None


def numbers_of(tree: object) -> set[int]:
    """The numbers of the parameters in a tree."""
    return {node.number or 0 for node in walk(tree) if isinstance(node, ast.ParamRef)}


def output_numbers(tree: ast.Node) -> set[int]:
    """Parameters that stand in an output: of the statement, or of a SELECT within it."""
    found: set[int] = set()
    tested = {
        id(node.subselect)
        for node in walk(tree)
        if isinstance(node, ast.SubLink)
        and node.subLinkType in (SubLinkType.ANY_SUBLINK, SubLinkType.ALL_SUBLINK)
    }
    for select in (node for node in walk(tree) if isinstance(node, ast.SelectStmt)):
        if id(select) in tested:
            continue  # what it returns is compared
        inner = {number for part in _subqueries(select.targetList) for number in numbers_of(part)}
        found |= numbers_of(select.targetList) - inner
    for node in walk(tree):
        if isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
            found |= numbers_of(node.returningClause if hasattr(node, "returningClause") else None)
    return found


def computing_numbers(tree: ast.Node) -> set[int]:
    """Parameters in the output of a subquery that a condition compares: `x > (SELECT avg(x) * $1 …)`."""
    found: set[int] = set()
    for node in walk(tree):
        if isinstance(node, ast.SelectStmt):
            conditions: tuple[object, ...] = (node.fromClause, node.whereClause, node.havingClause)
        elif isinstance(node, ast.UpdateStmt | ast.DeleteStmt):
            conditions = (node.whereClause,)
        else:
            continue
        for each in walk(conditions, into_selects=False):
            is_value = isinstance(each, ast.SubLink) and each.subLinkType == SubLinkType.EXPR_SUBLINK
            if is_value and isinstance(each.subselect, ast.SelectStmt):
                found |= numbers_of(each.subselect.targetList)
    return found


def _subqueries(node: object) -> Iterator[ast.SelectStmt]:
    return (each for each in walk(node) if isinstance(each, ast.SelectStmt))
