"""A statement's own SQL, parsed: which columns it names, which it writes, which values are literal in it."""

from collections.abc import Iterator
from functools import cached_property

from pglast import ast, parse_sql
from pglast.parser import ParseError

from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.evidence.conditions import constants, operator_of, reference, uncast, walk


class SqlText:
    """A statement as PostgreSQL's grammar reads it; `tree` is None where it can't."""

    def __init__(self, sql: str) -> None:
        try:
            parsed = parse_sql(sql)
        except ParseError:
            parsed = ()
        self.tree: ast.Node | None = parsed[0].stmt if len(parsed) == 1 else None

    @cached_property
    def references(self) -> frozenset[tuple[str | None, str]]:
        """All columns that are named, with the alias before each or None."""
        return frozenset(each for node in walk(self.tree) for each in _references(node))

    @cached_property
    def has_star(self) -> bool:
        """Whether `*` or NATURAL stands for columns: all of them are then read (but not in count(*))."""
        return any(
            (isinstance(node, ast.ColumnRef) and any(isinstance(part, ast.A_Star) for part in node.fields))
            or (isinstance(node, ast.JoinExpr) and node.isNatural)
            for node in walk(self.tree)
        )

    def _takes_rows(self, table: TableFacts) -> bool:
        """Whether a name of the table stands for its rows, as in row_to_json(orders)."""
        tables = (node for node in walk(self.tree) if isinstance(node, ast.RangeVar))
        called = {name for node in tables for name in _named(node, table.name)}
        called -= {column.name for column in table.columns}
        return any(found is None and name in called for found, name in self.references)

    def columns_read(self, table: TableFacts, alias: str) -> frozenset[str] | None:
        """The table's columns that the statement names under this alias or without one; None: all of them."""
        if self.tree is None or self.has_star or self._takes_rows(table):
            return None
        names = {column.name for column in table.columns}
        return frozenset(
            name for found, name in self.references if name in names and found in (alias, table.name, None)
        )

    def columns_of_levels(self, table: TableFacts) -> frozenset[frozenset[str]]:
        """For each query level that reads the table, a subquery or the statement, the columns it takes of it.

        A plan numbers the aliases that several levels share (lineitem_1), so that its scans can't be told
        apart by these. A column counts for the nearest level around it that has its table.
        """
        if self.tree is None or self.has_star or self._takes_rows(table):
            return frozenset()
        names = {column.name for column in table.columns}
        levels: list[tuple[frozenset[str], set[str]]] = []
        _read_levels(self.tree, table.name, names, (), levels)
        return frozenset(frozenset(found) for _, found in levels if found)

    @cached_property
    def literals(self) -> frozenset[tuple[str, str]]:
        """Columns that are compared with a value written in the statement, and not with a parameter."""
        found = set()
        for node in walk(self.tree):
            if isinstance(node, ast.A_Expr) and operator_of(node) == "=":
                for side, other in ((node.lexpr, node.rexpr), (node.rexpr, node.lexpr)):
                    column, values = reference(uncast(side)), constants(other)
                    if column is not None and len(values) == 1:
                        found.add((column[1], values[0]))
        return frozenset(found)

    @cached_property
    def updated_columns(self) -> frozenset[str]:
        """The columns that an UPDATE sets."""
        if not isinstance(self.tree, ast.UpdateStmt):
            return frozenset()
        return frozenset(str(target.name) for target in self.tree.targetList)

    @cached_property
    def target(self) -> str | None:
        """The table that INSERT, UPDATE or DELETE changes."""
        if isinstance(self.tree, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
            return str(self.tree.relation.relname)
        return None

    @cached_property
    def extreme(self) -> tuple[str, str] | None:
        """("max" or "min", column) where the statement selects that and nothing else."""
        tree = self.tree
        if not isinstance(tree, ast.SelectStmt) or len(tree.targetList or ()) != 1 or tree.groupClause:
            return None
        call = tree.targetList[0].val
        if isinstance(call, ast.FuncCall) and call.funcname[-1].sval in ("max", "min"):
            column = reference(call.args[0]) if call.args else None
            return (str(call.funcname[-1].sval), column[1]) if column else None
        return None


def _references(node: ast.Node) -> Iterator[tuple[str | None, str]]:
    """The columns that a node itself names, each with the alias before it or None: one, or those of USING."""
    found = reference(node)
    if found is not None:
        yield found
    if isinstance(node, ast.JoinExpr):
        yield from ((None, str(each.sval)) for each in node.usingClause or ())


def _read_levels(
    node: object,
    relation: str,
    columns: set[str],
    around: tuple[tuple[frozenset[str], set[str]], ...],
    levels: list[tuple[frozenset[str], set[str]]],
) -> None:
    """Sort the columns of a table by the levels that read it, each with its names for the table."""
    if isinstance(node, tuple | list):
        for each in node:
            _read_levels(each, relation, columns, around, levels)
        return
    if not isinstance(node, ast.Node):
        return
    if isinstance(node, ast.SelectStmt):
        mine = frozenset(_named(node.fromClause, relation))
        if mine:
            around = (*around, (mine, set()))
            levels.append(around[-1])
    for alias, column in _references(node):
        level = next((each for each in reversed(around) if alias is None or alias in each[0]), None)
        if level is not None and column in columns:
            level[1].add(column)
    for name in node:
        _read_levels(getattr(node, name), relation, columns, around, levels)


def _named(node: object, relation: str) -> Iterator[str]:
    """The names that a FROM clause gives a table, not those in its subqueries."""
    if isinstance(node, tuple | list):
        for each in node:
            yield from _named(each, relation)
    elif isinstance(node, ast.JoinExpr):
        yield from _named((node.larg, node.rarg), relation)
    elif isinstance(node, ast.RangeVar) and node.relname == relation:
        yield str(node.alias.aliasname if node.alias is not None else node.relname)
