"""What another fix is to do where one partitions its table, and what can't be done then: told, and not run.

An index that is there stays with the table that is put aside, and the new one has it under another name; a
partitioned table has no storage parameters (ATExecSetRelOptions of src/backend/commands/tablecmds.c).
"""

from collections.abc import Sequence

from pglast import ast, enums

from pgassay.tune.answer.locks import comment, ended, parsed
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import SchemaFacts, TableFacts

_INDEX = "By hand: {table} is partitioned above, and its index has another name there. As it was tried:"
_OPTIONS = "By hand: {table} is partitioned above. Each of its partitions takes what was tried on it:"
_NOTHING = "-- Nothing to take back: it was left to be done by hand."
_OF_OPTIONS = frozenset({enums.AlterTableType.AT_SetRelOptions, enums.AlterTableType.AT_ResetRelOptions})


def with_partitions(fixes: Sequence[Candidate], facts: SchemaFacts | None) -> SchemaFacts | None:
    """The tables as they are once they are partitioned by a fix, for the indexes that others make on them."""
    if facts is None:
        return None
    tables = {(table.schema_, table.name): table for table in facts.tables}
    for root in (parsed(statement) for fix in fixes if fix.at_once for statement in fix.sql):
        if not isinstance(root, ast.CreateStmt) or root.relation is None:
            continue
        place = (str(root.relation.schemaname), str(root.relation.relname))
        if root.partspec is not None and place in tables:
            tables[place] = tables[place].model_copy(update={"kind": "partitioned", "indexes": ()})
        for above in root.inhRelations or ():
            tables[place] = TableFacts(
                schema_=place[0], name=place[1], kind="table", columns=(), parent=str(above.relname),
                parent_schema=str(above.schemaname),
            )  # fmt: skip
    return facts.model_copy(update={"tables": tuple(tables.values())})


def by_hand(
    fix: Candidate, before: SchemaFacts | None, after: SchemaFacts | None, *, is_undo: bool = False
) -> list[str]:
    """Its lines in a script where it can't be run then, else [].

    `before`: the tables as they are now; `after`: with those that are partitioned.
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
            tried = [line for each in fix.in_order(fix.sql) for line in comment(ended(each))]
            return [_NOTHING] if is_undo else [*comment(said), *tried]
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
