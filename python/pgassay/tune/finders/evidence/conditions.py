"""The conditions of a plan's node, parsed by PostgreSQL's grammar: columns, operators, values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pglast import ast, enums, parse_sql
from pglast.parser import ParseError
from pglast.stream import RawStream

# `in`: = ANY of several values. `outer`: = a column of another table. `match`: @@ of a text search.
ConditionKind = Literal[
    "equal", "in", "outer", "range", "like", "ilike", "regex", "contains", "match", "null", "not null",
    "true", "false", "other",
]  # fmt: skip
_RANGE = frozenset({"<", "<=", ">", ">="})
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "<@": "@>", "@>": "<@"}
# With the column on the right it is the pattern or the key that is looked for: no index finds those.
_ONE_WAY = frozenset({"~~", "~~*", "~", "~*", "?", "?|", "?&", "@?"})
_CONTAINS = frozenset({"@>", "&&", "?", "?|", "?&", "@?"})
_TEXT_OPERATORS: dict[str, ConditionKind] = {
    "~~": "like",
    "~~*": "ilike",
    "~": "regex",
    "~*": "regex",
    "@@": "match",
}
# What EXPLAIN prints for results of other plans is no SQL (get_parameter of ruleutils.c).
# What a text that is no expression makes of the statement around it: another kind of statement, or no list.
_NO_EXPRESSION = (AttributeError, TypeError, IndexError, ValueError)
_SUBPLAN = re.compile(r"\(?(?:hashed )?\b(?:InitPlan|SubPlan) \d+(?: \(returns [^)]*\))?\)?(?:\.col\d+)?")


@dataclass(frozen=True)
class Condition:
    """One condition of a node on its own table.

    `column` is set where one side is that column, else `expression` holds the side's SQL without the table's
    name. `values` are constants as text; () where the other side is none (a parameter, another table's
    column: `outer`, with its table's alias). `text` is the whole condition as SQL without the table's name.
    `immutable_without_zone`: the expression is immutable if its columns are timestamps without time zone.
    """

    kind: ConditionKind
    text: str
    column: str | None = None
    expression: str | None = None
    operator: str = ""
    values: tuple[str, ...] = ()
    outer: tuple[str, str] | None = None
    immutable: bool = True
    immutable_without_zone: bool = True
    columns: tuple[str, ...] = ()
    # The column is compared as text: the same column where it is a varchar, another value where it is a date.
    cast: bool = False

    @property
    def is_equality(self) -> bool:
        """Whether a B-tree finds its rows by one key, and what follows in the index stays in order."""
        return self.kind in ("equal", "outer", "null")


@dataclass(frozen=True)
class SortColumn:
    """A key to sort or group by: a column's name (of the alias before it, if any), and its direction."""

    alias: str | None
    column: str | None
    text: str
    descending: bool = False
    nulls_first: bool = False


def expression_of(text: str) -> ast.Node | None:
    """The syntax tree of a condition that EXPLAIN printed; None where it is no SQL."""
    for attempt in (text, _SUBPLAN.sub("$1", text)):
        try:
            return parse_sql(f"SELECT 1 WHERE {attempt}")[0].stmt.whereClause
        except (ParseError, *_NO_EXPRESSION):
            continue
    return None


def conditions(text: str, alias: str) -> tuple[Condition, ...]:
    """The conditions, joined by AND, of a node that scans a table under this alias; () for no SQL."""
    tree = expression_of(text)
    if tree is None:
        return ()
    return tuple(_condition(part, alias) for part in conjuncts(tree))


def conjuncts(tree: ast.Node) -> Iterator[ast.Node]:
    """The parts that AND joins."""
    if isinstance(tree, ast.BoolExpr) and tree.boolop == enums.BoolExprType.AND_EXPR:
        for part in tree.args:
            yield from conjuncts(part)
    else:
        yield tree


def sort_columns(text: str) -> tuple[SortColumn, ...]:
    """The keys of "Sort Key" or "Group Key"; () where one can't be read."""
    try:
        clause = parse_sql(f"SELECT 1 ORDER BY {text}")[0].stmt.sortClause
    except (ParseError, *_NO_EXPRESSION):
        return ()
    made = []
    for each in clause or ():
        node = each.node
        column = reference(node)
        descending = each.sortby_dir == enums.SortByDir.SORTBY_DESC
        nulls = each.sortby_nulls
        first = descending
        if nulls != enums.SortByNulls.SORTBY_NULLS_DEFAULT:
            first = nulls == enums.SortByNulls.SORTBY_NULLS_FIRST
        alias, name = column if column else (None, None)
        made.append(SortColumn(alias, name, RawStream()(node), descending, first))
    return tuple(made)


def join_columns(text: str) -> tuple[tuple[tuple[str, str], tuple[str, str]], ...]:
    """The pairs of columns that a join's condition says are equal, each as (alias, column)."""
    tree = expression_of(text)
    found = []
    for part in conjuncts(tree) if tree is not None else ():
        if isinstance(part, ast.A_Expr) and operator_of(part) == "=":
            left, right = (reference(uncast(side)) for side in (part.lexpr, part.rexpr))
            if left and right and left[0] and right[0]:
                found.append(((left[0], left[1]), (right[0], right[1])))
    return tuple(found)


def reference(node: ast.Node | None) -> tuple[str | None, str] | None:
    """The alias and the name of a column, if the node is one."""
    if not isinstance(node, ast.ColumnRef):
        return None
    parts = [part.sval for part in node.fields if isinstance(part, ast.String)]
    if len(parts) != len(node.fields) or not parts:
        return None
    return (parts[-2] if len(parts) > 1 else None), parts[-1]


def uncast(node: ast.Node | None) -> ast.Node | None:
    """What is below a cast to text: how EXPLAIN prints a varchar that is compared."""
    while isinstance(node, ast.TypeCast) and type_name(node) in ("text", "pg_catalog.text"):
        node = node.arg
    return node


def type_name(node: ast.TypeCast) -> str:
    """The name of the type that a cast is to."""
    return str(RawStream()(node.typeName))


def operator_of(node: ast.A_Expr) -> str:
    """The operator, without its schema."""
    return str(node.name[-1].sval)


def walk(node: object) -> Iterator[ast.Node]:
    """A syntax tree's nodes, parents first."""
    if isinstance(node, tuple | list):
        for each in node:
            yield from walk(each)
    elif isinstance(node, ast.Node):
        yield node
        for name in node:
            yield from walk(getattr(node, name))


def columns_of(node: object, alias: str) -> tuple[set[str], set[str]]:
    """The columns of the alias (or of none) in a tree, and the aliases of all others."""
    own, others = set(), set()
    for each in walk(node):
        found = reference(each)
        if found is not None:
            if found[0] in (alias, None):
                own.add(found[1])
            else:
                others.add(str(found[0]))
    return own, others


def without_alias(node: ast.Node) -> str:
    """SQL of a tree whose columns are all of one table, without that table's name."""
    text = str(RawStream()(node))
    tree = parse_sql(f"SELECT {text}")[0].stmt.targetList[0].val
    for each in walk(tree):
        if isinstance(each, ast.ColumnRef):
            each.fields = tuple(each.fields[-1:])
    return str(RawStream()(tree))


def normalised(text: str) -> str:
    """An expression in one spelling, so that two can be compared; the text itself where it is no SQL."""
    try:
        return without_alias(parse_sql(f"SELECT {text}")[0].stmt.targetList[0].val)
    except (ParseError, *_NO_EXPRESSION):
        return text


def constants(node: ast.Node | None) -> tuple[str, ...]:
    """The constant, or the constants of an array, as text; () for anything else."""
    if isinstance(node, ast.TypeCast):
        found = constants(node.arg)
        if node.typeName.arrayBounds and len(found) == 1:
            return _array(found[0])
        return found
    if isinstance(node, ast.A_ArrayExpr):
        return tuple(value for element in node.elements or () for value in constants(element))
    if isinstance(node, ast.A_Const) and not node.isnull:
        value = node.val
        for name in ("sval", "ival", "fval", "boolval"):
            if hasattr(value, name):
                return (str(getattr(value, name)),)
    return ()


def _array(text: str) -> tuple[str, ...]:
    inner = text.strip().removeprefix("{").removesuffix("}")
    return tuple(part.strip('"') for part in re.findall(r'"(?:[^"\\]|\\.)*"|[^,]+', inner))


def _condition(node: ast.Node, alias: str) -> Condition:
    own, others = columns_of(node, alias)
    text = without_alias(node) if not others else str(RawStream()(node))
    base = Condition("other", text, columns=tuple(sorted(own)), immutable=is_immutable(node))
    if isinstance(node, ast.ColumnRef):
        return _with(base, "true", node)
    if isinstance(node, ast.BoolExpr) and node.boolop == enums.BoolExprType.NOT_EXPR:
        return _with(base, "false", node.args[0]) if isinstance(node.args[0], ast.ColumnRef) else base
    if isinstance(node, ast.NullTest):
        is_null = node.nulltesttype == enums.NullTestType.IS_NULL
        return _with(base, "null" if is_null else "not null", node.arg)
    if isinstance(node, ast.A_Expr):
        return _comparison(base, node, alias)
    return base


def _comparison(base: Condition, node: ast.A_Expr, alias: str) -> Condition:
    left, right, operator = node.lexpr, node.rexpr, operator_of(node)
    several = node.kind == enums.A_Expr_Kind.AEXPR_OP_ANY
    # An index is searched for any of several values, not for all; and no row can be its key.
    if left is None or right is None or node.kind == enums.A_Expr_Kind.AEXPR_OP_ALL:
        return base
    if isinstance(left, ast.RowExpr):
        return base
    if not columns_of(left, alias)[0]:
        # With the array on the right, what is looked for is an element of it.
        if operator in _ONE_WAY or several:
            return base
        left, right, operator = right, left, _SWAPPED.get(operator, operator)
    own, others = columns_of(right, alias)
    if own or columns_of(left, alias)[1]:
        return base
    values = constants(right)
    outer = reference(uncast(right)) if others else None
    kind: ConditionKind = "other"
    if operator == "=" and node.kind == enums.A_Expr_Kind.AEXPR_OP:
        kind = "outer" if others else "equal"
    elif operator == "=" and several:
        kind = "in"
    elif operator in _RANGE and not several:
        kind = "range"
    elif operator in _CONTAINS:
        kind = "contains"
    elif operator in _TEXT_OPERATORS and not several:
        kind = _TEXT_OPERATORS[operator]
    made = _with(base, kind, left)
    known = (str(outer[0]), outer[1]) if outer and outer[0] else None
    return replace(made, operator=operator, values=values, outer=known)


def _with(base: Condition, kind: ConditionKind, side: ast.Node | None) -> Condition:
    """The condition with its kind, and the side that an index would have."""
    bare = uncast(side)
    found = reference(bare)
    if found is not None:
        return replace(base, kind=kind, column=found[1], cast=bare is not side)
    if side is None:
        return base
    return replace(
        base,
        kind=kind,
        expression=without_alias(side),
        immutable=is_immutable(side),
        immutable_without_zone=is_immutable(side, of_times=True),
    )


# Immutable by pg_proc.dat for every type of argument that they take; date_trunc, to_tsvector, timezone and
# casts are so only with certain arguments and looked at one by one.
_IMMUTABLE = frozenset(
    {
        "lower", "upper", "md5", "length", "char_length", "abs", "coalesce", "substr", "substring", "left",
        "right", "btrim", "ltrim", "rtrim", "replace", "reverse", "floor", "ceil", "round", "sqrt", "mod",
        "jsonb_extract_path_text", "jsonb_array_length", "cardinality", "array_length", "split_part",
    }
)  # fmt: skip
# Of a timestamp without time zone, whose value no setting changes.
_OF_TIMES = frozenset({"date_trunc", "date_part", "extract"})
_IMMUTABLE_CASTS = frozenset(
    {"text", "integer", "bigint", "smallint", "numeric", "double precision", "real", "boolean", "varchar"}
)


def is_immutable(node: ast.Node, *, of_times: bool = False) -> bool:
    """Whether an expression may be indexed whatever its columns' types are: surely, or False.

    `of_times`: where they are all timestamps without time zone.
    """
    functions = _IMMUTABLE | _OF_TIMES if of_times else _IMMUTABLE
    casts = _IMMUTABLE_CASTS | {"date"} if of_times else _IMMUTABLE_CASTS
    for each in walk(node):
        if isinstance(each, ast.FuncCall):
            name = str(each.funcname[-1].sval)
            with_configuration = (
                name == "to_tsvector" and len(each.args or ()) == 2 and bool(constants(each.args[0]))
            )
            if name not in functions and not with_configuration:
                return False
        elif isinstance(each, ast.TypeCast) and not constants(each.arg):
            if type_name(each).partition("(")[0] not in casts:
                return False
        elif isinstance(each, ast.SQLValueFunction | ast.SubLink | ast.ParamRef):
            return False
    return True
