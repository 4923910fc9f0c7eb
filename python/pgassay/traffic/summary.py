"""A capture summed up: sessions, transactions, statements, concurrency, what can't be replayed."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.traffic.capture_summary import CaptureFamily, CaptureMoment, CaptureSummary, Unreplayable
from pgassay.sql_text import without_literals
from pgassay.traffic import manifest
from pgassay.traffic.blocks import CaptureFile, files
from pgassay.traffic.events import CANCEL, END, CaptureEvent, events
from pgassay.traffic.statement_executions import (
    FUNCTION_CALL,
    UNKNOWN_STATEMENT,
    ExecutedStatement,
    statements,
)

MOMENTS = 40
_TEXTS_REMEMBERED = 100_000
# Longer texts are shortened in a family's name only.
_TEXT_MAX = 2000
_SPACE = re.compile(r"\s+")
_LISTS = re.compile(r"\(\s*(?:\?|\$\d+)(?:\s*,\s*(?:\?|\$\d+))+\s*\)")
# A negative value is a value.
_SIGNS = re.compile(r"([-+*/%=<>,(]\s*)-\s*(?=\?)")
_SNAPSHOT = re.compile(r"\bpg_export_snapshot\b|\bset\s+transaction\s+snapshot\b", re.IGNORECASE)
_MASK = "***"
# Where crates/capture/src/secrets.rs takes a secret out: elsewhere '***' is a value of the application's own.
_SECRET = re.compile(
    r"""\b(?:password|connection)"?(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:e|u&)?'+\*\*\*'
      | \buser\s+mapping\b[^;]*'\*\*\*'
      | password[ ]*=[ ]*\*\*\*
      | ://[^/\s]*:\*\*\*@
      | '(?:\s*(?:alter|create)\b[^;']*|\s[^;']*)(?:password|connection)[\s'=]*(?:%[^']*)?'
        \s*(?:\|\||,)[^;]*'\*\*\*'""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_REASONS = {
    "copy": "the data of COPY FROM STDIN were not kept (--no-copy-data)",
    "secret": "a secret was taken out of the statement",
    "function": "function calls by OID: a copy made by dump and restore has other ones",
    "snapshot": "exported snapshots have a name that a replay can't know",
    "unknown": "statements that were prepared before the capture",
    "unanswered": "no answer came before the session or the capture ended",
}


def family(text: str) -> str:
    """The text without its values, comments and line breaks: what a statement is called."""
    try:
        plain = without_literals(text)
    except UsageError:
        # An unfinished string: an error that a client made.
        plain = text[:40] + " …"
    plain = _SIGNS.sub(r"\1", _SPACE.sub(" ", plain)).strip().rstrip(";").rstrip()
    return _LISTS.sub("(…)", plain)[:_TEXT_MAX]


@dataclass
class _Family:
    calls: int = 0
    errors: int = 0
    rows: int = 0
    busy_ns: int = 0
    max_ns: int = 0


@dataclass
class _Sums:
    """What one pass over the events gathers."""

    last_ns: int
    families: dict[str, _Family] = field(default_factory=lambda: defaultdict(_Family))
    active_ns: list[float] = field(default_factory=lambda: [0.0] * MOMENTS)
    ended: list[int] = field(default_factory=lambda: [0] * MOMENTS)
    opened: list[tuple[int, int]] = field(default_factory=list)
    users: Counter[str] = field(default_factory=Counter)
    databases: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    reason_ns: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    cut: int = 0
    sessions: int = 0
    transactions: int = 0
    statements: int = 0
    errors: int = 0
    cancels: int = 0
    busy_ns: int = 0
    pipelined_ns: int = 0

    @property
    def width_ns(self) -> float:
        """How long a moment is."""
        return max(self.last_ns / MOMENTS, 1)

    def seen(self, stream: Iterator[CaptureEvent]) -> Iterator[CaptureEvent]:
        """Passes events on, and counts sessions."""
        open_since: dict[int, int] = {}
        for event in stream:
            if event.begin is not None:
                self.sessions += 1
                open_since[event.session] = event.at_ns
                user = event.begin.parameters.get("user", "")
                self.users[user] += 1
                self.databases[event.begin.parameters.get("database", user)] += 1
            elif event.kind == CANCEL:
                self.cancels += 1
            elif event.kind == END and event.session in open_since:
                self.opened.append((open_since.pop(event.session), event.at_ns))
                self.refused += event.reason == "refused"
            yield event
        self.cut = len(open_since)
        self.opened += [(since, self.last_ns) for since in open_since.values()]

    def add(self, statement: ExecutedStatement, name: str, reasons: tuple[str, ...]) -> None:
        """Counts one execution, or the end of a batch; `reasons` are those that its text gives."""
        self.transactions += statement.status == "I"
        if statement.protocol == "sync":
            return
        self.statements += 1
        self.busy_ns += statement.busy_ns
        self.pipelined_ns += statement.busy_ns * statement.in_pipeline
        found = self.families[name]
        found.calls += 1
        found.rows += statement.rows
        found.busy_ns += statement.busy_ns
        found.max_ns = max(found.max_ns, statement.busy_ns)
        if statement.sqlstate:
            found.errors += 1
            self.errors += 1
        if statement.end_ns is not None:
            self._spread(statement.began_ns, statement.end_ns, statement.busy_ns)
        if statement.left_out_bytes:
            reasons = (*reasons, "copy")
        if statement.end_ns is None:
            reasons = (*reasons, "unanswered")
        for reason in reasons:
            self.reasons[reason] += 1
            self.reason_ns[reason] += statement.busy_ns

    def _spread(self, begin: int, end: int, busy_ns: int) -> None:
        last = _place(self, end)
        weight = busy_ns / max(end - begin, 1)
        self.ended[last] += 1
        for place in range(_place(self, begin), last + 1):
            from_ns, to_ns = place * self.width_ns, (place + 1) * self.width_ns
            self.active_ns[place] += weight * max(0.0, min(end, to_ns) - max(begin, from_ns))


def _place(sums: _Sums, at_ns: int) -> int:
    """The moment that a time lies in."""
    return min(int(at_ns / sums.width_ns), MOMENTS - 1)


def _reasons(text: str) -> Iterator[str]:
    """Why a statement with this text can't be replayed as it was."""
    if _MASK in text and _SECRET.search(text):
        yield "secret"
    if text == FUNCTION_CALL:
        yield "function"
    if text == UNKNOWN_STATEMENT:
        yield "unknown"
    if _SNAPSHOT.search(text):
        yield "snapshot"


def summarise(folder: Path) -> CaptureSummary:
    """Read a capture once and sum it up; raises UsageError where the folder holds none."""
    found = files(folder)
    sums = _Sums(last_ns=max(_last_ns(file) for file in found))
    seen: dict[str, tuple[str, tuple[str, ...]]] = {}
    for statement in statements(sums.seen(events(folder))):
        text = statement.text
        known_text = seen.get(text)
        if known_text is None:
            known_text = family(text), tuple(_reasons(text))
            if len(seen) < _TEXTS_REMEMBERED:
                seen[text] = known_text
        sums.add(statement, *known_text)
    known = manifest.read(folder)
    server = known.get("server")
    notes = [str(note) for note in _as_list(known.get("notes"))]
    is_finished = all(file.is_whole for file in found)
    if not is_finished:
        notes.append("the capture was cut off, or is still running: what was written before is complete")
    return CaptureSummary(
        folder=str(folder),
        source=str(known.get("source", "proxy")),
        server_version=str(server["version"]) if isinstance(server, dict) and "version" in server else None,
        started_at=manifest.moment(found[0].started_unix_ns),
        seconds=sums.last_ns / 1e9,
        is_finished=is_finished,
        bytes=sum(file.path.stat().st_size for file in found),
        sessions=sums.sessions,
        sessions_most=_most(sums.opened),
        transactions=sums.transactions,
        statements=sums.statements,
        errors=sums.errors,
        cancels=sums.cancels,
        busy_s=sums.busy_ns / 1e9,
        pipelined_s=sums.pipelined_ns / 1e9,
        users=dict(sums.users.most_common()),
        databases=dict(sums.databases.most_common()),
        families=_families(sums),
        moments=_moments(sums),
        unreplayable=[*_unreplayable(sums), *_outside(known)],
        notes=notes,
    )


def _last_ns(file: CaptureFile) -> int:
    """The time of a file's last record; the file knows then whether it has its end."""
    return max((block.last_ns for block in file.blocks()), default=0)


def _families(sums: _Sums) -> list[CaptureFamily]:
    whole = max(sums.busy_ns, 1)
    ordered = sorted(sums.families.items(), key=lambda each: -each[1].busy_ns)
    return [
        CaptureFamily(
            text=text,
            calls=each.calls,
            errors=each.errors,
            rows=each.rows,
            seconds=each.busy_ns / 1e9,
            share=each.busy_ns / whole,
            mean_ms=each.busy_ns / each.calls / 1e6,
            max_ms=each.max_ns / 1e6,
        )
        for text, each in ordered
    ]


def _most(opened: list[tuple[int, int]]) -> int:
    """The most sessions that were open at once."""
    turns = sorted([(begin, 1) for begin, _ in opened] + [(end, -1) for _, end in opened])
    now = most = 0
    for _, change in turns:
        now += change
        most = max(most, now)
    return most


def _moments(sums: _Sums) -> list[CaptureMoment]:
    sessions = [0] * MOMENTS
    for begin, end in sums.opened:
        for place in range(_place(sums, begin), _place(sums, end) + 1):
            sessions[place] += 1
    return [
        CaptureMoment(
            from_s=place * sums.width_ns / 1e9,
            sessions=sessions[place],
            active=sums.active_ns[place] / sums.width_ns,
            statements=sums.ended[place],
        )
        for place in range(MOMENTS)
    ]


def _unreplayable(sums: _Sums) -> Iterator[Unreplayable]:
    whole = max(sums.busy_ns, 1)
    for reason, count in sums.reasons.most_common():
        share = sums.reason_ns[reason] / whole
        yield Unreplayable(reason=_REASONS[reason], count=count, share=share)
    if sums.refused:
        yield Unreplayable(reason="sessions that the server refused", count=sums.refused, share=None)


def _outside(known: dict[str, object]) -> Iterator[Unreplayable]:
    for lack in _as_list(known.get("lacks")):
        if isinstance(lack, dict):
            yield Unreplayable.model_validate(lack)
    totals = known.get("totals")
    if not isinstance(totals, dict):
        return
    for key, reason in (
        ("dropped", "sessions dropped from the capture: the disk or memory was too slow"),
        ("replication", "sessions of replication, which are never recorded"),
        ("not_selected", "sessions that --only left out"),
        ("bad_messages", "connections closed because of data that is not a message of the protocol"),
    ):
        if totals.get(key):
            yield Unreplayable(reason=reason, count=int(totals[key]), share=None)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
