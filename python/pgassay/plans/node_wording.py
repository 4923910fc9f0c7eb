"""Nodes and their figures in words, alike in findings, in comparisons and on the page."""

import re
from collections.abc import Sequence
from enum import Enum

from pgassay.model.plans.explained_plan import PlanNode
from pgassay.sql_text import identifier
from pgassay.words import quantity, size

USUAL_SCHEMA = "public"
# As many as PostgreSQL keeps of a name (NAMEDATALEN), less what ends that of statistics.
_NAME_BYTES = 57


class Order(Enum):
    """Where a name stands: at the beginning of a sentence, or within one."""

    FIRST = 0
    LOWER = 1


def target(node: PlanNode) -> str:
    """What a node works on: ' using INDEX on SCHEMA.TABLE ALIAS', or ''."""
    words = ""
    if node.index is not None and node.type != "Bitmap Index Scan":
        words += f" using {node.index}"
    if node.type == "Bitmap Index Scan" and node.index is not None:
        return f" on {node.index}"
    if node.relation is not None:
        words += f" on {f'{node.relation_schema}.' if node.relation_schema else ''}{node.relation}"
        if node.alias not in (None, node.relation):
            words += f" {node.alias}"
    return words


def title(node: PlanNode) -> str:
    """A node as EXPLAIN's text names it."""
    return f"{node.name}{target(node)}"


def label(node: PlanNode, order: Order = Order.FIRST) -> str:
    """A node in a sentence, with its number, which the tree shows as well."""
    article = "The" if order is Order.FIRST else "the"
    key = node.conditions.get("Sort Key") or node.conditions.get("Group Key")
    by = f" by {key[:60]}" if key and node.relation is None else ""
    return f"{article} {title(node)}{by} (node {node.id})"


def milliseconds(value: float | None) -> str:
    """A time in the unit that suits it: '12.3 ms', '1.893 s'."""
    return quantity(None if value is None else value / 1000, "s")


def size_kb(value: int | None) -> str:
    """A size that EXPLAIN gives in kB: '25 MB'."""
    return size(None if value is None else value * 1024)


def rows_words(value: float | None) -> str:
    """'1 row', '3,300,000 rows', '0.4 rows'."""
    if value is None:
        return ""
    shown = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2f}"
    return f"{shown} row{'' if value == 1 else 's'}"


def read_words(node: PlanNode) -> tuple[str, float]:
    """The rows that a scan read, and the loops that those are of: '50,000 rows'.

    Below a Gather the processes share a parallel scan, and what follows rows that they share. What each ran
    once is the same rows again: '50,000 rows in each of 3 processes', of one loop.
    """
    loops = node.loops or 0.0
    each = (node.rows_removed or 0.0) + (node.rows or 0.0)
    # EXPLAIN gives the mean of a loop to two decimals.
    if node.parallel or node.processes <= 1 or round(loops) != round(node.processes):
        return rows_words(round(each * loops)), loops
    return f"{rows_words(round(each))} in each of {round(loops)} processes", 1.0


def statistics_in_sql(schema: str | None, table: str, keys: Sequence[str], place: str) -> str:
    """CREATE STATISTICS of a table's columns and expressions, and the ANALYZE that fills it.

    place: the table as SQL has it. The statistics have a name, which they need not have from 16 on.
    """
    words = re.sub(r"[\W_]+", "_", "_".join((table, *keys))).strip("_").lower()
    name = identifier(f"{words.encode()[:_NAME_BYTES].decode(errors='ignore')}_stats")
    beside = f"{identifier(schema)}.{name}" if schema and place.startswith(f"{identifier(schema)}.") else name
    return f"CREATE STATISTICS {beside} ON {', '.join(keys)} FROM {place}; ANALYZE {place};"


def table_in_sql(schema: str | None, name: str) -> str:
    """A table as SQL has it, without the schema where it is the usual one or not known."""
    return (
        identifier(name) if schema in (None, "", USUAL_SCHEMA) else f"{identifier(schema)}.{identifier(name)}"
    )
