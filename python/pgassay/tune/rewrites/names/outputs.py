"""Output columns: their names, by the rules of PostgreSQL's FigureColname (parser/parse_target.c), and what
ORDER BY and GROUP BY mean by these."""

from collections.abc import Collection

from pglast import ast
from pglast.enums import A_Expr_Kind, MinMaxOp, SubLinkType

from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, changed, constant, items, meaning, names_of, walk

UNNAMED = "?column?"
# How sure a name is: 0 none, 1 a type's or CASE, which give way to a better one, 2 a column's or function's.
Named = tuple[int, str]


def figured_name(node: ast.ResTarget) -> str:
    """The name that the client sees. Raises `RefusedError` for a star, and for what has rules of its own."""
    if node.name:
        return str(node.name)
    return _figured(node.val)[1]


def _figured(node: object) -> Named:
    if isinstance(node, ast.ColumnRef):
        last = names_of(node)[-1]
        if last == "*":
            raise RefusedError("a star has no name")
        return 2, last
    if isinstance(node, ast.FuncCall):
        return 2, names_of(node.funcname)[-1]
    if isinstance(node, ast.A_Expr):
        return (2, "nullif") if node.kind == A_Expr_Kind.AEXPR_NULLIF else (0, UNNAMED)
    if isinstance(node, ast.TypeCast):
        found = _figured(node.arg)
        return found if found[0] > 1 or node.typeName is None else (1, names_of(node.typeName.names)[-1])
    if isinstance(node, ast.CollateClause):
        return _figured(node.arg)
    if isinstance(node, ast.CaseExpr):
        found = _figured(node.defresult)
        return found if found[0] > 1 else (1, "case")
    if isinstance(node, ast.CoalesceExpr):
        return 2, "coalesce"
    if isinstance(node, ast.MinMaxExpr):
        return 2, "greatest" if node.op == MinMaxOp.IS_GREATEST else "least"
    if isinstance(node, ast.SubLink):
        return _of_subquery(node)
    if node is None or isinstance(
        node, ast.BoolExpr | ast.NullTest | ast.BooleanTest | ast.A_Const | ast.ParamRef
    ):
        return 0, UNNAMED
    raise RefusedError("an output column has a name by rules that are not known here")


def _of_subquery(node: ast.SubLink) -> Named:
    if node.subLinkType == SubLinkType.EXISTS_SUBLINK:
        return 2, "exists"
    if node.subLinkType == SubLinkType.ARRAY_SUBLINK:
        return 2, "array"
    if node.subLinkType != SubLinkType.EXPR_SUBLINK:
        return 0, UNNAMED
    select = node.subselect
    first = next(iter(items(select.targetList)), None) if isinstance(select, ast.SelectStmt) else None
    if not isinstance(first, ast.ResTarget):
        raise RefusedError("the name of a subquery's column is not known")
    return (2, str(first.name)) if first.name else _figured(first.val)


def keep_names(root: object, replaced: Collection[int]) -> dict[int, ast.Node]:
    """Output columns in whose expression something is replaced, each with the name written out that it
    had."""
    found: dict[int, ast.Node] = {}
    for select in walk(root):
        for one in items(select.targetList) if isinstance(select, ast.SelectStmt) else ():
            if (
                isinstance(one, ast.ResTarget)
                and not one.name
                and any(id(part) in replaced for part in walk(one.val))
            ):
                found[id(one)] = changed(one, name=figured_name(one))
    return found


def output_name(node: ast.ResTarget) -> str:
    """The name of an output column; one of its own where PostgreSQL's rules for it are not known here."""
    try:
        return figured_name(node)
    except RefusedError:
        return f"?{id(node)}"


def output_expression(select: ast.SelectStmt, node: ast.Node, by_column_first: Scope | None) -> ast.Node:
    """What an item of ORDER BY or GROUP BY stands for: a place, an output name, or itself.

    ORDER BY looks among the output names first; GROUP BY (`by_column_first`) among the columns.
    """
    targets = [one for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    place = constant(node)
    if isinstance(place, int) and not isinstance(place, bool) and 1 <= place <= len(targets):
        if any(isinstance(one.val, ast.ColumnRef) and "*" in names_of(one.val) for one in targets):
            raise RefusedError("a place of ORDER BY counts a star's columns")
        return _value(targets[place - 1])
    if isinstance(node, ast.ColumnRef) and len(names_of(node)) == 1:
        name = names_of(node)[0]
        if by_column_first is not None and by_column_first.unqualified(name) is not None:
            return node
        named = [one for one in targets if output_name(one) == name]
        if len(named) == 1:
            return _value(named[0])
        if len({repr(meaning(one.val)) for one in named}) > 1:
            raise RefusedError(f"{name} is the name of two output columns")
    return node


def _value(node: ast.ResTarget) -> ast.Node:
    assert isinstance(node.val, ast.Node)
    return node.val
