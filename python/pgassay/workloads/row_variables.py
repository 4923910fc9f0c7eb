"""What `\\gset` of a transaction keeps, and where later statements of it stand for that, as in psql.

A name is one where psql takes it for one (psqlscan.l): `:name` as it is, `:'name'` as a literal, `:"name"` as
an identifier, `:{?name}` for whether it is set; none of them within a literal, a comment or a name in quotes,
nor behind another colon. One that nothing has set stays in the text, as the end of a slice does.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from pgassay.errors import UsageError
from pgassay.model.workload import Statement, TransactionPart
from pgassay.sql_text import constant, token_at

_GSET = re.compile(r"\\gset(?:[ \t]+(\w+))?[ \t]*;?[ \t]*(?:\n|$)")
_NAME = r"[A-Za-z0-9_\x80-\U0010ffff]+"
# Longest first, as psql takes them: a cast's colons and those of := are no variable's.
_COLON = re.compile(
    rf""":(?:[:=]|(?P<plain>{_NAME})|'(?P<literal>{_NAME})'|"(?P<identifier>{_NAME})"|\{{\?(?P<test>{_NAME})\}})"""
)
Quote = Literal["plain", "literal", "identifier", "test"]
_AS_WRITTEN: Mapping[Quote, str] = {
    "plain": ":{}",
    "literal": ":'{}'",
    "identifier": ':"{}"',
    "test": ":{{?{}}}",
}


@dataclass(frozen=True)
class Piece:
    """A part of a statement's text: as it is where `quote` is None, else the name of a variable."""

    text: str
    quote: Quote | None = None

    @property
    def as_written(self) -> str:
        """What stands for it in the statement's text."""
        return self.text if self.quote is None else _AS_WRITTEN[self.quote].format(self.text)


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
    """A text, divided where psql would look for a variable: text and variable by turns, text at both ends."""
    found: list[Piece] = []
    done = position = 0
    while position < len(sql):
        if sql[position] != ":":
            try:
                token = token_at(sql, position, "")
            except UsageError:
                break  # a quote behind a variable that is never closed: the server says so
            colon = token.text.find(":") if token.kind == "other" else -1
            position = token.end if colon < 0 else position + colon
            continue
        match = _COLON.match(sql, position)
        quote = next((each for each in _AS_WRITTEN if match and match[each]), None)
        if match and quote:
            found += [Piece(sql[done:position]), Piece(match[quote], quote)]
            done = match.end()
        position = match.end() if match else position + 1
    return (*found, Piece(sql[done:]))


def kept_before(statement: Statement) -> tuple[bool, ...]:
    """Of each statement of a transaction whether a `\\gset` is before it: until then all is plain text."""
    kept = accumulate((part.gset is not None for part in statement.parts), max, initial=False)
    return tuple(kept)[:-1]


def divided(statement: Statement) -> tuple[tuple[TransactionPart, tuple[Piece, ...]], ...]:
    """The statements of a transaction, each with its pieces: one for a text that stands for itself."""
    return tuple(
        (part, pieces(part.sql) if kept else (Piece(part.sql),))
        for part, kept in zip(statement.parts, kept_before(statement), strict=True)
    )


def documents(statement: Statement) -> tuple[dict[str, object], ...]:
    """The statements of a transaction as the native binary reads them."""
    return tuple(_document(part, text) for part, text in divided(statement))


def _document(part: TransactionPart, text: Sequence[Piece]) -> dict[str, object]:
    document: dict[str, object] = {"name": part.name, "sql": part.sql}
    if part.gset is not None:
        document["gset"] = part.gset
    if len(text) > 1:
        document["pieces"] = [
            {"text": each.text} if each.quote is None else {"variable": each.text, "quote": each.quote}
            for each in text
        ]
    return document


def bound(text: Sequence[Piece], values: Mapping[str, str]) -> str:
    """The text with the values of its variables; one that nothing has set stays, as in psql."""
    return "".join(_bound(piece, values.get(piece.text)) for piece in text)


def _bound(piece: Piece, value: str | None) -> str:
    match piece.quote:
        case "test":
            return "FALSE" if value is None else "TRUE"
        case "plain" if value is not None:
            return value
        case "literal" if value is not None:
            # psql's blank before E, which may stand behind a word.
            return constant(value).replace("E", " E", 1) if "\\" in value else constant(value)
        case "identifier" if value is not None:
            return '"{}"'.format(value.replace('"', '""'))
    return piece.as_written
