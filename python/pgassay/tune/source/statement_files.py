"""The source's statements as files of the results folder, to be read, changed and given again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pgassay.durable import replace_file
from pgassay.model.tuning.source import SourceLeftOut
from pgassay.model.workload import Statement
from pgassay.sql_text import constant
from pgassay.tune.candidate import TunedStatement
from pgassay.words import share

STATEMENTS_FILE, LEFT_OUT_FILE = "statements.sql", "left-out.sql"
_HEAD = "-- Statements of {name} with values for their parameters, as they were measured.\n"
_HEAD_LEFT_OUT = (
    "-- Statements of {name} that were not measured. Write values for $1, $2 … above each, and give this\n"
    "-- file with --values.\n"
)


def write_files(
    folder: Path, statements: Sequence[TunedStatement], left_out: Sequence[SourceLeftOut], name: str
) -> None:
    """The statements with their values, and those that were left out, into the folder of results.

    name: the server's, HOST:PORT/DATABASE.
    """
    replace_file(folder / STATEMENTS_FILE, statements_text(statements, name).encode())
    if left_out:
        replace_file(folder / LEFT_OUT_FILE, left_out_text(left_out, name).encode())


def statements_text(statements: Sequence[TunedStatement], name: str) -> str:
    """A file of statements, for --workload and for --values."""
    parts = [_HEAD.format(name=name)]
    for each in statements:
        lines = [f"-- name: {each.name}", f"-- weight: {each.weight:g}"]
        lines += [f"-- parameters: {', '.join(map(constant, values))}" for values in each.parameters]
        parts.append("\n".join([*lines, f"{_ended(each.sql)}\n"]))
    return "\n".join(parts)


def plain_text(statements: Iterable[Statement]) -> str:
    """Statements that hold their values, for --workload."""
    return "\n".join(f"-- name: {each.name}\n{_ended(each.sql)}\n" for each in statements)


def left_out_text(left_out: Sequence[SourceLeftOut], name: str) -> str:
    """The statements without values, each with the reason, for whoever knows some."""
    parts = [_HEAD_LEFT_OUT.format(name=name)]
    for each in left_out:
        reason = " ".join(each.reason.split())
        lines = (f"-- name: {each.name}", f"-- {share(each.share)} of the time; left out: {reason}")
        parts.append("\n".join([*lines, f"{_ended(each.sql)}\n"]))
    return "\n".join(parts)


def _ended(sql: str) -> str:
    # On a line of its own: the text may end with a comment.
    return f"{sql.rstrip().rstrip(';')}\n;"
