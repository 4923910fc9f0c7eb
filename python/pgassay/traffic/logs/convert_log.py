"""A capture made from a server's log: what the log has, and what it lacks with its share of the time."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pgassay.errors import UsageError
from pgassay.native.process import NativeProcess, StatementError
from pgassay.sql_text import COPY_IN, strip_comments
from pgassay.traffic import manifest
from pgassay.traffic.logs.entries import Log
from pgassay.traffic.logs.logged_statements import Edge, Logged, Reader
from pgassay.words import plural

_PLACEHOLDER = re.compile(r"\$\d")
_FROM_STDIN = re.compile(r"\bfrom\s+stdin\b", re.IGNORECASE)
# What makes a session forget its prepared statements, and one of them.
_FORGETS_ALL = re.compile(r"\b(?:discard|deallocate(?:\s+prepare)?)\s+all\b", re.IGNORECASE)
_FORGETS_ONE = re.compile(
    r'\s*deallocate\s+(?:prepare\s+)?(?:"((?:[^"]|"")+)"|([^\s;"]+))\s*;?\s*$', re.IGNORECASE
)
_REASONS = {
    "types": "parameters are texts: a log doesn't say which types the client declared",
    "values": "the values of parameters were not logged (log_parameter_max_length, or an error without them)",
    "cut": "a parameter's value ends with '...' or without its quote: the server (log_parameter_max_length) "
    "or the log may have cut it",
    "copy": "a log has no data of COPY FROM STDIN",
    "duration": "no duration was logged: the statement's time is taken for 0",
    "rows": "a log doesn't say how many rows a statement had: outcomes can't be compared",
}

# Time, session, and what happened as JSON: a fifth of the memory that objects take.
_Event: TypeAlias = tuple[int, int, bytes]


@dataclass
class Converted:
    """What was made: counts, and what the log lacks."""

    sessions: int = 0
    statements: int = 0
    cut: int = 0
    not_selected: int = 0
    lacks: list[dict[str, object]] = field(default_factory=list)


@dataclass
class _Gathered:
    """Events by session's number, to be sorted by time."""

    events: list[_Event] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    prepared: dict[int, dict[str, str]] = field(default_factory=dict)
    sessions: int = 0
    statements: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    missing_ns: Counter[str] = field(default_factory=Counter)
    whole_ns: int = 0
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Names of sessions that are not chosen, as long as they last.
    left_out: set[str] = field(default_factory=set)
    not_selected: int = 0

    def add(self, part: Logged | Edge) -> None:
        if isinstance(part, Edge):
            self._edge(part)
            return
        if part.session in self.left_out:
            return
        number = self.numbers[part.session]
        self.statements += 1
        self._happened(part.start_ns, number, self._sent(number, part))
        outcome = {"sqlstate": part.sqlstate or None, "status": part.status}
        self._happened(part.end_ns, number, {"answer": outcome})
        busy_ns = part.end_ns - part.start_ns
        self.whole_ns += busy_ns
        for reason in _missing(part):
            self.missing[reason] += 1
            self.missing_ns[reason] += busy_ns

    def _happened(self, at_ns: int, number: int, what: dict[str, object]) -> None:
        self.events.append((at_ns, number, json.dumps(what).encode()))

    def _edge(self, edge: Edge) -> None:
        if edge.parameters is None:
            if edge.session in self.left_out:
                self.left_out.remove(edge.session)
                return
            number = self.numbers.pop(edge.session)
            self._happened(edge.at_ns, number, {"end": {}})
            return
        self.left_out.discard(edge.session)
        if not self._is_chosen(dict(edge.parameters)):
            self.left_out.add(edge.session)
            self.not_selected += 1
            return
        self.sessions += 1
        self.numbers[edge.session] = self.sessions
        self.prepared[self.sessions] = {}
        self._happened(edge.at_ns, self.sessions, {"begin": list(edge.parameters)})

    def _is_chosen(self, parameters: Mapping[str, str]) -> bool:
        """As the proxy chooses: without a database's name it is the user's."""
        user = parameters.get("user", "")
        users, databases = self.only.get("users", ()), self.only.get("databases", ())
        return (not users or user in users) and (
            not databases or (parameters.get("database") or user) in databases
        )

    def _sent(self, number: int, part: Logged) -> dict[str, object]:
        known = self.prepared[number]
        if not part.sqlstate:
            _forget(known, part.text)
        copies = _copies(part.text)
        if part.name is None:
            return {"copy" if copies else "query": part.text}
        is_known = bool(part.name) and known.get(part.name) == part.text
        known[part.name] = part.text
        values = list(part.values)
        text = None if is_known else part.text
        # Without an end of its data a COPY would wait for them in a replay, and its session with it.
        more = {"copies": True} if copies else {}
        return {"execute": {"name": part.name, "text": text, "values": values, **more}}


def _forget(known: dict[str, str], text: str) -> None:
    """Take the statements out that the session does not know any more after this text."""
    if _FORGETS_ALL.search(text) and _FORGETS_ALL.search(strip_comments(text)):
        known.clear()
    elif (found := _FORGETS_ONE.match(text)) is not None:
        known.pop(found[1].replace('""', '"') if found[1] else found[2].lower(), None)


def _copies(text: str) -> bool:
    """Whether one of its statements takes data of COPY: a comment or BEGIN may stand before it."""
    if not _FROM_STDIN.search(text):
        return False
    return any(map(COPY_IN.match, strip_comments(text).split(";")))


def _missing(part: Logged) -> list[str]:
    found = ["rows"]
    has_places = part.name is not None and bool(_PLACEHOLDER.search(part.text))
    found += ["types"] if part.values else ["values"] if has_places else []
    found += ["cut"] if part.has_cut_value else []
    found += ["copy"] if _copies(part.text) else []
    return found if part.has_duration else [*found, "duration"]


def convert(
    paths: list[Path],
    folder: Path,
    prefix: str | None = None,
    only: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Converted:
    """Write a capture into an empty folder from log files, in the order given; `only`: these sessions.

    Raises UsageError for files that are no logs, or hold no statements.
    """
    log = Log(paths, prefix)
    gathered = _Gathered(only=only)
    reader = Reader()
    for part in reader.read(log.entries()):
        gathered.add(part)
    if not gathered.statements:
        raise UsageError(
            f"--log {paths[0]}: no statement of the sessions chosen by --only is in it: it names "
            f"{plural(gathered.not_selected, 'other session')}"
            if gathered.not_selected
            else f"--log {paths[0]}: no statement was logged: set log_min_duration_statement = 0 on the "
            "server, or log_statement = all with log_duration, and lc_messages = C (other languages are "
            "not read), and log again"
        )
    # Sorting is stable: what a session did at one time stays in its order.
    gathered.events.sort(key=lambda event: event[0])
    started_unix_ns = gathered.events[0][0]
    written = _write(gathered.events, folder, started_unix_ns)
    converted = Converted(gathered.sessions, gathered.statements, log.cut, gathered.not_selected)
    whole = max(gathered.whole_ns, 1)
    converted.lacks = [
        {"reason": _REASONS[reason], "count": count, "share": gathered.missing_ns[reason] / whole}
        for reason, count in gathered.missing.most_common()
    ]
    if log.cut:
        lost = {"reason": "lines of the log that were cut or can't be understood", "count": log.cut}
        converted.lacks.append({**lost, "share": None})
    notes = ["log_line_prefix has %t: times are whole seconds; %m has more"] if log.is_coarse else []
    options = {"files": [str(path) for path in paths], **{key: list(names) for key, names in only.items()}}
    begun = manifest.begun("log", started_unix_ns, None, options, notes)
    totals = {
        "sessions": converted.sessions,
        "statements": converted.statements,
        "written_bytes": written,
        "not_selected": converted.not_selected,
    }
    ended = {"ended_at": manifest.moment(gathered.events[-1][0]), "totals": totals}
    manifest.write(folder, begun | ended | {"lacks": converted.lacks})
    return converted


def _write(events: list[_Event], folder: Path, started_unix_ns: int) -> int:
    process = NativeProcess("capture-write")
    try:
        process.send({"folder": str(folder.resolve()), "started_unix_ns": started_unix_ns})
        process.send_lines(
            b'{"session": %d, "at_ns": %d, "what": %b}' % (session, at_ns - started_unix_ns, what)
            for at_ns, session, what in events
        )
        for line in process.last_words():
            if "error" in line:
                raise StatementError(line["error"]["message"], None)
            if "written" in line:
                return int(line["written"]["bytes"])
    finally:
        process.end()
    raise StatementError("the native binary ended before the capture was written", None)
