"""Names the statements of a workload's SQL text; the lexical rules are in pgassay/sql_text.py."""

import re

from pgassay.errors import UsageError
from pgassay.model.workload import Statement
from pgassay.sql_text import literals, split_statements, strip_comments, without_literals

__all__ = [
    "given_name", "headed", "headed_statements", "literals", "name_of", "named_statements",
    "split_statements", "strip_comments", "without_literals",
]  # fmt: skip

_NAME = re.compile(r"^[ \t]*--[ \t]*name:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_LEADING_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$))*")


def headed_statements(text: str, source: str) -> list[tuple[str, str]]:
    """Each statement with the comments before it: (comments, SQL); raises UsageError as split_statements."""
    return [headed(statement) for statement in split_statements(text, source)]


def headed(statement: str) -> tuple[str, str]:
    """A statement apart from the comments before it: (comments, SQL)."""
    heading = _LEADING_COMMENTS.match(statement)
    code_begins = heading.end() if heading else 0
    return statement[:code_begins], statement[code_begins:].strip()


def given_name(heading: str) -> str:
    """What the `-- name: …` among a statement's comments says; '' without one."""
    names = _NAME.findall(heading)
    return str(names[-1]) if names else ""


def name_of(heading: str, number: int) -> str:
    """The name that a statement is given, else `statement-NUMBER`."""
    return given_name(heading) or f"statement-{number}"


def named_statements(text: str, source: str) -> tuple[Statement, ...]:
    """Statements with their names: from a `-- name: …` comment before each, else `statement-N`.

    Raises UsageError for text without a statement, and for a name used twice.
    """
    named: list[Statement] = []
    for number, (heading, sql) in enumerate(headed_statements(text, source), start=1):
        name = name_of(heading, number)
        if any(other.name == name for other in named):
            raise UsageError(f"{source}: two statements are named '{name}': give each its own name")
        named.append(Statement(name=name, sql=sql))
    if not named:
        raise UsageError(f"{source} has no SQL statement: write at least one")
    return tuple(named)
