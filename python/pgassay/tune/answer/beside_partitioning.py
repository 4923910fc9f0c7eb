"""What can't be applied as it was tried, since another fix partitions the table: told, and not run.

An index that is there stays with the table that is put aside, and the new one has it under another name; a
partitioned table has no storage parameters (ATExecSetRelOptions of src/backend/commands/tablecmds.c).
"""

from pglast import ast, enums

from pgassay.tune.answer.locks import ended, parsed
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import SchemaFacts, TableFacts

_INDEX = "-- By hand: {table} is partitioned above, and its index has another name there. As it was tried:"
_OPTIONS = "-- By hand: {table} is partitioned above. Each of its partitions takes what was tried on it:"
_NOTHING = "-- Nothing to take back: it was left to be done by hand."
_OF_OPTIONS = frozenset({enums.AlterTableType.AT_SetRelOptions, enums.AlterTableType.AT_ResetRelOptions})


def by_hand(
    fix: Candidate, before: SchemaFacts | None, after: SchemaFacts | None, *, is_undo: bool = False
) -> list[str]:
    """Its lines in a script where it is one of these, else []. `after`: with the tables that are partitioned.

    `before`: as they are now.
    """
    if before is None or after is None or fix.at_once:
        return []
    for root in map(parsed, fix.in_order(fix.sql)):
        table, words = _changed(root, before)
        if table is None or table.kind != "table":
            continue
        now = after.table(table.name, table.schema_)
        if now is not None and now.kind == "partitioned":
            said = words.format(table=f"{table.schema_}.{table.name}")
            return [_NOTHING] if is_undo else [said, *(f"-- {ended(each)}" for each in fix.in_order(fix.sql))]
    return []


def _changed(root: ast.Node | None, facts: SchemaFacts) -> tuple[TableFacts | None, str]:
    """The table whose index a statement drops, or whose storage parameters it sets, and what is said then."""
    if isinstance(root, ast.DropStmt) and root.removeType == enums.ObjectType.OBJECT_INDEX:
        names = [tuple(str(part.sval) for part in each) for each in root.objects or ()]
        tables = (
            table
            for table in facts.tables
            for index in table.indexes
            if any((index.schema_, index.name)[-len(name) :] == name for name in names)
        )
        return next(tables, None), _INDEX
    is_of_options = isinstance(root, ast.AlterTableStmt) and bool(
        {each.subtype for each in root.cmds or ()} & _OF_OPTIONS
    )
    if is_of_options and root is not None and root.relation is not None:
        return facts.table(str(root.relation.relname), root.relation.schemaname), _OPTIONS
    return None, ""
