"""Statements on views that the new version refuses: both copies are without them, and so both fail."""

from collections.abc import Sequence

from pglast import ast

from pgassay.traffic.tables import words_in
from pgassay.tune.rewrites.tree import RefusedError, read, walk
from pgassay.upgrade.copied_source import plain_parts
from pgassay.upgrade.empty_server import Refused

# Views can be left out of a dump by name; nothing else that a version refuses can.
VIEWS = ("view", "materialized view")


def why_it_fails(sql: str, refused: Sequence[Refused]) -> str:
    """The reason of a statement that reads a refused view; '' for any other."""
    views = [(each, *plain_parts(each.name)) for each in refused if each.kind in VIEWS]
    if not views:
        return ""
    names = _read_by(sql)
    for each, schema, own in views:
        if (schema, own) in names or ("", own) in names:
            return f"it reads the {each.kind} {each.name}, which the new version refuses: {each.words}"
    return ""


def _read_by(sql: str) -> set[tuple[str, str]]:
    """The relations that a statement names, with their schemas, '' where it names none.

    Of a text that can't be parsed, as of a family's, whose values are question marks, all words.
    """
    try:
        return {
            (str(node.schemaname or ""), str(node.relname))
            for node in walk(read(sql))
            if isinstance(node, ast.RangeVar)
        }
    except RefusedError:
        return {("", word) for word in words_in(sql)}
