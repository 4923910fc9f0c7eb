"""The statements of a workload, read by PostgreSQL's own grammar, and their values put into them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pglast import ast, parse_sql
from pglast.parser import ParseError
from pglast.stream import RawStream
from pglast.visitors import Visitor

from pgassay.errors import UsageError
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.tune.candidate import TunedStatement
from pgassay.workloads.sql_files import read_sql_file
from pgassay.workloads.statement_names import headed_statements, name_of
from pgassay.workloads.statements import changes_data, file_of

_PLANNED = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)
# What reaches the machine or another one, whatever the catalog says of it.
_REACHING_OUT = re.compile(
    r"pg_read_(binary_)?file|pg_ls_\w+|pg_stat_file|lo_(import|export)|dblink\w*|pg_file_\w+"
)

_PARAMETERS = re.compile(r"^[ \t]*--[ \t]*parameters:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_WEIGHT = re.compile(r"^[ \t]*--[ \t]*weight:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
# No value of a statement's is this text.
_NO_LITERAL = "\0"


@dataclass(frozen=True)
class MeasuredStatement:
    """A statement with one set of its values: what is run. `sql` holds the values."""

    name: str
    of: TunedStatement
    set_index: int
    sql: str


def statements_of(workload: WorkloadSpec) -> tuple[TunedStatement, ...]:
    """The statements of a list; raises UsageError for what has no plan or accesses something outside it."""
    if workload.kind != "statements" or workload.is_maintenance:
        raise UsageError(
            f"tune measures a list of statements, but {workload.family} has none: write --workload sql:FILE"
        )
    if workload.has_transactions:
        raise UsageError(
            f"{workload.text}: tune works on single statements, but this file has a "
            "transaction: leave out BEGIN and COMMIT"
        )
    headings = _headings(workload)
    found = tuple(
        checked(statement, headings.get(statement.name, ""), workload.text)
        for statement in workload.statements
    )
    names = [each.name for each in measured(found)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{workload.text}: a statement is named '{name}', as one of the sets of another's values is: "
                "give it another name"
            )
    return found


def _headings(workload: WorkloadSpec) -> dict[str, str]:
    """The comments before each statement of a user's file, by its name."""
    if workload.family != "sql":
        return {}
    path = Path(file_of(workload.text.removeprefix("sql:")))
    headed = headed_statements(read_sql_file(path), str(path))
    return {name_of(heading, number): heading for number, (heading, _) in enumerate(headed, start=1)}


def values_of_heading(heading: str, where: str) -> tuple[tuple[str | None, ...], ...]:
    """The sets of values that a heading names: a list of literals in each line `-- parameters: …`.

    Raises UsageError, `where` saying whose they are.
    """
    found = []
    for text in _PARAMETERS.findall(heading):
        try:
            parsed_texts = parse_sql(f"SELECT {text}")
        except ParseError as error:
            raise UsageError(
                f"{where}: '-- parameters: {text}' is not a list of literals: {error.args[0]}"
            ) from None
        # `42; 43` would be two sets on one line.
        root = parsed_texts[0].stmt if len(parsed_texts) == 1 else None
        targets = root.targetList if isinstance(root, ast.SelectStmt) else None
        values = [_literal(target.val) for target in targets or ()]
        if not values or _NO_LITERAL in values:
            raise UsageError(
                f"{where}: '-- parameters: {text}' is not a list of literals: write 42, 'open', NULL"
            )
        found.append(tuple(values))
    return tuple(found)


def _literal(node: ast.Node | None) -> str | None:
    """The text of a literal; _NO_LITERAL for anything else."""
    if isinstance(node, ast.TypeCast):
        return _literal(node.arg)
    if isinstance(node, ast.A_Expr) and node.name and node.name[-1].sval == "-" and node.lexpr is None:
        value = _literal(node.rexpr)
        return value if value in (None, _NO_LITERAL) else f"-{value}"
    if not isinstance(node, ast.A_Const):
        return _NO_LITERAL
    if node.isnull or node.val is None:
        return None
    value = node.val
    if isinstance(value, ast.Integer):
        return str(value.ival or 0)
    if isinstance(value, ast.Float):
        return str(value.fval)
    if isinstance(value, ast.Boolean):
        return "true" if value.boolval else "false"
    return str(value.sval) if isinstance(value, ast.String) else _NO_LITERAL


def _weight_of(heading: str, where: str) -> float:
    texts = _WEIGHT.findall(heading)
    if not texts:
        return 1.0
    try:
        weight = float(texts[-1])
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise UsageError(
            f"{where}: '-- weight: {texts[-1]}' is not a number above 0: write how often it runs"
        )
    return weight


def checked(statement: Statement, heading: str, source: str) -> TunedStatement:
    """A statement that can be tuned, with what the comments before it say; `source` says whose it is.

    Raises UsageError for one that has no plan, accesses something outside the database, or lacks values.
    """
    where = f"{source}, statement {statement.name}"
    made = with_sets(statement, values_of_heading(heading, where), source)
    return made.model_copy(update={"weight": _weight_of(heading, where)})


def with_sets(
    statement: Statement, parameters: tuple[tuple[str | None, ...], ...], source: str
) -> TunedStatement:
    """The statement with these sets of values; `source` says where it stands.

    Raises UsageError for what has no plan or accesses something outside the database, and for too few or
    many values.
    """
    where = f"{source}, statement {statement.name}"
    root = parsed(statement.sql, where)
    if not isinstance(root, _PLANNED) or (isinstance(root, ast.SelectStmt) and root.intoClause):
        raise UsageError(
            f"{source}: {statement.name} is not a query, INSERT, UPDATE, DELETE or MERGE, so it has no plan: "
            "leave it out"
        )
    found = _Names()
    found(root)
    for name in found.functions:
        if _REACHING_OUT.fullmatch(name):
            raise UsageError(
                f"{source}: {statement.name} calls {name}, which accesses something outside the database: "
                "leave it out"
            )
    for values in parameters or ((),):
        if len(values) != found.parameters:
            raise UsageError(
                f"{where} has {found.parameters} parameters, and a set of their values {len(values)}: name "
                "them before it, as in '-- parameters: 42, 'open''"
            )
    return TunedStatement(
        name=statement.name, sql=statement.sql, parameters=parameters, writes=changes_data(statement.sql)
    )


def parsed(sql: str, where: str) -> ast.Node:
    """The tree of one statement; raises UsageError with the parser's words, `where` saying whose it is."""
    try:
        statements = parse_sql(sql)
    except ParseError as error:
        raise UsageError(f"{where}: {error.args[0]}: correct its SQL") from None
    if len(statements) != 1:
        raise UsageError(f"{where} holds {len(statements)} statements: write one")
    root = statements[0].stmt
    if root is None:
        raise UsageError(f"{where} is empty: write a statement")
    return root


def parameters_in(sql: str) -> int:
    """The number of the last parameter of a statement, 0 for none; raises UsageError as `parsed`."""
    found = _Names()
    found(parsed(sql, "the statement"))
    return found.parameters


class _Names(Visitor):  # type: ignore[misc]  # the base has no types
    """The names of the functions that a statement calls, and the number of its last parameter."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.parameters = 0

    def visit_ParamRef(self, _ancestors: object, node: ast.ParamRef) -> None:  # noqa: N802
        self.parameters = max(self.parameters, node.number or 0)

    def visit_FuncCall(self, _ancestors: object, node: ast.FuncCall) -> None:  # noqa: N802
        if node.funcname:
            self.functions.append(str(node.funcname[-1].sval))


class _Values(Visitor):  # type: ignore[misc]  # the base has no types
    """Puts literals in the place of $1, $2 …: one without a type gets it as a parameter does."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self.values = values

    def visit_ParamRef(self, _ancestors: object, node: ast.ParamRef) -> ast.Node:  # noqa: N802
        value = self.values[(node.number or 1) - 1]
        if value is None:
            return ast.A_Const(isnull=True)
        return ast.A_Const(isnull=False, val=ast.String(value))


def with_values(sql: str, values: Sequence[str | None]) -> str:
    """The statement with these values in the place of its parameters; as it is without any."""
    if not values:
        return sql
    root = parse_sql(sql)
    _Values(values)(root)
    return str(RawStream()(root))


def measured(statements: Sequence[TunedStatement]) -> tuple[MeasuredStatement, ...]:
    """Every statement once for each set of its values, `NAME [2]` being its second."""
    made = []
    for each in statements:
        sets = each.parameters or ((),)
        for index, values in enumerate(sets):
            name = each.name if len(sets) == 1 else f"{each.name} [{index + 1}]"
            made.append(MeasuredStatement(name, each, index, with_values(each.sql, values)))
    return tuple(made)


def workload_of(
    statements: Sequence[MeasuredStatement],
    base: WorkloadSpec,
    rewritten: Mapping[str, str],
    weights: Mapping[str, float] | None = None,
) -> WorkloadSpec:
    """The workload that trials run; `rewritten`: by the statement's name the SQL that replaces it.

    `weights`: what a second of each counts; by how often it is called without.
    """
    weights = dict(weights) if weights is not None else weights_of(statements)
    if all(weight == 1 for weight in weights.values()):
        weights = {}
    return base.model_copy(
        update={
            "statements": tuple(
                Statement(name=each.name, sql=sql_with(each, rewritten)) for each in statements
            ),
            "weights": weights,
        }
    )


def weights_of(statements: Sequence[MeasuredStatement]) -> dict[str, float]:
    """How often each counts; the sets of values of a statement share its weight."""
    return {each.name: each.of.weight / max(1, len(each.of.parameters)) for each in statements}


# Of a statement's importance, where weights are given, what follows from its part of the time.
_BY_TIME = 0.5


def importance_of(statements: Sequence[MeasuredStatement], seconds: Mapping[str, float]) -> dict[str, float]:
    """What a second of each counts, so that every statement matters, however little of all time it takes.

    Without weights each counts alike: the sum is then that of each one's time as a part of what it took. With
    weights half of it is its part of the workload's time. In units that leave the whole workload's seconds,
    by how often each is called, what they are. `seconds`: as they are now, by name.
    """
    calls = weights_of(statements)
    whole_s = math.fsum(calls[name] * seconds[name] for name in calls)
    timed = [each for each in statements if seconds[each.name] > 0]
    if not timed or not whole_s:
        return calls
    alike = 1 / len({each.of.name for each in timed})
    has_weights = len({each.of.weight for each in statements}) > 1
    found = dict.fromkeys(calls, 0.0)
    for each in timed:
        part = alike / max(1, len(each.of.parameters))
        if has_weights:
            of_time = calls[each.name] * seconds[each.name] / whole_s
            part = _BY_TIME * of_time + (1 - _BY_TIME) * part
        found[each.name] = part * whole_s / seconds[each.name]
    return found


def least_share(statements: Sequence[MeasuredStatement], seconds: Mapping[str, float]) -> float:
    """The part of the least important statement in the whole, with all sets of its values."""
    weights = importance_of(statements, seconds)
    whole = math.fsum(weights[name] * seconds[name] for name in weights)
    shares: dict[str, float] = {}
    for each in statements:
        shares[each.of.name] = shares.get(each.of.name, 0.0) + weights[each.name] * seconds[each.name]
    return min((share for share in shares.values() if share > 0), default=0.0) / whole if whole else 1.0


def sql_with(statement: MeasuredStatement, rewritten: Mapping[str, str]) -> str:
    """What is run of a statement where some are rewritten."""
    other = rewritten.get(statement.of.name)
    if other is None:
        return statement.sql
    sets = statement.of.parameters
    return with_values(other, sets[statement.set_index] if sets else ())
