"""A capture's events in the order of time: what clients sent, and how the server answered."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pgassay.errors import UsageError
from pgassay.traffic.blocks import CaptureBlock, CaptureFile, files

BEGIN, READY, MESSAGES, ANSWERS, CANCEL, END, DROPPED = 2, 3, 4, 6, 7, 8, 9
END_REASONS = ("terminated", "client lost", "server closed", "capture ended", "refused", "bad message")
_TEXT, _PART, _LEFT_OUT = 1, 5, 1


class ResultRows(NamedTuple):
    """What was sent before the end of an answer: how many, the bodies' size, the sum of their CRC-32."""

    number: int = 0
    size_bytes: int = 0
    checksum: int = 0


class Message(NamedTuple):
    """A message of the client: its type, its body as sent, the statement of Query and Parse.

    `left_out_bytes` is the body's length where its content was not kept.
    """

    tag: str
    body: bytes
    text: str | None = None
    left_out_bytes: int | None = None


class Answer(NamedTuple):
    """A message of the server: its type, and what is kept of it.

    `content` is a description's or row's body, a command tag, an SQLSTATE or the status of ReadyForQuery.
    """

    tag: str
    content: bytes = b""
    affected: int | None = None
    rows: ResultRows = ResultRows()


class Begin(NamedTuple):
    """How a session began: the protocol's version as sent, the startup parameters."""

    protocol: int
    is_encrypted: bool
    parameters: dict[str, str]


class CaptureEvent(NamedTuple):
    """One record. `at_ns` counts from the capture's time 0; `kind` is BEGIN, READY, MESSAGES, ….

    `begin`, `messages`, `answers` or `reason` (with an SQLSTATE, or '') is there by the kind.
    """

    session: int
    at_ns: int
    kind: int
    begin: Begin | None = None
    messages: tuple[Message, ...] = ()
    answers: tuple[Answer, ...] = ()
    reason: str = ""
    sqlstate: str = ""


def events(folder: Path) -> Iterator[CaptureEvent]:
    """All events of the sessions that are in the capture, in the order of time.

    Raises UsageError where the folder holds no capture, or one that can't be read.
    """
    found = files(folder)
    gone = dropped_sessions(found)
    streams = [file_events(file) for file in found]
    for event in heapq.merge(*streams, key=lambda each: each.at_ns):
        if event.session not in gone:
            yield event


def dropped_sessions(found: list[CaptureFile]) -> set[int]:
    """Sessions that left the capture, since the disk or the memory did not follow."""
    gone: set[int] = set()
    for file in found:
        if any(block.dropped for block in file.blocks()):
            gone.update(event.session for event in file_events(file) if event.kind == DROPPED)
    return gone


def file_events(file: CaptureFile) -> Iterator[CaptureEvent]:
    """All events of one file, dropped sessions' too; raises UsageError where a record can't be understood."""
    decoder = _Decoder()
    for block in file.blocks():
        try:
            yield from decoder.events(block)
        except (IndexError, ValueError) as error:
            raise UsageError(f"{file.path} holds a record that can't be understood ({error})") from error


class _Decoder:
    """What a file's reader remembers from block to block."""

    def __init__(self) -> None:
        self._texts: list[bytes] = [b""]
        self._shown: dict[bytes, str] = {}
        self._parts: dict[int, bytes] = {}

    def events(self, block: CaptureBlock) -> Iterator[CaptureEvent]:
        raw, at, at_ns = block.raw, 0, block.first_ns
        while at < len(raw):
            kind = raw[at]
            session, at = _number(raw, at + 1)
            later_ns, at = _number(raw, at)
            length, at = _number(raw, at)
            at_ns += later_ns
            content = raw[at : at + length]
            at += length
            if kind == _TEXT:
                self._texts.append(content)
            elif kind == _PART:
                self._parts[session] = self._parts.get(session, b"") + content
            elif kind == MESSAGES:
                yield CaptureEvent(session, at_ns, kind, messages=tuple(self._messages(session, content)))
            elif kind == ANSWERS:
                yield CaptureEvent(session, at_ns, kind, answers=tuple(self._answers(content)))
            elif kind == BEGIN:
                yield CaptureEvent(session, at_ns, kind, begin=_begin(content))
            elif kind == END:
                self._parts.pop(session, None)
                state = content[1:6].decode("ascii", "replace")
                yield CaptureEvent(session, at_ns, kind, reason=END_REASONS[content[0]], sqlstate=state)
            elif kind in (READY, CANCEL, DROPPED):
                yield CaptureEvent(session, at_ns, kind)

    def _messages(self, session: int, content: bytes) -> Iterator[Message]:
        at = 0
        while at < len(content):
            tag = chr(content[at])
            if content[at] == _LEFT_OUT:
                tag = chr(content[at + 1])
                length, at = _number(content, at + 2)
                yield Message(tag, b"", None, length)
            elif tag == "Q":
                text, at = self._text(content, at + 1)
                yield Message(tag, text + b"\0", self._show(text))
            elif tag == "P":
                name, at = _counted(content, at + 1)
                text, at = self._text(content, at)
                rest, at = _counted(content, at)
                yield Message(tag, b"\0".join((name, text, rest)), self._show(text))
            else:
                body, at = _counted(content, at + 1)
                yield Message(tag, self._parts.pop(session, b"") + body)

    def _answers(self, content: bytes) -> Iterator[Answer]:
        at = 0
        while at < len(content):
            tag = chr(content[at])
            at += 1
            if tag in "tT":
                body, at = self._text(content, at)
                yield Answer(tag, body)
            elif tag == "D":
                body, at = _counted(content, at)
                yield Answer(tag, body)
            elif tag == "C":
                words, at = self._text(content, at)
                affected, at = _number(content, at)
                rows, at = _rows(content, at)
                yield Answer(tag, words, affected - 1 if affected else None, rows)
            elif tag == "E":
                state = content[at : at + 5]
                rows, at = _rows(content, at + 5)
                yield Answer(tag, state, None, rows)
            elif tag in "sV":
                rows, at = _rows(content, at)
                yield Answer(tag, b"", None, rows)
            elif tag == "Z":
                yield Answer(tag, content[at : at + 1])
                at += 1
            else:
                yield Answer(tag)

    def _text(self, content: bytes, at: int) -> tuple[bytes, int]:
        number, at = _number(content, at)
        return (self._texts[number], at) if number else _counted(content, at)

    def _show(self, text: bytes) -> str:
        shown = self._shown.get(text)
        if shown is None:
            shown = text.decode("utf-8", "replace")
            if len(self._shown) < len(self._texts) + 1000:
                self._shown[text] = shown
        return shown


def _number(content: bytes, at: int) -> tuple[int, int]:
    number = content[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    shift = 7
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _counted(content: bytes, at: int) -> tuple[bytes, int]:
    length, at = _number(content, at)
    return content[at : at + length], at + length


def _rows(content: bytes, at: int) -> tuple[ResultRows, int]:
    count, at = _number(content, at)
    if not count:
        return ResultRows(), at
    size, at = _number(content, at)
    return ResultRows(count, size, int.from_bytes(content[at : at + 4], "little")), at + 4


def _begin(content: bytes) -> Begin:
    protocol, at = _number(content, 0)
    is_encrypted = bool(content[at])
    count, at = _number(content, at + 1)
    parameters = {}
    for _ in range(count):
        name, at = _counted(content, at)
        value, at = _counted(content, at)
        parameters[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return Begin(protocol, is_encrypted, parameters)
