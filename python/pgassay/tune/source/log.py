"""Executed statements in a server's log, with the values of their parameters, as far as it tells them.

Read are stderr's log, csvlog and jsonlog (src/backend/utils/error/elog.c, csvlog.c, jsonlog.c) with what
log_statement and log_min_duration_statement write of a statement (src/backend/tcop/postgres.c:
`duration: … ms  statement: …`, `execute NAME: …` with a detail `Parameters: $1 = '42', $2 = NULL`), and plans
of auto_explain with their `Query Text` and `Query Parameters`. A log is read line by line, however long
it is.
"""

import contextlib
import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pgassay.errors import UsageError

# src/backend/utils/error/csvlog.c: the columns of a line.
_CSV_DATABASE, _CSV_MESSAGE, _CSV_DETAIL, _CSV_COLUMNS_MIN = 2, 13, 14, 23
_SEVERITY = re.compile(
    r"\b(LOG|ERROR|WARNING|NOTICE|INFO|STATEMENT|DETAIL|HINT|CONTEXT|QUERY|LOCATION|FATAL|PANIC|DEBUG[1-5])"
    r":  "
)
_HEAD_CHARACTERS_MAX = 400
_MESSAGE = re.compile(
    r"(?:duration: (?P<ms>\d{1,15}(?:\.\d{1,6})?) ms  )?"
    r"(?:statement|execute(?: fetch from)? [^:]{0,200}): (?P<sql>.*)",
    re.DOTALL,
)
_PLAN = re.compile(r"duration: (?P<ms>\d{1,15}(?:\.\d{1,6})?) ms  plan:\s*(?P<body>.*)", re.DOTALL)
_PLAN_BEGINS = re.compile(r"^\s*(?:Query Parameters:|\S.*\(cost=)", re.MULTILINE)
_PARAMETERS = re.compile(r"\A(?:Query )?Parameters?: ", re.IGNORECASE)
_PARAMETER = re.compile(r"\$(\d{1,5}) = (NULL|'((?:[^']|'')*)')(?:, |\Z)")
# What stands within the quotes after a value that was cut (src/backend/utils/mb/stringinfo_mb.c).
_CUT = "..."
# What a byte that is no UTF-8 was read as.
_UNREADABLE = "\ufffd"
# log_error_verbosity = verbose puts the SQLSTATE before a message, in stderr's log alone.
_SQLSTATE = re.compile(r"[0-9A-Z]{5}: ")
_CSV_LINE = re.compile(r'\d{4}-\d\d-\d\d [^,\n]{5,40},(?:(?:"[^"\n]*"|[^",\n]*),){2}')


@dataclass(frozen=True)
class LoggedValues:
    """An executed statement. `parameters`: the values of $1 … in its text, None where it has none.

    `duration_ms` is None where the log does not say how long it took; `database` is '' where it does not say
    whose it is.
    """

    sql: str
    parameters: tuple[str | None, ...] = ()
    duration_ms: float | None = None
    database: str = ""


def read_log(path: Path) -> Iterator[LoggedValues]:
    """The statements of a log file, read as they are asked for.

    Raises UsageError for one that can't be read, at once, and for one that is no log.
    """
    with _readable(path):
        pass
    return _logged_in(path)


def _logged_in(path: Path) -> Iterator[LoggedValues]:
    with _readable(path) as file:
        yield from logged_statements(file, str(path))


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(
            f"--log {path} can't be read ({error.strerror}): name a log of the server"
        ) from error


def logged_statements(lines: Iterable[str], source: str) -> Iterator[LoggedValues]:
    """The statements of a log's lines; `source` names it in messages.

    Raises UsageError for what is no log.
    """
    waiting = iter(lines)
    first = next(waiting, None)
    if first is None:
        raise UsageError(f"{source} is empty: name a log of the server")
    first = first.removeprefix("\ufeff")
    whole = _chained(first, waiting)
    if first.lstrip().startswith("{"):
        messages = _of_json(whole)
    elif _CSV_LINE.match(first):
        messages = _of_csv(whole)
    else:
        messages = _of_text(whole)
    has_messages = False
    for message, detail, database in messages:
        has_messages = True
        found = _statement(message, detail, database)
        if found is not None and not _is_unreadable(found):
            yield found
    if not has_messages:
        raise UsageError(
            f"{source} is not a log of a server: name one that was written to stderr, as csvlog or as jsonlog"
        )


def _is_unreadable(logged: LoggedValues) -> bool:
    """Whether it is written in another encoding: its values would be others than the server's."""
    return any(_UNREADABLE in text for text in (logged.sql, *logged.parameters) if text)


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


Message = tuple[str, str, str]


def _of_json(lines: Iterable[str]) -> Iterator[Message]:
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("message"), str):
            yield value["message"], str(value.get("detail") or ""), str(value.get("dbname") or "")


def _of_csv(lines: Iterable[str]) -> Iterator[Message]:
    limit = csv.field_size_limit(sys.maxsize)
    try:
        for row in csv.reader(line.replace("\0", "") for line in lines):
            if len(row) >= _CSV_COLUMNS_MIN:
                yield row[_CSV_MESSAGE], row[_CSV_DETAIL], row[_CSV_DATABASE]
    except csv.Error:
        return  # the rest of a broken file
    finally:
        csv.field_size_limit(limit)


def _of_text(lines: Iterable[str]) -> Iterator[Message]:
    """Messages with the detail that follows them; further lines of either begin with a tab."""
    message, detail, part = "", "", ""
    for raw in lines:
        line = raw.rstrip("\r\n")
        match = None if line.startswith("\t") else _SEVERITY.search(line[:_HEAD_CHARACTERS_MAX])
        if match is None:
            # A line without a tab is none of the server's, or of a message that another program folded.
            if part == "message":
                message += "\n" + line.removeprefix("\t")
            elif part == "detail":
                detail += "\n" + line.removeprefix("\t")
            continue
        begins = _SQLSTATE.match(line, match.end())
        text = line[begins.end() if begins else match.end() :]
        if match[1] == "DETAIL":
            detail, part = text, "detail"
            continue
        if message:
            yield message, detail, ""
        message, detail, part = (text, "", "message") if match[1] == "LOG" else ("", "", "")
        if match[1] not in ("LOG", "DETAIL"):
            yield "", "", ""  # a message of a log all the same
    if message:
        yield message, detail, ""


def _statement(message: str, detail: str, database: str) -> LoggedValues | None:
    plan = _PLAN.match(message)
    if plan is not None:
        return _of_plan(plan["body"], float(plan["ms"]), database)
    match = _MESSAGE.match(message)
    if match is None:
        return None
    parameters = parameters_of(detail)
    if parameters is None:
        return None
    return LoggedValues(
        match["sql"].strip(), parameters, float(match["ms"]) if match["ms"] else None, database
    )


def _of_plan(body: str, duration_ms: float, database: str) -> LoggedValues | None:
    """The statement of an auto_explain message, whose plan is text or JSON."""
    if body.lstrip().startswith("{"):
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return None
        query, said = document.get("Query Text"), document.get("Query Parameters")
        if not isinstance(query, str):
            return None
        parameters = parameters_of(f"Parameters: {said}" if isinstance(said, str) else "")
        return None if parameters is None else LoggedValues(query.strip(), parameters, duration_ms, database)
    _, found, rest = body.partition("Query Text:")
    begins = _PLAN_BEGINS.search(rest) if found else None
    if begins is None:
        return None
    line = rest[begins.start() :].lstrip().split("\n", 1)[0]
    parameters = parameters_of(line if line.startswith("Query Parameters:") else "")
    return (
        None
        if parameters is None
        else LoggedValues(rest[: begins.start()].strip(), parameters, duration_ms, database)
    )


def parameters_of(detail: str) -> tuple[str | None, ...] | None:
    """The values of a detail `Parameters: $1 = '42', $2 = NULL`; () where it names none.

    None where the log has cut one (log_parameter_max_length), or the line is not as the server writes it. A
    value that ends with three dots by itself can't be told from one that was cut, and counts as such.
    """
    begins = _PARAMETERS.match(detail)
    if begins is None:
        return ()
    values: list[str | None] = []
    text, place = detail[begins.end() :].rstrip(), 0
    while place < len(text):
        match = _PARAMETER.match(text, place)
        if match is None or int(match[1]) != len(values) + 1:
            return None
        if match[3] is not None and match[3].endswith(_CUT):
            return None
        values.append(None if match[2] == "NULL" else match[3].replace("''", "'"))
        place = match.end()
    return tuple(values)
