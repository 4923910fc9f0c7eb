"""Expressions of one table's columns that a parameter is compared with, as in `date_trunc('day', at) = $1`.

Their values are asked of a few rows (`few_rows`). Only functions and operators of PostgreSQL's own are taken:
what anybody else's do when they are executed is not known.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pglast import ast
from pglast.enums import A_Expr_Kind, SQLValueFunctionOp
from pglast.stream import RawStream

from pgassay.tune.facts.schema import ColumnFacts, TableFacts
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, items, names_of, substitute, walk
from pgassay.tune.source.passed_on import parameter
from pgassay.tune.source.use import WORDS, Use, UseKind

_FUNCTIONS = frozenset(
    {
        "abs", "btrim", "ceil", "ceiling", "char_length", "date_part", "date_trunc", "extract", "floor",
        "initcap", "left", "length", "lower", "ltrim", "md5", "mod", "octet_length", "replace", "reverse",
        "right", "round", "rtrim", "split_part", "strpos", "substr", "substring", "timezone", "trunc",
        "upper",
    }
)  # fmt: skip
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "||"})
# Of parameters within such an expression that no statistics tell: by the function, by their place.
_ASSUMED = {
    ("%", 1): "10", ("mod", 1): "10", ("left", 1): "3", ("right", 1): "3", ("substr", 1): "1",
    ("substr", 2): "3", ("substring", 1): "1", ("substring", 2): "3", ("round", 1): "0", ("trunc", 1): "0",
}  # fmt: skip
_PLAIN = (
    ast.ColumnRef, ast.A_Const, ast.ParamRef, ast.TypeCast, ast.TypeName, ast.CoalesceExpr, ast.CollateClause,
    ast.String, ast.Integer, ast.Float, ast.Boolean,
)  # fmt: skip
_NOW_FUNCTIONS = frozenset({"now", "transaction_timestamp", "statement_timestamp", "clock_timestamp"})
_NOW_OPERATIONS = (
    SQLValueFunctionOp.SVFOP_CURRENT_DATE, SQLValueFunctionOp.SVFOP_CURRENT_TIMESTAMP,
    SQLValueFunctionOp.SVFOP_CURRENT_TIMESTAMP_N, SQLValueFunctionOp.SVFOP_LOCALTIMESTAMP,
    SQLValueFunctionOp.SVFOP_LOCALTIMESTAMP_N,
)  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """Where a parameter stands within an expression: of which function or operator, the how-many-th."""

    number: int
    function: str
    argument: int


def of_expression(
    scope: Scope, tested: object, number: int, kind: UseKind, element: int, elements: int
) -> Iterator[Use]:
    """The uses in `expression = $1`, whose expression may hold parameters too; none for what is not read."""
    if not isinstance(tested, ast.Node) or not all(_is_plain(node) for node in walk(tested)):
        return
    columns = [node for node in walk(tested) if isinstance(node, ast.ColumnRef)]
    found = _one_table(scope, columns)
    places = list(_places(tested))
    inner = [node for node in walk(tested) if isinstance(node, ast.ParamRef)]
    values = {place.number: _assumed(place) for place in places}
    if found is None or any(not values.get(node.number or 0) for node in inner):
        return
    table, column, names = found
    replaced: dict[int, ast.Node] = {
        id(node): ast.ColumnRef(fields=(ast.String(sval=name),))
        for node, name in zip(columns, names, strict=True)
    }
    replaced |= {id(node): _constant(values[node.number or 0]) for node in inner}
    text = RawStream()(substitute(tested, replaced))
    compared = column.model_copy(update={"name": text, "common": (), "histogram": ()})
    yield Use(number, kind, table, compared, "", element, elements, expression=text)
    for place in places:
        if place.function not in WORDS:
            yield Use(
                place.number, "assumed", table, column, function=place.function, known=(_assumed(place),)
            )


def _is_plain(node: object) -> bool:
    if isinstance(node, ast.FuncCall):
        name = names_of(node.funcname)
        return name[-1] in _FUNCTIONS and name[:-1] in ((), ("pg_catalog",)) and node.over is None
    if isinstance(node, ast.A_Expr):
        return node.kind == A_Expr_Kind.AEXPR_OP and names_of(node.name)[-1] in _OPERATORS
    return isinstance(node, _PLAIN)


def _one_table(
    scope: Scope, columns: list[ast.ColumnRef]
) -> tuple[TableFacts, ColumnFacts, list[str]] | None:
    """The table whose columns these are, the first of them, and their names; None where it is not one."""
    try:
        found = [scope.resolve(each) for each in columns]
    except RefusedError:
        return None
    if len({id(each.entry) for each in found}) != 1:
        return None
    table, sources = found[0].entry.table, [each.column.source for each in found]
    known = [source for source in sources if source is not None]
    if table is None or len(known) < len(sources):
        return None
    return table, known[0], [source.name for source in known]


def _places(tested: ast.Node) -> Iterator[_Place]:
    """Where parameters are arguments, below casts."""
    for node in walk(tested):
        if isinstance(node, ast.FuncCall):
            function, arguments = names_of(node.funcname)[-1], items(node.args)
        elif isinstance(node, ast.A_Expr):
            function, arguments = names_of(node.name)[-1], (node.lexpr, node.rexpr)
        else:
            continue
        for place, argument in enumerate(arguments):
            while isinstance(argument, ast.TypeCast):
                argument = argument.arg
            if isinstance(argument, ast.ParamRef):
                yield _Place(argument.number or 0, function, place)


def _assumed(place: _Place) -> str:
    """A value that serves there; '' for none."""
    if place.function in WORDS and place.argument == 0:
        return WORDS[place.function]
    return _ASSUMED.get((place.function, place.argument), "")


def _constant(value: str) -> ast.Node:
    if value.isdigit():
        return ast.A_Const(val=ast.Integer(ival=int(value)))
    return ast.A_Const(val=ast.String(sval=value))


def age_of(node: object) -> int | None:
    """The number of the parameter in `now() - $1`, an interval; `now()` may be cut to a day or a month."""
    while isinstance(node, ast.TypeCast):
        node = node.arg
    if not isinstance(node, ast.A_Expr) or node.kind != A_Expr_Kind.AEXPR_OP or names_of(node.name) != ("-",):
        return None
    is_typed = isinstance(node.rexpr, ast.TypeCast) and _type_name(node.rexpr) == "interval"
    return parameter(node.rexpr) if is_typed and _is_now(node.lexpr) else None


def _is_now(node: object) -> bool:
    while isinstance(node, ast.TypeCast):
        node = node.arg
    if not isinstance(node, ast.FuncCall):
        return isinstance(node, ast.SQLValueFunction) and node.op in _NOW_OPERATIONS
    name, arguments = names_of(node.funcname)[-1], items(node.args)
    return name in _NOW_FUNCTIONS or (name == "date_trunc" and len(arguments) > 1 and _is_now(arguments[1]))


def _type_name(node: ast.TypeCast) -> str:
    name = node.typeName
    return names_of(name.names)[-1] if isinstance(name, ast.TypeName) else ""
