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


class ShownCommand(TypedDict):
    """A backslash command: the line at which it begins, its text, which character pgbench marks, from 0."""

    line: int
    text: str
    mark: int | None


class ScriptFault(TypedDict):
    """Why a script is none: where, and pgbench's message. `script` is None where it has no such place.

    `column` from 1 where one is meant, `command` without its backslash, `number` of the command from 1 where
    conditions don't fit together; `shown` is the whole command.
    """

    script: str | None
    line: int
    column: int | None
    command: str | None
    number: int | None
    shown: ShownCommand | None
    message: str


def read_script_faults(scripts: Sequence[Mapping[str, str]], protocol: str) -> ScriptFault | None:
    """Reads scripts, each with `name` and `text`, and gives the first fault; None where all are well.

    `protocol`: by which they will be sent. Raises UsageError without the native binary.
    """
    process = NativeProcess("scripts")
    try:
        process.send({"scripts": [dict(script) for script in scripts], "protocol": protocol})
        answer = process.receive_line()
    finally:
        process.kill()
    if "error" not in answer:
        return None
    usual: ScriptFault = {
        "script": None,
        "line": 0,
        "column": None,
        "command": None,
        "number": None,
        "shown": None,
        "message": answer["error"]["message"],
    }
    fault: ScriptFault = answer["error"].get("fault", usual)
    return fault


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
