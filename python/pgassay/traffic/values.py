"""The statements of a capture with the values that they were executed with: usual ones and the slowest."""

import struct
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader, PyFormat, Transformer
from psycopg.pq import Format

from pgassay.model.workload import PartOfCapture
from pgassay.traffic.events import BEGIN, CaptureEvent, events
from pgassay.traffic.statement_executions import Bound, ExecutedStatement, statements
from pgassay.traffic.summary import family

Values = tuple[str | None, ...]
# Of more different executions of a family the frequent ones are known by then.
_REMEMBERED_MAX = 20_000
_NO_TYPE = 0
# Days and months of an interval without an end (src/include/datatype/timestamp.h), since 17.
_WITHOUT_END = {(2**31 - 1, 2**31 - 1): "infinity", (-(2**31), -(2**31)): "-infinity"}


@dataclass(frozen=True)
class Used:
    """A statement as it was executed: its text, and the values of its parameters in their text form."""

    text: str
    values: Values


@dataclass
class FamilyUse:
    """The executions of a family that succeeded. `usual`: the most frequent one; `slowest`: the one that took
    longest. Both are None where no execution's values could be read, and `unread` says how many could not.
    """

    calls: int = 0
    seconds: float = 0.0
    unread: int = 0
    slowest: Used | None = None
    slowest_s: float = -1.0
    counts: Counter[Used] = field(default_factory=Counter)

    @property
    def usual(self) -> Used | None:
        """The most frequent execution."""
        return self.counts.most_common(1)[0][0] if self.counts else None

    def add(self, statement: ExecutedStatement) -> None:
        """Count an execution."""
        self.calls += 1
        seconds = statement.busy_ns / 1e9
        self.seconds += seconds
        used = used_of(statement)
        if used is None:
            self.unread += 1
            return
        if len(self.counts) < _REMEMBERED_MAX or used in self.counts:
            self.counts[used] += 1
        if seconds > self.slowest_s:
            self.slowest, self.slowest_s = used, seconds


def uses_of(part: PartOfCapture, names: Collection[str]) -> dict[str, FamilyUse]:
    """By family what was executed of those named; a sample of the sessions is not drawn, all count."""
    found: dict[str, FamilyUse] = {}
    families: dict[str, str] = {}
    for each in statements(_chosen(events(Path(part.folder)), part)):
        if part.from_s is not None and each.start_ns < part.from_s * 1e9:
            continue
        if each.protocol not in ("simple", "extended") or each.sqlstate or each.end_ns is None:
            continue
        name = families.get(each.text)
        if name is None:
            name = families[each.text] = family(each.text)
        if name in names:
            found.setdefault(name, FamilyUse()).add(each)
    return found


def _chosen(stream: Iterator[CaptureEvent], part: PartOfCapture) -> Iterator[CaptureEvent]:
    left_out: set[int] = set()
    for event in stream:
        if part.until_s is not None and event.at_ns >= part.until_s * 1e9:
            return
        if event.kind == BEGIN and event.begin is not None:
            sent = event.begin.parameters
            user = sent.get("user", "")
            if sent.get("database", user) != part.database or (part.users and user not in part.users):
                left_out.add(event.session)
        if event.session not in left_out:
            yield event


def used_of(statement: ExecutedStatement) -> Used | None:
    """The statement with its values; None where they can't be read."""
    if statement.bound is None:
        return Used(statement.text, ())
    values = values_of(statement.bound)
    return None if values is None else Used(statement.text, values)


def values_of(bound: Bound) -> Values | None:
    """The values of a Bind message in their text form; None where it is malformed, or a type is unknown."""
    try:
        formats, at = _numbers(bound.body, 0)
        count, at = int.from_bytes(_piece(bound.body, at, 2)), at + 2
        values: list[str | None] = []
        for index in range(count):
            length, at = int.from_bytes(_piece(bound.body, at, 4), signed=True), at + 4
            if length < 0:
                values.append(None)
                continue
            value, at = _piece(bound.body, at, length), at + length
            is_binary = bool(formats) and formats[index if len(formats) > 1 else 0] == 1
            oid = bound.types[index] if index < len(bound.types) else _NO_TYPE
            values.append(_shown(value, oid) if is_binary else value.decode())
    except (IndexError, ValueError, struct.error, psycopg.Error):
        return None
    return tuple(values)


def _piece(body: bytes, at: int, length: int) -> bytes:
    """So many bytes; raises ValueError where there are fewer."""
    if at + length > len(body):
        raise ValueError("a message that is cut off")
    return body[at : at + length]


def _numbers(body: bytes, at: int) -> tuple[list[int], int]:
    count = int.from_bytes(body[at : at + 2])
    end = at + 2 + 2 * count
    return [int.from_bytes(body[place : place + 2]) for place in range(at + 2, end, 2)], end


class _Interval(Loader):
    """Months, days and the rest each for itself: a month is 30 days to Python, and not to PostgreSQL."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        microseconds, days, months = struct.unpack("!qii", data)
        if (days, months) in _WITHOUT_END:
            return _WITHOUT_END[days, months]
        seconds, rest = divmod(abs(microseconds), 1_000_000)
        sign = "-" if microseconds < 0 else ""
        return f"{months} mons {days} days {sign}{seconds}.{rest:06d} secs"


class _Bytes(Loader):
    """Bytes as hexadecimal digits: psycopg would write them as they stand within a literal."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return f"\\x{bytes(data).hex()}"


class _Json(Loader):
    """A document as it was sent."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data).decode()


class _Jsonb(Loader):
    """The same behind the number of its format."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data)[1:].decode()


def _adapters() -> AdaptersMap:
    made = AdaptersMap(psycopg.adapters)
    for name, loader in (("interval", _Interval), ("bytea", _Bytes), ("json", _Json), ("jsonb", _Jsonb)):
        made.register_loader(name, loader)
    return made


_ADAPTERS = _adapters()


def _shown(value: bytes, oid: int) -> str:
    """A binary value as text; raises ValueError for a type that psycopg does not know."""
    if oid == _NO_TYPE:
        raise ValueError("a binary value without a type")
    transformer = Transformer(_ADAPTERS)
    loaded = transformer.get_loader(oid, Format.BINARY).load(value)
    if isinstance(loaded, bytes):
        raise ValueError("a binary value of an unknown type")
    if isinstance(loaded, str):
        return loaded
    dumped = transformer.get_dumper(loaded, PyFormat.TEXT).dump(loaded)
    if dumped is None:
        raise ValueError("a value without a text")
    return bytes(dumped).decode()
