"""A statement's own SQL, parsed: which columns it names, which it writes, which values are literal in it."""

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
        found = (reference(node) for node in walk(self.tree))
        return frozenset(each for each in found if each is not None)

    @cached_property
    def has_star(self) -> bool:
        """Whether `*` stands for columns: all of them are then read (but not in count(*))."""
        return any(
            isinstance(node, ast.ColumnRef) and any(isinstance(part, ast.A_Star) for part in node.fields)
            for node in walk(self.tree)
        )

    def columns_read(self, table: TableFacts, alias: str) -> frozenset[str] | None:
        """The table's columns that the statement names under this alias or without one; None: all of them."""
        if self.tree is None or self.has_star:
            return None
        names = {column.name for column in table.columns}
        return frozenset(
            name for found, name in self.references if name in names and found in (alias, table.name, None)
        )

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
