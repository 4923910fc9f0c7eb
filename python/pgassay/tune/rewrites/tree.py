"""Trees of PostgreSQL's grammar: read, walked, changed by copying, and written back without a doubt.

Nodes are pglast's. They are never changed in place: `substitute` makes new ones along the path, and what did
not change is shared.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from enum import Enum

import pglast
from pglast import ast
from pglast.enums import A_Expr_Kind, BoolExprType, JoinType, SetOperation, SubLinkType
from pglast.parser import ParseError
from pglast.stream import RawStream

# Where a node stands in the text, and how a call was spelled: no part of what a statement means.
IGNORED = frozenset(
    {
        "location", "stmt_location", "stmt_len", "funcformat", "rexpr_list_start", "rexpr_list_end",
        "list_start", "list_end", "subLinkId", "rtindex", "cterefcount",
    }
)  # fmt: skip
TREE_DEPTH_MAX = 200
# As RawStream writes them; a type is one word or several, with its modifiers.
_SIMPLE = r"'(?:[^']|'')*'|\$?\d+(?:\.\d+)?|[a-z_][\w.]*"
_TYPE = r"[a-z_][\w. ]*(?:\(\d+(?:, \d+)?\))?(?:\[\])?"
_CAST = re.compile(rf"\bCAST\(({_SIMPLE}) AS ({_TYPE})\)")
_TEXT_CAST = re.compile(r"('(?:[^']|'')*')::text\b(?!\[)")


class RefusedError(Exception):
    """The pattern of a rewrite is there and its condition is not proven; the message says which."""


def read(sql: str) -> ast.Node:
    """The one statement that `sql` holds. Raises `RefusedError` when it holds none, several or a mistake."""
    try:
        statements = pglast.parse_sql(sql)
    except (ParseError, RecursionError) as error:
        raise RefusedError(f"the statement can't be parsed: {error}") from error
    if len(statements) != 1 or statements[0].stmt is None:
        raise RefusedError("it is not one single statement")
    tree = statements[0].stmt
    if depth(tree) > TREE_DEPTH_MAX:
        raise RefusedError("the statement is nested too deeply")
    return tree


def write(tree: ast.Node) -> str:
    """The statement as text, which parses to this very tree. Raises `RefusedError` when the writer loses
    something."""
    try:
        written: str = RawStream()(tree)
        again = pglast.parse_sql(written)
    except (pglast.Error, RuntimeError, AttributeError, TypeError, ValueError) as error:
        raise RefusedError(f"the rewritten statement can't be written: {error}") from error
    if len(again) != 1 or meaning(again[0].stmt) != meaning(tree):
        raise RefusedError("the rewritten statement can't be written without a change of meaning")
    return short_casts(written)


def short_casts(statement: str) -> str:
    """The statement with casts as people write them, 'open'::text, where that means the same."""
    shorter = _CAST.sub(r"\1::\2", statement)
    with contextlib.suppress(pglast.Error):
        if shorter != statement and meaning(pglast.parse_sql(shorter)) == meaning(
            pglast.parse_sql(statement)
        ):
            return shorter
    return statement


def readable_expression(words: str) -> str:
    """An expression within words for a reader: casts short, and none of a text to text."""
    return _TEXT_CAST.sub(r"\1", _CAST.sub(r"\1::\2", words))


def depth(node: object) -> int:
    """How deeply nodes are nested, without recursion."""
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        place, level = waiting.pop()
        deepest = max(deepest, level)
        waiting.extend((child, level + 1) for child in children(place))
    return deepest


def children(node: object) -> Iterator[object]:
    """The nodes and tuples directly below."""
    if isinstance(node, ast.Node):
        for name in node:
            value = getattr(node, name)
            if isinstance(value, ast.Node | tuple):
                yield value
    elif isinstance(node, tuple):
        yield from (value for value in node if isinstance(value, ast.Node | tuple))


def walk(node: object, into_selects: bool = True) -> Iterator[ast.Node]:
    """The node and all below it, in the order of the text; without `into_selects` not below other SELECTs."""
    if isinstance(node, ast.Node):
        yield node
    for child in children(node):
        if into_selects or not isinstance(child, ast.SelectStmt):
            yield from walk(child, into_selects)


def meaning(node: object) -> object:
    """A value that is equal for trees that mean the same: without positions, AND and OR flattened."""
    if isinstance(node, ast.BoolExpr) and node.boolop in (BoolExprType.AND_EXPR, BoolExprType.OR_EXPR):
        return (node.boolop.name, tuple(meaning(part) for part in flattened(node, node.boolop)))
    if isinstance(node, ast.Node):
        parts = [
            (name, meaning(getattr(node, name)))
            for name in node
            if name not in IGNORED and not is_default(getattr(node, name))
        ]
        return (type(node).__name__, tuple(parts))
    if isinstance(node, tuple | list):
        return tuple(meaning(part) for part in node)
    return node


def is_default(value: object) -> bool:
    """What a field has that nobody set."""
    return value is None or value is False or (isinstance(value, Enum) and value.value == 0) or value == ()


def flattened(node: ast.Node | None, operator: BoolExprType) -> list[ast.Node]:
    """The parts of a chain of AND or OR, [] for no condition."""
    if node is None:
        return []
    if isinstance(node, ast.BoolExpr) and node.boolop == operator:
        return [part for argument in items(node.args) for part in flattened(argument, operator)]
    return [node]


def conjuncts(node: ast.Node | None) -> list[ast.Node]:
    """The parts of a condition that must all hold."""
    return flattened(node, BoolExprType.AND_EXPR)


def conjunction(parts: Iterable[ast.Node]) -> ast.Node | None:
    """One condition of several, None of none."""
    args = tuple(part for whole in parts for part in conjuncts(whole))
    if len(args) < 2:
        return args[0] if args else None
    return ast.BoolExpr(boolop=BoolExprType.AND_EXPR, args=args)


def negation(condition: ast.Node) -> ast.Node:
    """NOT condition."""
    return ast.BoolExpr(boolop=BoolExprType.NOT_EXPR, args=(condition,))


def items(value: object) -> tuple[ast.Node, ...]:
    """A list of the tree, () where there is none."""
    return tuple(value) if isinstance(value, tuple | list) else ()


def changed(node: ast.Node, /, **fields: object) -> ast.Node:
    """A copy with other values in some fields; None takes a field away."""
    kept = {name: getattr(node, name) for name in node if getattr(node, name) is not None}
    both = {name: value for name, value in (kept | fields).items() if value is not None}
    return type(node)(**both)


def changed_select(select: ast.SelectStmt, /, **fields: object) -> ast.SelectStmt:
    """`changed` for a SELECT."""
    made = changed(select, **fields)
    assert isinstance(made, ast.SelectStmt)
    return made


def new_select(**fields: object) -> ast.SelectStmt:
    """A SELECT that is no set operation, unless `op` says so; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value not in (None, ())}
    made = changed(ast.SelectStmt(op=SetOperation.SETOP_NONE, all=False), **given)
    assert isinstance(made, ast.SelectStmt)
    return made


def substitute(node: ast.Node, replacements: Mapping[int, ast.Node]) -> ast.Node:
    """The tree with other nodes in place of those whose id is in the mapping, below replaced ones as well."""
    made = _substituted(node, replacements)
    assert isinstance(made, ast.Node)
    return made


def _substituted(node: object, replacements: Mapping[int, ast.Node]) -> object:
    if isinstance(node, tuple):
        parts = tuple(_substituted(part, replacements) for part in node)
        return parts if any(new is not old for new, old in zip(parts, node, strict=True)) else node
    if not isinstance(node, ast.Node):
        return node
    if id(node) in replacements:
        left = {key: value for key, value in replacements.items() if key != id(node)}
        return _substituted(replacements[id(node)], left)
    fields = {}
    for name in node:
        value = getattr(node, name)
        if isinstance(value, ast.Node | tuple):
            new = _substituted(value, replacements)
            if new is not value:
                fields[name] = new
    return changed(node, **fields) if fields else node


def names_of(node: object) -> tuple[str, ...]:
    """The words of a qualified name: of a column, a function, a type; a star is '*'."""
    parts = node.fields if isinstance(node, ast.ColumnRef) else node
    return tuple(
        str(part.sval) if isinstance(part, ast.String) else "*" if isinstance(part, ast.A_Star) else "?"
        for part in items(parts)
    )


def strings(*words: str) -> tuple[ast.String, ...]:
    """A qualified name of these words."""
    return tuple(ast.String(sval=word) for word in words)


def column(*words: str) -> ast.ColumnRef:
    """A reference to a column."""
    return ast.ColumnRef(fields=strings(*words))


def integer(value: int) -> ast.Node:
    """An integer constant of any size."""
    if -(2**31) < value < 2**31:
        return ast.A_Const(val=ast.Integer(ival=value))
    return ast.A_Const(val=ast.Float(fval=str(value)))


def text(value: str) -> ast.A_Const:
    """A string constant, of type unknown as in 'x'."""
    return ast.A_Const(val=ast.String(sval=value))


def cast(value: ast.Node, *words: str) -> ast.TypeCast:
    """CAST(value AS type)."""
    return ast.TypeCast(arg=value, typeName=ast.TypeName(names=strings(*words), typemod=-1))


def operation(left: ast.Node, operator: str, right: ast.Node) -> ast.A_Expr:
    """left operator right."""
    return ast.A_Expr(kind=A_Expr_Kind.AEXPR_OP, name=strings(operator), lexpr=left, rexpr=right)


def exists(select: ast.SelectStmt) -> ast.SubLink:
    """EXISTS (select)."""
    return ast.SubLink(subLinkType=SubLinkType.EXISTS_SUBLINK, subselect=select)


def target(value: ast.Node, name: str | None = None) -> ast.ResTarget:
    """An output column."""
    return ast.ResTarget(name=name, val=value) if name else ast.ResTarget(val=value)


def join(left: ast.Node, right: ast.Node, kind: JoinType, condition: ast.Node | None = None) -> ast.JoinExpr:
    """left JOIN right ON condition; CROSS JOIN without one."""
    if condition is None:
        return ast.JoinExpr(jointype=kind, isNatural=False, larg=left, rarg=right)
    return ast.JoinExpr(jointype=kind, isNatural=False, larg=left, rarg=right, quals=condition)


def is_operation(node: object, *operators: str) -> bool:
    """Whether it is `a operator b` of one of these, written without a schema."""
    return (
        isinstance(node, ast.A_Expr)
        and node.kind == A_Expr_Kind.AEXPR_OP
        and node.lexpr is not None
        and len(items(node.name)) == 1
        and names_of(node.name)[0] in operators
    )


def sides(node: ast.Node) -> tuple[ast.Node, ast.Node]:
    """Both operands of `a operator b`."""
    assert isinstance(node, ast.A_Expr)
    left, right = node.lexpr, node.rexpr
    assert isinstance(left, ast.Node) and isinstance(right, ast.Node)
    return left, right


def constant(node: object) -> str | int | bool | Decimal | None:
    """The value of a constant; None where it is none, or NULL. Numbers with a point or of many digits:
    Decimal."""
    if not isinstance(node, ast.A_Const) or node.isnull:
        return None
    value = node.val
    if isinstance(value, ast.Integer):
        return int(value.ival or 0)
    if isinstance(value, ast.Float):
        return decimal_of(str(value.fval))
    if isinstance(value, ast.Boolean):
        return bool(value.boolval)
    return str(value.sval) if isinstance(value, ast.String) else None


def decimal_of(written: str) -> Decimal | None:
    """A number as PostgreSQL's grammar writes it (0x1F and 1_000 as well), None for what it is not."""
    plain = written.replace("_", "")
    try:
        return Decimal(int(plain, 0)) if plain[:2].lower() in ("0x", "0o", "0b") else Decimal(plain)
    except (InvalidOperation, ValueError):
        return None


def words_used(tree: ast.Node) -> set[str]:
    """Every name and string in the tree: what a new name must not be."""
    found = set()
    for node in walk(tree):
        for name in node:
            value = getattr(node, name)
            if isinstance(value, str):
                found.add(value)
    return found


def fresh(tree: ast.Node, stem: str) -> str:
    """A name that stands nowhere in the tree and is no beginning of another."""
    used = words_used(tree)
    number = 1
    while any(word.startswith(f"{stem}_{number}") for word in used):
        number += 1
    return f"{stem}_{number}"


def references(node: object) -> Iterator[ast.ColumnRef]:
    """The columns that are named in a tree, those of subqueries too."""
    stack = [node]
    while stack:
        place = stack.pop()
        if isinstance(place, ast.ColumnRef):
            yield place
        elif isinstance(place, ast.Node):
            stack.extend(getattr(place, name) for name in place)
        elif isinstance(place, tuple):
            stack.extend(place)


def is_plain(select: ast.SelectStmt) -> bool:
    """FROM, WHERE and output columns, and nothing else."""
    return not (
        select.op != SetOperation.SETOP_NONE
        or select.valuesLists
        or select.distinctClause
        or select.groupClause
        or select.havingClause
        or select.windowClause
        or select.sortClause
        or select.limitCount
        or select.limitOffset
        or select.lockingClause
        or select.withClause
        or not select.fromClause
    )


def plain_subselect(node: object, kind: SubLinkType) -> ast.SelectStmt | None:
    """The SELECT of a subquery expression of that kind that only filters: no groups, limits or set
    operations."""
    if not isinstance(node, ast.SubLink) or node.subLinkType != kind:
        return None
    select = node.subselect
    return select if isinstance(select, ast.SelectStmt) and is_plain(select) else None


def has_grouping_sets(select: ast.SelectStmt) -> bool:
    """GROUP BY with ROLLUP, CUBE or GROUPING SETS."""
    return any(isinstance(node, ast.GroupingSet) for node in items(select.groupClause))


def inserts_values(tree: ast.Node) -> bool:
    """Whether a statement only adds rows that it names: it reads no table for them."""
    if not isinstance(tree, ast.InsertStmt):
        return False
    return sum(isinstance(node, ast.RangeVar) for node in walk(tree)) == 1
