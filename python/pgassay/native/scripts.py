"""Scripts of pgbench's language, read by the native binary that will run them."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pgassay.errors import UsageError
from pgassay.native.process import NativeProcess, StatementError


class SentStatement(TypedDict):
    """An SQL command of a script, with `:name` for its variables; the line is counted from 1."""

    script: str
    line: int
    sql: str


class ReadScripts(TypedDict):
    """What scripts send, the names of all their variables, and whether any has a pipeline."""

    statements: list[SentStatement]
    variables: list[str]
    has_pipeline: bool


def read_scripts(scripts: Sequence[Mapping[str, str]]) -> ReadScripts:
    """Reads scripts, each with `name` and `text`.

    Raises UsageError naming script, line and column of the first fault; also without the native binary.
    """
    process = NativeProcess("scripts")
    try:
        process.send({"scripts": [dict(script) for script in scripts]})
        answer = process.receive()
    except StatementError as error:
        raise UsageError(f"{error.message}: correct the script") from error
    finally:
        process.kill()
    read: ReadScripts = {
        "statements": answer["statements"],
        "variables": answer["variables"],
        "has_pipeline": answer["has_pipeline"],
    }
    return read
