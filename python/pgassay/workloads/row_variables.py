"""What `\\gset` of a transaction keeps, and where later statements of it stand for that, as in psql.

A name is one where psql takes it for one (psqlscan.l): `:name` as it is, `:'name'` as a literal, `:"name"` as
an identifier, none of them within a literal or a comment, and not behind what a cast or a slice is of.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.workload import Statement, TransactionPart
from pgassay.sql_text import constant, literals, token_at

_GSET = re.compile(r"\\gset(?:[ \t]+(\w+))?[ \t]*;?[ \t]*(?:\n|$)")
_NAME_IN_QUOTES = re.compile(r'(?<!:)"(?:[^"]|"")*"')
_VARIABLE = re.compile(
    r"(?<![:\w\])])(?::(?P<plain>[A-Za-z_]\w*)|:'(?P<literal>[A-Za-z_]\w*)'|:\"(?P<identifier>[A-Za-z_]\w*)\")"
)
Quote = Literal["plain", "literal", "identifier"]
_QUOTES: tuple[Quote, ...] = ("plain", "literal", "identifier")


@dataclass(frozen=True)
class Piece:
    """A part of a statement's text: as it is where `quote` is None, else the name of a variable."""

    text: str
    quote: Quote | None = None


def split_at_gset(sql: str, source: str) -> Iterator[tuple[str, str | None]]:
    """The statements of a text that `\\gset` ends, each with its prefix; None for the last, which has none.

    Raises UsageError for one without a statement before it, or with words behind it that are no prefix.
    """
    begin = position = 0
    while position < len(sql):
        token = token_at(sql, position, source)
        position = token.end
        is_backslash = token.kind == "other" and token.text.endswith("\\")
        if not (is_backslash and sql.startswith("gset", position)):
            continue
        found = _GSET.match(sql, position - 1)
        if found is None:
            raise UsageError(f"{source}: write \\gset or \\gset PREFIX at the end of a line")
        if not sql[begin : position - 1].strip():
            raise UsageError(f"{source}: \\gset has no statement: write it instead of the semicolon")
        yield sql[begin : position - 1], found[1] or ""
        begin = position = found.end()
    if sql[begin:].strip():
        yield sql[begin:], None


def pieces(sql: str) -> tuple[Piece, ...]:
    """The text, divided at its variables; one piece where it has none."""
    masked = list(sql)
    for each in literals(sql):
        # A variable as a literal is the one string that is none; behind a number is the end of a slice.
        if each.kind == "number" or (each.begin and sql[each.begin - 1] == ":" and each.kind == "string"):
            continue
        masked[each.begin : each.end] = " " * (each.end - each.begin)
    found, done = [], 0
    text = _NAME_IN_QUOTES.sub(lambda match: " " * len(match[0]), "".join(masked))
    for match in _VARIABLE.finditer(text):
        quote = next(each for each in _QUOTES if match[each])
        found += [Piece(sql[done : match.start()]), Piece(match[quote], quote)]
        done = match.end()
    return (*found, Piece(sql[done:]))


def has_variables(sql: str) -> bool:
    """Whether a text stands for something that is known only as it runs."""
    return len(pieces(sql)) > 1


def documents(statement: Statement) -> tuple[dict[str, object], ...]:
    """The statements of a transaction as the native binary reads them."""
    return tuple(map(_document, statement.parts))


def _document(part: TransactionPart) -> dict[str, object]:
    document: dict[str, object] = {"name": part.name, "sql": part.sql}
    if part.gset is not None:
        document["gset"] = part.gset
    if has_variables(part.sql):
        document["pieces"] = [
            {"text": each.text} if each.quote is None else {"variable": each.text, "quote": each.quote}
            for each in pieces(part.sql)
        ]
    return document


def bound(sql: str, values: Mapping[str, str]) -> str:
    """The text with the values of its variables; raises MeasurementError for one that nothing has set."""
    made = []
    for each in pieces(sql):
        if each.quote is None:
            made.append(each.text)
            continue
        if each.text not in values:
            raise MeasurementError(f"no \\gset has set :{each.text}: name the column so")
        value = values[each.text]
        identifier = '"{}"'.format(value.replace('"', '""'))
        made.append({"plain": value, "literal": constant(value), "identifier": identifier}[each.quote])
    return "".join(made)
