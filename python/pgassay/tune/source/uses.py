"""What the parameters of a statement are compared with: read from its tree, and from what its names mean.

pg_stat_statements puts $1, $2 … in the place of constants, wherever these stood. A parameter in a condition
on a column can be given a value that the column has; a constant of the output decides no plan; for others,
the reason why nothing tells their value is given.
"""

from collections.abc import Iterator, Sequence

from pglast import ast
from pglast.enums import A_Expr_Kind

from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.rewrites.names.scope import FoundColumn, Scope
from pgassay.tune.rewrites.tree import RefusedError, items, meaning, names_of, substitute, walk
from pgassay.tune.source.expressions import age_of, of_expression
from pgassay.tune.source.passed_on import (
    computing_numbers,
    numbers_of,
    output_numbers,
    parameter,
    passed_on,
    scopes_of,
)
from pgassay.tune.source.use import WORDS, Use, UseKind

_BELOW, _ABOVE = frozenset({"<", "<="}), frozenset({">", ">="})
# Values that the column has are contained in themselves.
_EQUAL = frozenset({"=", "<>", "!=", "@>", "<@", "&&"})
_TURNED: dict[UseKind, UseKind] = {"below": "above", "above": "below"}
_LIKE_KINDS = (A_Expr_Kind.AEXPR_LIKE, A_Expr_Kind.AEXPR_ILIKE)
_BETWEEN_KINDS = (
    A_Expr_Kind.AEXPR_BETWEEN, A_Expr_Kind.AEXPR_NOT_BETWEEN, A_Expr_Kind.AEXPR_BETWEEN_SYM,
    A_Expr_Kind.AEXPR_NOT_BETWEEN_SYM,
)  # fmt: skip
_SAME_KINDS = (A_Expr_Kind.AEXPR_OP, A_Expr_Kind.AEXPR_DISTINCT, A_Expr_Kind.AEXPR_NOT_DISTINCT)
# Functions whose result is written as their argument is, but for its case.
_OF_COLUMNS = frozenset({"lower", "upper", "date"})
_OF_WORDS = frozenset({*WORDS, "setting", "current_setting", "convert", "nextval", "currval"})
WORD = "it is a word that {} asks for, and it is not known which"
COMPUTES = "a condition is computed by it"
NOT_COMPARED = "it is not compared with a column whose values are in the statistics"


def uses_of(tree: ast.Node, facts: SchemaFacts) -> dict[int, Use]:
    """How each parameter of a statement is used, by its number; where it stands twice, what tells most."""
    found: dict[int, Use] = {}
    passed = passed_on(tree, facts)
    for use in _uses(passed.tree, facts):
        if use.number not in found or found[use.number].kind in ("unknown", "output"):
            found[use.number] = use
    refused = _refusals(tree, facts)
    outputs, words = output_numbers(tree) - passed.deciding, _words(passed.tree)
    computing = computing_numbers(tree)
    for number in sorted(numbers_of(tree)):
        if number in found:
            continue
        if number in words:
            function = words[number]
            kind: UseKind = "word" if function in WORDS else "unknown"
            found[number] = Use(number, kind, function=function, reason=WORD.format(function))
        elif number in outputs:
            found[number] = Use(number, "output", reason=COMPUTES if number in computing else "")
        else:
            found[number] = Use(number, "unknown", reason=refused or NOT_COMPARED)
    return found


def merged(tree: ast.Node) -> ast.Node:
    """The statement with one parameter for constants that must be equal: of a group and of the output.

    `SELECT date_trunc('day', d) … GROUP BY date_trunc('day', d)` has two constants, so two parameters, with
    which the server refuses it.
    """
    replaced: dict[int, ast.Node] = {}
    for select in (node for node in walk(tree) if isinstance(node, ast.SelectStmt)):
        outputs = {
            _blanked(target.val): target.val for target in items(select.targetList) if _is_made(target)
        }
        sorted_by = (node.node for node in items(select.sortClause) if isinstance(node, ast.SortBy))
        for expression in (*items(select.groupClause), *sorted_by, *items(select.distinctClause)):
            output = outputs.get(_blanked(expression)) if numbers_of(expression) else None
            if output is not None and output is not expression:
                pairs = zip(_parameters_in(expression), _parameters_in(output), strict=True)
                replaced.update({id(one): ast.ParamRef(number=other.number) for one, other in pairs})
    return substitute(tree, replaced) if replaced else tree


def _is_made(target: ast.Node) -> bool:
    return isinstance(target, ast.ResTarget) and isinstance(target.val, ast.Node)


def _parameters_in(node: object) -> list[ast.ParamRef]:
    return [each for each in walk(node) if isinstance(each, ast.ParamRef)]


def _blanked(node: object) -> object:
    """What an expression means, whatever the numbers of its parameters are."""
    numbers = {id(each): ast.ParamRef(number=0) for each in _parameters_in(node)}
    return meaning(substitute(node, numbers)) if isinstance(node, ast.Node) else None


def _words(tree: ast.Node) -> dict[int, str]:
    """Parameters that are arguments of functions that ask for words, with the function's name."""
    found: dict[int, str] = {}
    for call in (node for node in walk(tree) if isinstance(node, ast.FuncCall)):
        name = names_of(call.funcname)[-1]
        if name in _OF_WORDS:
            numbers = (parameter(argument) for argument in items(call.args))
            found |= {number: name for number in numbers if number is not None}
    return found


def _uses(tree: ast.Node, facts: SchemaFacts) -> Iterator[Use]:
    if isinstance(tree, ast.SelectStmt):
        yield from _limits(tree, is_top=True)
    for scope in scopes_of(tree, facts):
        if isinstance(scope, Scope):
            if scope.select is not tree:
                yield from _limits(scope.select, is_top=False)
            for node in walk(scope.select, into_selects=False):
                yield from _of_condition(scope, node)
            conditions = (scope.select.fromClause, scope.select.whereClause, scope.select.havingClause)
            for node in walk(conditions, into_selects=False):
                if isinstance(node, ast.CoalesceExpr):  # as in `coalesce(hidden, $1) = $2`
                    yield from _compared(scope, items(node.args)[0], node, "equal")
    for node in walk(tree):
        if not isinstance(node, ast.InsertStmt | ast.UpdateStmt) or not isinstance(
            node.relation, ast.RangeVar
        ):
            continue
        table = _table_of(node.relation, facts)
        if isinstance(node, ast.UpdateStmt):
            yield from _assigned(table, items(node.targetList))
            continue
        yield from _inserted(node, table)
        if node.onConflictClause is not None:
            yield from _assigned(table, items(node.onConflictClause.targetList))


def _refusals(tree: ast.Node, facts: SchemaFacts) -> str:
    """Why names of the statement could not be understood; '' where they all were."""
    return next((str(each) for each in scopes_of(tree, facts) if isinstance(each, RefusedError)), "")


def _limits(select: ast.SelectStmt, *, is_top: bool) -> Iterator[Use]:
    kinds: tuple[tuple[UseKind, object], ...] = (
        ("limit", select.limitCount), ("offset", select.limitOffset)
    )  # fmt: skip
    for kind, node in kinds:
        number = parameter(node)
        if number is not None:
            yield Use(number, kind, is_top=is_top)


def _of_condition(scope: Scope, node: ast.Node) -> Iterator[Use]:
    if not isinstance(node, ast.A_Expr) or node.name is None:
        return
    operator = names_of(node.name)[-1]
    if node.kind in _BETWEEN_KINDS:
        bounds: tuple[UseKind, ...] = ("above", "below")
        for end, kind in zip(items(node.rexpr), bounds, strict=False):
            yield from _compared(scope, node.lexpr, end, kind)
    elif node.kind == A_Expr_Kind.AEXPR_IN:
        members = items(node.rexpr)
        for place, member in enumerate(members):
            for one, other in _pairs(node.lexpr, member):
                yield from _compared(scope, one, other, "list", place, len(members))
    elif node.kind in _LIKE_KINDS:
        yield from _compared(scope, node.lexpr, _pattern(node.rexpr), "like")
    elif node.kind in (A_Expr_Kind.AEXPR_OP_ANY, A_Expr_Kind.AEXPR_OP_ALL):
        yield from _compared(scope, node.lexpr, node.rexpr, "array")
    elif node.kind in _SAME_KINDS:
        yield from _by_operator(scope, node.lexpr, node.rexpr, _kind_of(operator, node.kind))


def _pattern(node: object) -> object:
    """The pattern of LIKE … ESCAPE …, which the grammar puts into a function."""
    if isinstance(node, ast.FuncCall) and names_of(node.funcname)[-1] == "like_escape":
        return items(node.args)[0]
    return node


def _kind_of(operator: str, kind: A_Expr_Kind) -> UseKind | None:
    if kind != A_Expr_Kind.AEXPR_OP or operator in _EQUAL:
        return "equal"
    if operator in _BELOW:
        return "below"
    return "above" if operator in _ABOVE else None


def _by_operator(scope: Scope, left: object, right: object, kind: UseKind | None) -> Iterator[Use]:
    if kind is None:
        return
    for one, other in _pairs(left, right):
        yield from _compared(scope, one, other, kind)
        yield from _compared(scope, other, one, _TURNED.get(kind, kind))


def _pairs(left: object, right: object) -> list[tuple[object, object]]:
    """What is compared with what: of two rows their columns."""
    rows = [items(side.args) if isinstance(side, ast.RowExpr) else (side,) for side in (left, right)]
    return [*zip(*rows, strict=True)] if len(rows[0]) == len(rows[1]) else []


def _compared(
    scope: Scope, tested: object, value: object, kind: UseKind, element: int = 0, elements: int = 1
) -> Iterator[Use]:
    """The use of a parameter `value` beside a column `tested`.

    Of several that are put together (`LIKE $1 || $2`) the first is the value, and the others are empty. Of a
    value that is moved (`date $1 + $2`) the others are as much as decides nothing: 1, or a day.
    """
    if isinstance(value, ast.CoalesceExpr):
        for each in items(value.args):
            yield from _compared(scope, tested, each, kind, element, elements)
        return
    value, *rest = _moved(value) or _put_together(value)
    yield from (Use(number, "output") for each in rest if (number := parameter(each)) is not None)
    number = parameter(value)
    interval = age_of(value) if number is None and kind in ("below", "above") else None
    if number is None and interval is None:
        return
    function, reference = _column_in(tested)
    if reference is None:
        if number is not None:
            fields = [*_field(scope, tested, number, element, elements)] if kind in ("equal", "list") else []
            yield from fields or of_expression(scope, tested, number, kind, element, elements)
        return
    found = _resolved(scope, reference)
    if found is None or (table := _stored_in(found, scope.facts)) is None:
        return
    yield Use(
        number if number is not None else interval or 0,
        kind if number is not None else "age",
        table,
        found.column.source,
        function,
        element,
        elements,
        is_before=number is None and kind == "below",
    )


def _resolved(scope: Scope, reference: ast.ColumnRef) -> FoundColumn | None:
    try:
        return scope.resolve(reference)
    except RefusedError:
        return None


def _stored_in(found: FoundColumn, facts: SchemaFacts) -> TableFacts | None:
    """The table of a column, of one that a subquery or a CTE hands on too; None for what is computed."""
    source = found.column.source
    if source is None or found.entry.table is not None:
        return found.entry.table if source is not None else None
    return next((table for table in facts.tables if any(each is source for each in table.columns)), None)


def _field(scope: Scope, tested: object, number: int, element: int, elements: int) -> Iterator[Use]:
    """The uses in `document ->> 'key' = $1`, whose key may be a parameter too."""
    while isinstance(tested, ast.TypeCast | ast.CollateClause):
        tested = tested.arg
    if not isinstance(tested, ast.A_Expr) or names_of(tested.name) != ("->>",):
        return
    _, reference = _column_in(tested.lexpr)
    found = _resolved(scope, reference) if reference is not None else None
    if found is None or (table := _stored_in(found, scope.facts)) is None:
        return
    column = found.column.source
    key_number = parameter(tested.rexpr)
    key = "" if key_number is not None else _text(tested.rexpr)
    if key_number is None and not key:
        return
    yield Use(number, "field", table, column, "", element, elements, key=key, key_number=key_number)
    if key_number is not None:
        yield Use(key_number, "key", table, column)


def _text(node: object) -> str:
    """A text constant; '' for anything else."""
    while isinstance(node, ast.TypeCast):
        node = node.arg
    return str(node.val.sval) if isinstance(node, ast.A_Const) and isinstance(node.val, ast.String) else ""


def _put_together(node: object) -> list[object]:
    """The parts that || or concat joins, in order."""
    inner = node
    while isinstance(inner, ast.TypeCast | ast.CollateClause):
        inner = inner.arg
    if isinstance(inner, ast.A_Expr) and inner.name is not None and names_of(inner.name) == ("||",):
        return [*_put_together(inner.lexpr), *_put_together(inner.rexpr)]
    if isinstance(inner, ast.FuncCall) and names_of(inner.funcname)[-1] == "concat":
        return [part for each in items(inner.args) for part in _put_together(each)] or [node]
    return [node]


def _moved(node: object) -> list[object]:
    """The parameters of `$1 + $2` or `$1 - $2 * …`, the one that is moved first; [] for anything else."""
    if not isinstance(node, ast.A_Expr) or node.kind != A_Expr_Kind.AEXPR_OP:
        return []
    is_sum = names_of(node.name) in (("+",), ("-",))
    first = _moved(node.lexpr) or ([node.lexpr] if parameter(node.lexpr) is not None else [])
    return [*first, *_parameters_in(node.rexpr)] if is_sum and first else []


def _column_in(node: object) -> tuple[str, ast.ColumnRef | None]:
    """The column of a compared expression, with the function that changes its case."""
    function = ""
    while True:
        if isinstance(node, ast.ColumnRef):
            return function, node
        if isinstance(node, ast.TypeCast | ast.CollateClause):
            node = node.arg
        elif isinstance(node, ast.CoalesceExpr):
            node = items(node.args)[0]
        elif isinstance(node, ast.FuncCall) and len(items(node.args)) == 1:
            name = names_of(node.funcname)[-1]
            if name not in _OF_COLUMNS:
                return "", None
            function, node = (name if name != "date" else function), items(node.args)[0]
        else:
            return "", None


# --- What is stored.


def _table_of(relation: ast.RangeVar, facts: SchemaFacts) -> TableFacts | None:
    return facts.table(str(relation.relname), str(relation.schemaname) if relation.schemaname else None)


def _inserted(tree: ast.InsertStmt, table: TableFacts | None) -> Iterator[Use]:
    if table is None or not isinstance(tree.selectStmt, ast.SelectStmt):
        return
    names = [str(node.name) for node in items(tree.cols) if isinstance(node, ast.ResTarget)]
    names = names or [column.name for column in table.columns]
    values: Sequence[object] = items(tree.selectStmt.valuesLists)
    if not values:
        values = (tuple(getattr(each, "val", None) for each in items(tree.selectStmt.targetList)),)
    for place, row in enumerate(values):
        for name, value in zip(names, items(row), strict=False):
            number, column = parameter(value), table.column(name)
            if number is not None and column is not None:
                yield Use(number, "stored", table, column, element=place, elements=len(values))


def _assigned(table: TableFacts | None, targets: Sequence[ast.Node]) -> Iterator[Use]:
    for target in targets:
        if table is None or not isinstance(target, ast.ResTarget):
            continue
        column = table.column(str(target.name))
        for value in _set_to(target) if column is not None else ():
            number = parameter(value)
            if number is not None:
                yield Use(number, "stored", table, column)
            elif isinstance(value, ast.A_Expr):
                # As in `stock = stock - 1`: how much is added decides no plan.
                yield from (Use(each, "output") for each in numbers_of(value))


def _set_to(target: ast.ResTarget) -> Sequence[object]:
    """What a column is set to: by `(a, b) = ($1, $2)` its own, by CASE or COALESCE one of several."""
    value: object = target.val
    if isinstance(value, ast.MultiAssignRef):
        row = value.source
        value = items(row.args)[(value.colno or 1) - 1] if isinstance(row, ast.RowExpr) else None
    while isinstance(value, ast.TypeCast):
        value = value.arg
    if isinstance(value, ast.CaseExpr):
        return (*(one.result for one in items(value.args) if isinstance(one, ast.CaseWhen)), value.defresult)
    return items(value.args) if isinstance(value, ast.CoalesceExpr | ast.MinMaxExpr) else (value,)
