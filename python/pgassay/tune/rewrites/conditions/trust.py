"""Tables whose keys and NOT NULL prove nothing, and statements that read them."""

from pglast import ast

from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.rewrites.tree import walk


def why_untrusted(tree: ast.Node, facts: SchemaFacts) -> str | None:
    """Why what the catalog says of a table in the statement proves nothing; None when it does."""
    common = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
    for node in walk(tree):
        if isinstance(node, ast.WithClause) and node.recursive:
            return "WITH RECURSIVE stops by the rows that it finds"
        if not isinstance(node, ast.RangeVar):
            continue
        # The name of a CTE may mean a table elsewhere in the statement: then both have to be sure.
        table = facts.table(str(node.relname), node.schemaname)
        if table is None and node.schemaname is None and node.relname in common:
            continue
        if table is None:
            return f"the facts have no table {node.relname}"
        reason = why_untrusted_table(table) or _why_untrusted_partition(table, facts)
        if reason is not None:
            return reason
    return None


def _why_untrusted_partition(table: TableFacts, facts: SchemaFacts) -> str | None:
    """A foreign partition: nobody checks NOT NULL there, whatever the partitioned table says."""
    for one in facts.tables if table.kind == "partitioned" else ():
        if one.parent == table.name:
            reason = "" if one.kind == "foreign" else _why_untrusted_partition(one, facts)
            if reason is not None:
                return reason or f"{table.name} has a foreign partition"
    return None


def why_untrusted_table(table: TableFacts) -> str | None:
    """Row security, rules, views, foreign tables and inheritance: keys and NOT NULL say less there."""
    if table.row_security:
        return f"{table.name} has row security"
    if table.has_rules:
        return f"{table.name} has rules"
    if table.kind in ("view", "foreign"):
        return f"{table.name} is a {table.kind}{' table' if table.kind == 'foreign' else ''}"
    if table.inherited:
        return f"{table.name} has tables that inherit from it"
    return None
