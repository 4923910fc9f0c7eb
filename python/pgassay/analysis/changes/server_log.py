"""Checkpoints, autovacuum and complaints in a server's log, as events.

Messages: src/backend/access/transam/xlog.c (LogCheckpointStart, LogCheckpointEnd),
src/backend/access/heap/vacuumlazy.c and src/backend/commands/analyze.c, alike in 16 to 19. A line begins as
log_line_prefix says, by default '%m [%p] '; a log with another prefix that has no time tells no events.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from pgassay.model.changes import Event
from pgassay.model.trial import TrialRecord

# The clock was set meanwhile when its distance from the monotonic one moved by more than this.
_STEP_NS_MAX = 500_000_000
_LEVELS_SHOWN = ("WARNING", "ERROR", "FATAL", "PANIC")
_TEXT_CHARACTERS_MAX = 120
_LINE = re.compile(
    r"(?P<when>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<zone>\S+) (?P<rest>.*?)"
    r"(?P<level>LOG|WARNING|ERROR|FATAL|PANIC):  (?P<text>.*)"
)
_PROCESS = re.compile(r"\[(\d+)\]")
_CHECKPOINT = re.compile(r"(?P<what>checkpoint|restartpoint) (?P<edge>starting|complete)\b:?(?P<more>.*)")
_TOTAL = re.compile(r"\btotal=([\d.]+) s")
_AUTOVACUUM = re.compile(r'automatic (?P<what>(?:aggressive )?vacuum|analyze)\b[^"]*table "(?P<table>.*?)"')
_ELAPSED = re.compile(r"\belapsed: ([\d.]+) s")


@dataclass(frozen=True)
class LogEvents:
    """The events, and the processes of the autovacuum workers among them."""

    events: tuple[Event, ...]
    workers: frozenset[int]


@dataclass(frozen=True)
class _Entry:
    """One message with the lines that continue it; `at_s` of the measured part, `process` None: not told."""

    at_s: float
    process: int | None
    level: str
    text: str
    more: str


def log_events(log: str, record: TrialRecord) -> LogEvents:
    """The events that a trial's log tells; none when the trial does not tie the log's clock to its own."""
    if record.clock_ns is None or record.clock_offset_ns is None:
        return LogEvents((), frozenset())
    before, after = record.clock_offset_ns
    if abs(after - before) > _STEP_NS_MAX:
        return LogEvents((), frozenset())
    zero_ns = record.clock_ns[0] + (before + after) // 2
    entries = list(_entries(log, zero_ns, _zone(record.facts.settings.get("log_timezone", "GMT"))))
    workers = frozenset(
        entry.process for entry in entries if entry.process is not None and _AUTOVACUUM.match(entry.text)
    )
    found = [*_checkpoints(entries), *_autovacuums(entries), *_messages(entries)]
    return LogEvents(tuple(sorted(found, key=_begin)), workers)


def _begin(event: Event) -> float:
    known = event.began_s if event.began_s is not None else event.ended_s
    return known if known is not None else 0.0


def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _entries(log: str, zero_ns: int, zone: tzinfo | None) -> Iterator[_Entry]:
    """The messages of a log whose first moment of the measured part is `zero_ns` of CLOCK_REALTIME."""
    match: re.Match[str] | None = None
    more: list[str] = []
    for line in [*log.splitlines(), ""]:
        if line.startswith("\t"):
            more.append(line)
            continue
        if match is not None and (entry := _entry(match, more, zero_ns, zone)) is not None:
            yield entry
        match, more = _LINE.match(line), []


def _entry(match: re.Match[str], more: list[str], zero_ns: int, zone: tzinfo | None) -> _Entry | None:
    used = UTC if match["zone"] in ("GMT", "UTC") else zone
    if used is None:
        return None
    try:
        moment = datetime.fromisoformat(match["when"]).replace(tzinfo=used)
    except ValueError:
        return None
    at_s = moment.timestamp() - zero_ns / 1e9
    process = _PROCESS.search(match["rest"])
    number = int(process[1]) if process else None
    return _Entry(round(at_s, 3), number, match["level"], match["text"], "\n".join(more))


def _checkpoints(entries: list[_Entry]) -> Iterator[Event]:
    """From start to end; of one that began before the log, the end tells how long it took."""
    began: dict[str, tuple[float, str]] = {}
    for entry in entries:
        match = _CHECKPOINT.match(entry.text)
        if match is None:
            continue
        kind = match["what"]
        if match["edge"] == "starting":
            began[kind] = (entry.at_s, match["more"].strip())
            continue
        start_s, reason = began.pop(kind, (None, ""))
        total = _TOTAL.search(match["more"])
        if start_s is None and total:
            start_s = round(entry.at_s - float(total[1]), 3)
        yield _checkpoint(kind, reason, start_s, entry.at_s)
    for kind, (start_s, reason) in began.items():
        yield _checkpoint(kind, reason, start_s, None)


def _checkpoint(kind: str, reason: str, began_s: float | None, ended_s: float | None) -> Event:
    what = f"a {kind} ({_shortened(reason)})" if reason else f"a {kind}"
    return Event(kind="checkpoint", what=what, began_s=began_s, ended_s=ended_s)


def _autovacuums(entries: list[_Entry]) -> Iterator[Event]:
    """A worker tells of a table when it is done with it, with the time that it took."""
    for entry in entries:
        match = _AUTOVACUUM.match(entry.text)
        if match is None:
            continue
        elapsed = _ELAPSED.search(entry.more) or _ELAPSED.search(entry.text)
        began_s = round(entry.at_s - float(elapsed[1]), 3) if elapsed else None
        verb = "analyze" if match["what"] == "analyze" else "vacuum"
        yield Event(
            kind="autovacuum",
            what=f"automatic {verb} of {_shortened(match['table'])}",
            began_s=began_s,
            ended_s=entry.at_s,
        )


def _messages(entries: list[_Entry]) -> Iterator[Event]:
    for entry in entries:
        if entry.level in _LEVELS_SHOWN:
            words = f"{entry.level}: {_shortened(entry.text)}"
            yield Event(kind="log", what=words, began_s=entry.at_s, ended_s=entry.at_s)


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[: _TEXT_CHARACTERS_MAX - 1]}…"
