"""Which columns of its result a query sorts by, as far as its text tells. Pure.

The grammar's own parser is no dependency of what compares two files. So what is not plainly a column of the
output ends the list: the sequence of the rows is compared by the columns before it.
"""

import re
from collections.abc import Iterator, Sequence

from pgassay.sql_text import Token, split_at_commas, token_at

_SOURCE = "the query"
# What may follow the items of an ORDER BY.
_AFTER = frozenset({"limit", "offset", "fetch", "for"})
_DIRECTION = re.compile(r"\s+(asc|desc)\b|\s+nulls\s+(first|last)\b", re.IGNORECASE)
_ALIAS = re.compile(r'^(.*\S)\s+(?:as\s+)?(?:[a-z_][\w$]*|"(?:[^"]|"")+")$', re.IGNORECASE | re.DOTALL)
_COMMENTS = ("line_comment", "block_comment")


def sort_keys(query: str, columns: Sequence[str]) -> tuple[int, ...]:
    """The places, from 0, of the output columns that the query's own ORDER BY sorts by, the first first.

    `columns`: the names of the output columns.
    """
    selected, items = _clauses(query)
    keys = []
    for item in items:
        place = _place(_DIRECTION.sub("", item).strip(), columns, selected)
        if place is None:
            break
        keys.append(place)
    return tuple(keys)


def _place(item: str, columns: Sequence[str], selected: Sequence[str]) -> int | None:
    if item.isdigit():
        return int(item) - 1 if 0 < int(item) <= len(columns) else None
    name = item[1:-1].replace('""', '"') if item.startswith('"') else item.lower()
    if list(columns).count(name) == 1:
        return list(columns).index(name)
    if len(selected) != len(columns):
        return None
    # With its alias, or without what looks like one.
    wanted = _plain(item)
    return next(
        (place for place, each in enumerate(selected) if wanted in _with_and_without_alias(each)), None
    )


def _with_and_without_alias(item: str) -> tuple[str, ...]:
    match = _ALIAS.match(item)
    return (_plain(item), _plain(match[1])) if match else (_plain(item),)


def _plain(text: str) -> str:
    return " ".join(text.split()).lower() if '"' not in text and "'" not in text else text.strip()


def _clauses(query: str) -> tuple[list[str], list[str]]:
    """The items of the query's first SELECT, and of its ORDER BY; [] without one."""
    selected, ordered = list[str](), list[str]()
    into: list[str] | None = None
    before = ""
    for token, depth in _tokens(query):
        word = token.text.lower() if token.kind == "word" and depth == 0 else ""
        if word == "select" and not selected:
            into = selected
        elif word == "by" and before == "order":
            into = ordered
        elif word == "from" or word in _AFTER:
            into = None
        elif into is not None and not (word == "order" and into is selected):
            into.append(token.text)
        if not token.text.isspace():
            before = word
    return _items("".join(selected)), _items("".join(ordered))


def _items(text: str) -> list[str]:
    return [each.strip() for each in split_at_commas(text, _SOURCE) if each.strip()]


def _tokens(query: str) -> Iterator[tuple[Token, int]]:
    """The tokens of a query without its comments, and how deep each is in parentheses."""
    position = depth = 0
    while position < len(query):
        token = token_at(query, position, _SOURCE)
        text = query[position : token.end]
        position = token.end
        depth -= token.kind == "close"
        kind = "other" if token.kind in _COMMENTS else token.kind
        yield Token(kind, " " if token.kind in _COMMENTS else text, token.end), depth
        depth += token.kind == "open"
