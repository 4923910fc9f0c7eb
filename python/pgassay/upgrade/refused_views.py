"""Statements on views that the new version refuses: both copies are without them, and so both fail."""

import re
from collections.abc import Iterable, Sequence

from pglast import ast

from pgassay.traffic.tables import words_in
from pgassay.tune.rewrites.tree import RefusedError, read, walk
from pgassay.upgrade.copied_source import bare_name, plain_parts
from pgassay.upgrade.empty_server import Refused

# Views can be left out of a dump by name; nothing else that a version refuses can.
VIEWS = ("view", "materialized view")
# What goes with its view: where a dump is made without that, and where that is dropped.
_GOES_ALONG = ("index", "unique index", "trigger", "rule")
_LACKING = re.compile(r'relation "(.+)" does not exist')


def lacking(words: str) -> str:
    """The relation that a server says does not exist, without quotes as there; '' for other words."""
    found = _LACKING.search(words)
    return found[1] if found else ""


def bare(name: str) -> str:
    """`public."Odd name"` as a server's words have it."""
    return ".".join(bare_name(name))


def goes_along(each: Refused, views: Iterable[str]) -> bool:
    """Whether it is refused since a view of these is, with which it is left out."""
    return each.kind in _GOES_ALONG and lacking(each.words) in set(map(bare, views))


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
