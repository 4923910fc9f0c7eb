"""Statements out of a log's entries: text, parameters, duration, outcome."""

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pgassay.sql_text import strip_comments
from pgassay.traffic.logs.entries import LogEntry

_DURATION = re.compile(r"duration: (\d+(?:\.\d+)?) ms(?:  (.*))?$", re.DOTALL)
_STEP = re.compile(r"(statement|execute|parse|bind) ?(.*?): (.*)$", re.DOTALL)
_PLAN = re.compile(r"plan:\s*(.*)$", re.DOTALL)
# The text ends where its parameters or the plan's first node begin.
_VALUE = r"\$\d+ = (?:NULL|'(?:[^']|'')*')"
_PLAN_TEXT = re.compile(
    rf"Query Text: (.*?)(?:\nQuery Parameters: ({_VALUE}(?:, {_VALUE})*|[^\n]*))?"
    r"(?=\n[^\n]*  \(cost=|\n?$)",
    re.DOTALL,
)
_PLAN_XML = re.compile(r"<Query-(Text|Parameters)>(.*?)</Query-", re.DOTALL)
_PLAN_YAML = re.compile(r'^Query (Text|Parameters): ("(?:[^"\\]|\\.)*")', re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"\$(\d+) = (NULL|'(?:[^']|'')*')(?:, |$)", re.DOTALL)
_AUTHORIZED = re.compile(r"connection authorized: user=(\S+)(?: database=(\S+))?(?: application_name=(\S+))?")
_CUT = "..."
# What a prefix has for the user and database of a connection that has not been let in.
_UNKNOWN = "[unknown]"
_MS_NS, _SECOND_NS = 1_000_000, 1_000_000_000
_MAY_MATTER = re.compile(
    r"\b(?:begin|start|commit|end|rollback|abort|prepare\s+transaction)\b", re.IGNORECASE
)
_OPENS = re.compile(r"\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)
_GOES_BACK = re.compile(r"\s*rollback\s+(?:work\s+|transaction\s+)?to\b", re.IGNORECASE)
_CLOSES = re.compile(
    r"\s*(?:commit|end|rollback(?!\s+(?:work\s+|transaction\s+)?to\b)|abort|prepare\s+transaction)\b",
    re.IGNORECASE,
)
_CHAINS = re.compile(r"\band\s+chain\b", re.IGNORECASE)
# A function's own BEGIN ATOMIC … END has semicolons, and is no transaction.
_MAKES_A_FUNCTION = re.compile(r"\s*create\s+(?:or\s+replace\s+)?(?:function|procedure)\b", re.IGNORECASE)
# A portal that was executed before gives more rows: nothing is executed anew.
_FETCHES = "fetch from "
_PLACEHOLDER = re.compile(r"\$\d")
# Whoever executed a statement for a client: a function of any language, a DO block, a check of a foreign key.
_NESTED = re.compile(r"^(?:PL/\S+|SQL) (?:function|statement|expression|anonymous)\b", re.MULTILINE)


@dataclass(frozen=True)
class Logged:
    """What a log says of one execution. Times are Unix time in nanoseconds.

    `name` is None for a simple query, '' for the unnamed statement; `values` are texts, None for null.
    """

    session: str
    start_ns: int
    end_ns: int
    text: str
    name: str | None
    values: tuple[str | None, ...] = ()
    sqlstate: str = ""
    status: str = "I"
    has_duration: bool = True
    has_cut_value: bool = False


@dataclass(frozen=True)
class Edge:
    """A session begins (with user, database, application_name) or ends."""

    session: str
    at_ns: int
    parameters: tuple[tuple[str, str], ...] | None


@dataclass
class Transaction:
    """The state of a session's transaction, from the words of its statements: a log doesn't say it."""

    is_open: bool = False
    is_failed: bool = False

    def after(self, text: str, sqlstate: str) -> str:
        """The state as ReadyForQuery has it (I, T, E) after a statement, or several of one message."""
        parts = _parts(text)
        if sqlstate:
            # Of several the server stopped at one of them, behind BEGIN if there is one.
            self.is_open |= len(parts) > 1 and any(map(_OPENS.match, parts))
            self.is_failed = self.is_open
        for part in parts if not sqlstate or len(parts) == 1 else ():
            self._after_one(part, is_done=not sqlstate)
        if not self.is_open:
            return "I"
        return "E" if self.is_failed else "T"

    def _after_one(self, text: str, *, is_done: bool) -> None:
        if _CLOSES.match(text):
            self.is_open = is_done and bool(_CHAINS.search(text))
            self.is_failed = False
        elif _OPENS.match(text) and is_done:
            self.is_open = True
        elif _GOES_BACK.match(text) and is_done:
            self.is_failed = False


@dataclass
class _Session:
    begun: bool = False
    user: str = ""
    database: str = ""
    transaction: Transaction = field(default_factory=Transaction)
    end_ns: int = 0
    # A statement that was logged at its start, whose duration may follow.
    waiting: LogEntry | None = None
    # A plan of auto_explain, its duration, text and parameters; the statement's own line may follow.
    plan: tuple[LogEntry, float, str, str] | None = None

    def is_of_others(self, entry: LogEntry) -> bool:
        """Whether an entry of the same process's number is of another user or database."""
        named = ((self.user, entry.user), (self.database, entry.database))
        return any(own and other and own != other and other != _UNKNOWN for own, other in named)


@dataclass
class Reader:
    """Makes statements of entries, which come in the order of each session."""

    sessions: dict[str, _Session] = field(default_factory=dict)
    other_entries: int = 0

    def read(self, entries: Iterable[LogEntry]) -> Iterator[Logged | Edge]:
        """Sessions' edges and statements, in the order of each session."""
        for entry in entries:
            yield from self._entry(entry)
        for session in self.sessions.values():
            yield from self._left(session)

    def _entry(self, entry: LogEntry) -> Iterator[Logged | Edge]:
        if not entry.session:
            self.other_entries += 1
            return
        session = self.sessions.setdefault(entry.session, _Session())
        if session.begun and session.is_of_others(entry):
            # The number has come again, and the log has no connections that would tell.
            yield from self._left(session)
            yield Edge(entry.session, session.end_ns, None)
            session = self.sessions[entry.session] = _Session()
        if entry.level == "LOG" and entry.message.startswith("connection authorized"):
            # The number of a process may come again.
            yield from self._left(session)
            yield from self._closed(entry, session)
            session = self.sessions[entry.session] = _Session()
            yield self._begin(entry, session, _authorized(entry))
        elif entry.level == "LOG" and entry.message.startswith("disconnection"):
            yield from self._left(session)
            yield from self._closed(entry, session)
            del self.sessions[entry.session]
        elif entry.level in ("ERROR", "FATAL"):
            yield from self._failed(entry, session)
        elif entry.level == "LOG":
            yield from self._logged(entry, session)
        else:
            self.other_entries += 1

    def _closed(self, entry: LogEntry, session: _Session) -> Iterator[Edge]:
        if session.begun:
            # A clock that was set back, or a zone without summer time, would end it before its statements.
            yield Edge(entry.session, max(entry.time_ns, session.end_ns), None)

    def _begin(self, entry: LogEntry, session: _Session, parameters: dict[str, str], at_ns: int = 0) -> Edge:
        session.begun = True
        session.user, session.database = parameters.get("user", ""), parameters.get("database", "")
        # With times in whole seconds a statement's duration reaches back behind its session's beginning.
        session.end_ns = max(session.end_ns, at_ns or entry.time_ns)
        known = tuple((name, value) for name, value in parameters.items() if value)
        return Edge(entry.session, at_ns or entry.time_ns, known)

    def _logged(self, entry: LogEntry, session: _Session) -> Iterator[Logged | Edge]:
        timed = _DURATION.match(entry.message)
        if timed is None:
            step = _STEP.match(entry.message)
            if step is None or step[1] in ("parse", "bind"):
                self.other_entries += 1
                return
            yield from self._left(session)
            session.waiting = None if step[2].startswith(_FETCHES) else entry
            return
        duration_ms, rest = float(timed[1]), timed[2] or ""
        plan = _PLAN.match(rest)
        if plan is not None and _NESTED.search(entry.context):
            # Its client sent another one (auto_explain.log_nested_statements).
            self.other_entries += 1
            return
        if plan is not None:
            yield from self._left(session, keeps_waiting=True)
            text, values = _of_plan(plan[1])
            session.plan = (entry, duration_ms, text, values) if text else None
            return
        step = _STEP.match(rest)
        if step is None:
            if session.waiting is not None:
                waiting, session.waiting, session.plan = session.waiting, None, None
                yield from self._done(entry, session, waiting.message, waiting.detail, duration_ms)
            return
        if step[1] in ("parse", "bind"):
            return
        if step[2].startswith(_FETCHES):
            self.other_entries += 1
            return
        # What was logged at its start has its duration without its text: the one that waits is another
        # (log_statement = ddl or mod, say), whose duration was below the limit. The plan is this one's.
        session.plan = None
        yield from self._left(session)
        yield from self._done(entry, session, rest, entry.detail, duration_ms)

    def _failed(self, entry: LogEntry, session: _Session) -> Iterator[Logged | Edge]:
        if session.waiting is not None and (entry.statement or entry.level == "FATAL"):
            # The one that waits had ended where the error names another, which could not be parsed or bound.
            # Where it names none the session was idle, and was ended for that or by somebody.
            _, _, begun = session.waiting.message.partition(": ")
            if begun.strip() != entry.statement.strip():
                yield from self._left(session)
        if session.waiting is None and session.plan and session.plan[2].strip() != entry.statement.strip():
            # Of the statement before, which succeeded: what fails has no plan.
            yield from self._left(session)
        waiting, session.waiting, session.plan = session.waiting, None, None
        text = entry.statement or (waiting.message.partition(": ")[2] if waiting else "")
        if not text:
            self.other_entries += 1
            return
        start_ns = waiting.time_ns if waiting is not None else entry.time_ns
        kind = "execute <unnamed>" if _PLACEHOLDER.search(text) else "statement"
        message = waiting.message if waiting is not None else f"{kind}: {text}"
        state = entry.sqlstate if len(entry.sqlstate) == 5 else "XX000"
        yield from self._statement(
            entry,
            session,
            message,
            waiting.detail if waiting else "",
            start_ns,
            state,
            has_duration=bool(waiting),
        )

    def _left(self, session: _Session, *, keeps_waiting: bool = False) -> Iterator[Logged | Edge]:
        """What was held until now is all that the log says of it."""
        plan, session.plan = session.plan, None
        if plan is not None:
            entry, duration_ms, text, values = plan
            if session.waiting is None:
                kind = "execute <unnamed>" if values else "statement"
                yield from self._done(entry, session, f"{kind}: {text}", values, duration_ms)
        if session.waiting is not None and not keeps_waiting:
            entry, session.waiting = session.waiting, None
            yield from self._statement(
                entry, session, entry.message, entry.detail, entry.time_ns, "", has_duration=False
            )

    def _done(
        self, entry: LogEntry, session: _Session, message: str, detail: str, duration_ms: float
    ) -> Iterator[Logged | Edge]:
        start_ns = entry.time_ns - int(duration_ms * 1e6)
        yield from self._statement(entry, session, message, detail, start_ns, "", has_duration=True)

    def _statement(
        self, entry: LogEntry, session: _Session, message: str, detail: str,
        start_ns: int, sqlstate: str, *, has_duration: bool,
    ) -> Iterator[Logged | Edge]:  # fmt: skip
        step = _STEP.match(message)
        if step is None:
            return
        kind, name, text = step[1], step[2].split("/")[0], step[3]
        # Times are cut to milliseconds or seconds, durations are not: of several in one each keeps its own.
        duration_ns, latest_ns = entry.time_ns - start_ns, entry.time_ns + _grain_ns(entry.time_ns) - 1
        start_ns = max(start_ns, session.end_ns)
        session.end_ns = max(start_ns, min(start_ns + duration_ns, latest_ns))
        if not session.begun:
            known = {"user": entry.user, "database": entry.database, "application_name": entry.application}
            yield self._begin(entry, session, known, start_ns)
        values, is_cut = parameters(detail) if kind != "statement" else ((), False)
        yield Logged(
            session=entry.session,
            start_ns=start_ns,
            end_ns=session.end_ns,
            text=text,
            name=None if kind == "statement" else "" if name == "<unnamed>" else name,
            values=values,
            sqlstate=sqlstate,
            status=session.transaction.after(text, sqlstate),
            has_duration=has_duration,
            has_cut_value=is_cut,
        )


def _parts(text: str) -> list[str]:
    """The statements of a text, without strings and comments, where they may begin or end a transaction."""
    if not _MAY_MATTER.search(text):
        return []
    plain = strip_comments(text)
    if _MAKES_A_FUNCTION.match(plain):
        return []
    return [each for each in plain.split(";") if each.strip()]


def _grain_ns(time_ns: int) -> int:
    """How exact a log's time is."""
    return _MS_NS if time_ns % _SECOND_NS else _SECOND_NS


def parameters(detail: str) -> tuple[tuple[str | None, ...], bool]:
    """The values of `Parameters: $1 = 'a', $2 = NULL`, and whether one may have been cut.

    The word before the values depends on the server's language, and is not looked at.
    """
    at = detail.find("$1 = ")
    if at < 0:
        return (), False
    found = {}
    while (match := _PARAMETER.match(detail, at)) is not None:
        value, at = match[2], match.end()
        found[int(match[1])] = None if value == "NULL" else value[1:-1].replace("''", "'")
    values = tuple(found.get(number) for number in range(1, max(found, default=0) + 1))
    is_cut = bool(detail[at:].strip()) or detail[:at].endswith(", ")
    is_cut |= any(value is not None and value.endswith(_CUT) for value in values)
    return values, is_cut


def _of_plan(plan: str) -> tuple[str, str]:
    """Text and parameters of a plan that auto_explain wrote, in any of its formats; '' where it has none."""
    if plan.startswith("{"):
        try:
            found = json.loads(plan)
        except ValueError:
            return "", ""
        return str(found.get("Query Text", "")), str(found.get("Query Parameters", ""))
    if plan.startswith("<"):
        found = {name: html.unescape(text) for name, text in _PLAN_XML.findall(plan)}
        return found.get("Text", ""), found.get("Parameters", "")
    quoted = dict(_PLAN_YAML.findall(plan)) if plan.startswith('Query Text: "') else {}
    if quoted and "\nPlan:" in plan:
        return json.loads(quoted["Text"], strict=False), json.loads(
            quoted.get("Parameters", '""'), strict=False
        )
    match = _PLAN_TEXT.match(plan)
    return (match[1].strip(), match[2] or "") if match else ("", "")


def _authorized(entry: LogEntry) -> dict[str, str]:
    match = _AUTHORIZED.match(entry.message)
    user, database, application = match.groups() if match else (None, None, None)
    return {
        "user": user or entry.user,
        "database": database or entry.database,
        "application_name": application or entry.application,
    }
