"""Statements on views that the new version refuses: both copies are without them, and so both fail."""

from collections.abc import Sequence

from pglast import ast

from pgassay.tune.rewrites.tree import RefusedError, read, walk
from pgassay.upgrade.copied_source import plain_parts
from pgassay.upgrade.empty_server import Refused

# Views can be left out of a dump by name; nothing else that a version refuses can.
VIEWS = ("view", "materialized view")


def why_it_fails(sql: str, refused: Sequence[Refused]) -> str:
    """The reason of a statement that reads a refused view; '' for any other."""
    try:
        named = {
            (str(node.schemaname or ""), str(node.relname))
            for node in walk(read(sql))
            if isinstance(node, ast.RangeVar)
        }
    except RefusedError:
        return ""
    for each in refused:
        if each.kind in VIEWS:
            schema, own = plain_parts(each.name)
            if (schema, own) in named or ("", own) in named:
                return f"it reads the {each.kind} {each.name}, which the new version refuses: {each.words}"
    return ""
