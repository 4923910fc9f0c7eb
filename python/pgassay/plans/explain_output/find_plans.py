"""The plans in a text: EXPLAIN's JSON or text, as psql or a program printed it, or auto_explain's log.

The log is stderr's, csvlog or jsonlog (contrib/auto_explain/auto_explain.c; src/backend/utils/error/elog.c
puts a tab before each further line of a message).
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.plans.explain_output.json_text import JsonError, parse
from pgassay.plans.explain_output.text_names import has_figures, node_of_line
from pgassay.plans.explain_output.text_tree import plan_of_text
from pgassay.words import percent_fixed

_LOGGED = re.compile(r"duration: (\d{1,15}(?:\.\d{1,6})?) ms  plan:")
_SEVERITY = re.compile(
    r"\b(?:LOG|ERROR|WARNING|NOTICE|INFO|STATEMENT|DETAIL|HINT|CONTEXT|FATAL|PANIC|DEBUG\d?|LOCATION|"
    r"QUERY):  "
)
# syslog numbers the lines of a message and writes tabs as #011.
_SYSLOG = re.compile(r"^[^\n]{0,200}?\[\d{1,9}-\d{1,9}\] #011", re.MULTILINE)
_HEADER = re.compile(r'^[ |"]*QUERY PLAN[ |"]*$')
# psql's expanded display has a record for each line of the text, and one for all lines of the JSON.
_EXPANDED = re.compile(r"(QUERY PLAN| {10}) \| ?")
# What \pset linestyle unicode draws instead of signs of ASCII: lines, their ends, the end of a line within.
_DRAWN = frozenset("─│┌┐└┘├┤┬┴┼═║╔╗╚╝╠╣╦╩╬ ")
_DRAWN_ENDS = re.compile(r"^[│║](?= )|[│║](?=\s*$)|(?<=^QUERY PLAN )[│║]|(?<=^ {11})[│║]", re.MULTILINE)
_DRAWN_BREAK = re.compile(r"↵(?=[| ]*$)", re.MULTILINE)
_RULE = re.compile(r"^[-+ |]*-{3}[-+ |]*$")
_ROWS = re.compile(r"^\(\d+ rows?\)\s*$")
_CONTINUED = re.compile(r"\s*\+\s*$")
_QUERY = "Query Text:"
_PARAMETERS = re.compile(r"\nQuery Parameters: (?=\$1 = )")
# A plan's last lines: what comes below one is another plan, however far to the right it stands.
_ENDED = re.compile(r"^\s*(Planning Time|Execution Time|Total runtime): ")
_JSON_BELOW = re.compile(r"^[\[{]\s*(\{\s*)?$", re.MULTILINE)
_JSON_BEGINS = re.compile(r'^[\[{]\s*(\{\s*)?($|"(Plan|Query Text)")', re.MULTILINE)
# The other forms, wherever psql, or a script, has put them.
_XML = re.compile(r"<explain[ >]")
_YAML = re.compile(r'^[ |"]*- Plan:', re.MULTILINE)
# What psql says of other statements of the same script.
_TAG = re.compile(
    r"(BEGIN|START TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET|RESET|PREPARE|DEALLOCATE|LOAD|"
    r"DISCARD [A-Z]+|ANALYZE|VACUUM|CHECKPOINT|DO|(CREATE|ALTER|DROP|TRUNCATE|LOCK)( [A-Z]+)+|INSERT 0 \d+|"
    r"(SELECT|UPDATE|DELETE|MERGE|COPY) \d+|Time: [\d.,]+ ms.*|\(\d+ rows?\)|)\s*(\n|$)"
)


@dataclass(frozen=True)
class FoundPlan:
    """A plan in the form of EXPLAIN's JSON: `document` has "Plan" and what stands beside it.

    logged: the beginning of a log's line, with its time. duration_ms: what auto_explain says of the
    statement.
    """

    document: Mapping[str, object]
    format: str
    logged: str | None = None
    duration_ms: float | None = None
    statement: str | None = None


def find_plans(text: str, source: str) -> list[FoundPlan]:
    """All plans of a text, in their order.

    `source` names it in messages. Raises UsageError, whose sentence says what the text is instead.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\0", "")
    if not text.strip():
        raise UsageError(f"{source} is empty: give it what EXPLAIN printed, or auto_explain's log")
    begins_json = text.lstrip()[:1] in ("[", "{")
    if _LOGGED.search(text) and not (begins_json and _is_plan_document(text)):
        found = list(_of_log(text))
        if found:
            return found
        raise UsageError(f"{source}: the log's plans can't be read: they are cut, or in XML or YAML")
    found = [plan for part in _undecorated(text) for plan in _of_part(part, source)]
    if not found:
        raise UsageError(f"{source} has no plan: {_instead(text)}")
    return found


def _is_plan_document(text: str) -> bool:
    try:
        return bool(_documents(parse(text)))
    except JsonError:
        return False


def _instead(text: str) -> str:
    if text.lstrip().startswith("<") or _XML.search(text):
        return "this looks like XML; type EXPLAIN (FORMAT JSON) or FORMAT TEXT"
    if _YAML.search(text):
        return "this looks like YAML; type EXPLAIN (FORMAT JSON) or FORMAT TEXT"
    return "give it what EXPLAIN (FORMAT JSON or TEXT) printed, or auto_explain's log"


# --- What is put around a plan.


def _undecorated(text: str) -> Iterator[str]:
    """The parts of a text that may be plans, without psql's heading, margin, borders and count of rows."""
    lines = _in_ascii(text).split("\n")
    expanded = [line[match.end() :] for line in lines if (match := _EXPANDED.match(line))]
    if any(line.startswith("QUERY PLAN | ") for line in lines):
        is_json = expanded[0].lstrip()[:1] in ("[", "{")
        yield "\n".join(_CONTINUED.sub("", line) if is_json else line for line in expanded)
        return
    text = "\n".join(lines)
    headers = [place for place, line in enumerate(lines) if _HEADER.match(line)]
    if not headers:
        yield _unquoted(text)
        return
    if any(_is_top(line) for line in lines[: headers[0]]):
        yield _unquoted("\n".join(lines[: headers[0]]))
    for place, end in zip(headers, [*headers[1:], len(lines)], strict=True):
        body = lines[place + 1 : end]
        ruled = bool(body) and _RULE.match(body[0]) is not None
        body = body[1:] if ruled else body
        stop = next((at for at, line in enumerate(body) if _ROWS.match(line)), len(body))
        body, after = body[:stop], body[stop + 1 :]
        while body and (not body[-1].strip() or _RULE.match(body[-1])):
            body.pop()
        if ruled:
            body = [_without_margin(line) for line in body]
        yield _unquoted("\n".join(body))
        if any(_is_top(line) for line in after):
            yield _unquoted("\n".join(after))


def _in_ascii(text: str) -> str:
    """A text with psql's borders as it draws them by default."""
    if not any(sign in text for sign in "─│═║↵"):
        return text
    lines = (
        "-" * len(line) if line.strip() and _DRAWN.issuperset(line) else line for line in text.split("\n")
    )
    return _DRAWN_BREAK.sub("+", _DRAWN_ENDS.sub("|", "\n".join(lines)))


def _without_margin(line: str) -> str:
    if line.startswith("| ") and line.rstrip().endswith("|"):
        line = line[1:].rstrip()[:-1].rstrip()
    return line[1:] if line.startswith(" ") else line


def _unquoted(text: str) -> str:
    """The text of a column that a program exported: each line between double quotes."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(line.startswith('"') and line.rstrip().endswith('"') for line in lines):
        return "\n".join(line.rstrip()[1:-1].replace('""', '"') for line in lines)
    return text


# --- One part: JSON or text.


def _of_part(text: str, source: str) -> Iterator[FoundPlan]:
    if text.lstrip()[:1] in ("[", "{"):
        first, rest = _first_json(text)
        yield from (FoundPlan(each, "json", statement=_query_of(each)) for each in _of_json(first, source))
        if rest.strip():
            yield from _of_part(rest, source)
        return
    begin = _JSON_BELOW.search(text)
    if begin is not None and any(_is_top(line) for line in text[: begin.start()].split("\n")):
        yield from _of_part(text[: begin.start()], source)
        yield from _of_part(text[begin.start() :], source)
        return
    # What a script printed before its plan is none.
    begin = _JSON_BEGINS.search(text)
    if begin is not None and not any(_is_top(line) for line in text[: begin.start()].split("\n")):
        below = text[begin.start() :]
        if _is_plan_document(_first_json(below)[0]):
            yield from _of_part(below, source)
            return
    for part in _separate(text):
        document = plan_of_text(part)
        if document is not None:
            yield FoundPlan(document, "text")


def _first_json(text: str) -> tuple[str, str]:
    """The first JSON document of a text and what stands below it, which may be another plan."""
    try:
        parse(text)
    except JsonError as error:
        if not error.is_extra:
            return text, ""
        rest = _without_tags(text[error.place :])
        if not rest:
            return text[: error.place], ""
        is_plan = rest[:1] in ("[", "{") or any(_is_top(line) for line in rest.split("\n"))
        return (text[: error.place], rest) if is_plan else (text, "")
    return text, ""


def _without_tags(text: str) -> str:
    """What follows the tags of commands at a text's beginning."""
    while text and (tag := _TAG.match(text)) is not None:
        text = text[tag.end() :]
    return text


def _of_json(text: str, source: str) -> list[Mapping[str, object]]:
    try:
        found = _documents(parse(text))
    except JsonError as error:
        # psql ends each line of a value with a plus sign.
        joined = "\n".join(_CONTINUED.sub("", line) for line in text.split("\n"))
        try:
            found = _documents(parse(joined))
        except JsonError:
            raise UsageError(f"{source}: {_broken(error, len(text))}") from None
    if not found:
        raise UsageError(f"{source} is JSON without a plan: give it what EXPLAIN (FORMAT JSON) printed")
    return found


def _broken(error: JsonError, length: int) -> str:
    if error.at_end:
        return f"the JSON is cut off after {length:,} characters: copy the whole of it"
    share = percent_fixed(error.place / max(1, length))
    return (
        f"this starts like JSON but is not valid at character {error.place + 1:,} ({share} of the text): "
        f"{error}"
    )


def _documents(value: object) -> list[Mapping[str, object]]:
    """The plans in a JSON value: EXPLAIN's list, a document, a top node, or names with a plan each."""
    if isinstance(value, list):
        return [document for each in value for document in _documents(each)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("Plan"), dict):
        return [value]
    if "Node Type" in value:
        return [{"Plan": value}]
    named = {key: each for key, each in value.items() if isinstance(each, list) and len(each) == 1}
    if not value or len(named) != len(value):
        return []
    return [
        {"Query Text": key, **each[0]}
        for key, each in named.items()
        if isinstance(each[0], dict) and isinstance(each[0].get("Plan"), dict)
    ]


def _query_of(document: Mapping[str, object]) -> str | None:
    query = document.get("Query Text")
    return query if isinstance(query, str) else None


def _separate(text: str) -> Iterator[str]:
    """A text with several plans below each other, cut before each top node."""
    lines = text.split("\n")
    starts = [place for place, line in enumerate(lines) if _is_top(line)]
    column = min((_column(lines[place]) for place in starts), default=0)
    starts = [
        place
        for before, place in zip([0, *starts], starts, strict=False)
        if _column(lines[place]) <= column
        or place == starts[0]
        or any(_ENDED.match(line) for line in lines[before:place])
    ]
    if len(starts) < 2:
        yield text
        return
    for place, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield "\n".join(lines[place:end])


def _is_top(line: str) -> bool:
    stripped = line.strip()
    return has_figures(stripped) and not stripped.startswith("->") and node_of_line(stripped) is not None


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


# --- A log.


def _of_log(text: str) -> Iterator[FoundPlan]:
    if "#011" in text:
        text = _SYSLOG.sub("\t", text)
    for head, message in _messages(text):
        match = _LOGGED.search(message)
        if match is None:
            continue
        duration, body = float(match[1]), message[match.end() :].lstrip("\n")
        plan = _logged_plan(body)
        if plan is not None:
            document, form, statement = plan
            yield FoundPlan(document, form, head or None, duration, statement)


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """The beginning of each message that has a plan, and the message."""
    if text.lstrip().startswith("{") and '"message"' in text:
        yield from _json_messages(text)
    elif re.search(r'^\d{4}-[^\n]*,"duration: ', text, re.MULTILINE):
        yield from _csv_messages(text)
    else:
        yield from _plain_messages(text)


def _json_messages(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if "  plan:" not in line:
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("message"), str):
            yield str(value.get("timestamp", "")), value["message"]


def _csv_messages(text: str) -> Iterator[tuple[str, str]]:
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    try:
        for row in csv.reader(io.StringIO(text)):
            yield from ((row[0], cell) for cell in row if _LOGGED.match(cell))
    except csv.Error:
        return


def _plain_messages(text: str) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        match = _LOGGED.search(lines[place])
        if match is None:
            place += 1
            continue
        head = _SEVERITY.split(lines[place][: match.start()])[0].strip()
        parts, place = [lines[place]], place + 1
        while place < len(lines) and not _begins_message(lines[place]):
            parts.append(lines[place].removeprefix("\t"))
            place += 1
        yield head, "\n".join(parts)


def _begins_message(line: str) -> bool:
    if line.startswith("\t"):
        return False
    # In most languages the severity has another name; auto_explain's own words are always English.
    return _SEVERITY.search(line[:400]) is not None or _LOGGED.search(line[:400]) is not None


def _first_value(text: str) -> object:
    """The JSON value that a text begins with, whatever another program wrote below it; None for none."""
    try:
        return parse(text)
    except JsonError as error:
        if not error.is_extra:
            return None
        end = error.place
    try:
        return parse(text[:end])
    except JsonError:
        return None


def _logged_plan(body: str) -> tuple[Mapping[str, object], str, str | None] | None:
    """The document of a message's plan, its form, and the statement."""
    if body.lstrip().startswith("{"):
        found = _documents(_first_value(body.strip()))
        return (found[0], "json", _query_of(found[0])) if found else None
    lines = body.split("\n")
    start = next((place for place, line in enumerate(lines) if _is_top(line)), None)
    if start is None:
        return None
    before = "\n".join(lines[:start])
    document = plan_of_text("\n".join(lines[start:]))
    if document is None:
        return None
    if _QUERY not in before:
        return document, "text", None
    # The values are no part of the statement, which is the same for others.
    statement = _PARAMETERS.split(before.partition(_QUERY)[2].strip(), maxsplit=1)[0]
    return document, "text", statement
