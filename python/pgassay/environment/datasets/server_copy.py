"""COPY between a table and a file that the server itself opens, or a program that it runs.

What such a file holds is part of the data that a script makes. The syntax: PostgreSQL's manual, COPY.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgassay.sql_text import Token, token_at


@dataclass(frozen=True)
class ServerCopy:
    """`file`: its name as written, '' where there is none. `is_read`: rows come from it, else they go there.

    `is_variable`: psql puts a variable's value there.
    """

    file: str
    is_read: bool
    is_program: bool = False
    is_variable: bool = False


def server_copy(statement: str) -> ServerCopy | None:
    """What a statement copies; None for any other, and for COPY FROM stdin or TO stdout."""
    depth = 0
    tokens = _tokens(statement)
    if next(tokens, "").lower() != "copy":
        return None
    for text in tokens:
        depth += {"(": 1, ")": -1}.get(text, 0)
        # A query in parentheses has a FROM of its own.
        if depth == 0 and text.lower() in ("from", "to"):
            return _at(next(tokens, ""), is_read=text.lower() == "from")
    return None


def _at(text: str, *, is_read: bool) -> ServerCopy | None:
    if text.lower() == "program":
        # Where rows go to decides nothing of the data.
        return ServerCopy("", is_read, is_program=True) if is_read else None
    if text.startswith(":"):
        return ServerCopy("", is_read, is_variable=True) if is_read else None
    if text.endswith("'"):
        return ServerCopy(_unquoted(text), is_read)
    return None


def _unquoted(text: str) -> str:
    is_escaped = text[0] in "eE"
    name = text[text.index("'") + 1 : -1].replace("''", "'")
    return name.replace("\\'", "'").replace("\\\\", "\\") if is_escaped else name


def _tokens(statement: str) -> Iterator[str]:
    position = 0
    while position < len(statement):
        token: Token = token_at(statement, position, "COPY")
        position = token.end
        text = token.text.strip()
        if text and token.kind not in ("line_comment", "block_comment"):
            yield text
