"""The entries of a server's log: csvlog, jsonlog, and stderr with a log_line_prefix."""

import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgassay.errors import UsageError

# Of Cloud SQL, RDS, Debian and PostgreSQL itself: the narrow ones first.
PREFIXES = (
    "%m [%p]: [%l-1] db=%d,user=%u ",
    "%t:%r:%u@%d:[%p]:",
    "%m [%p] %q%u@%d ",
    "%m [%p] ",
)
_CSV_COLUMNS_MIN = 23
# They log their leader's errors once more; and replication is no part of a capture.
_NO_CLIENTS = ("parallel worker", "walsender")
_FIELD_BYTES_MAX = 1 << 30
_CSV_BEGIN = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [^,]+,("|,)')
# How files of gzip, bzip2, xz and zstd begin, as text in which what is no UTF-8 was replaced.
_COMPRESSED = ("\x1f\ufffd", "BZh", "\ufffd7zXZ", "(\ufffd/\ufffd")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) ?([A-Za-z_/]+|[+-]\d\d(?::?\d\d)?)?")
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?")
_LEVELS = "DEBUG[1-5]|INFO|NOTICE|WARNING|ERROR|LOG|FATAL|PANIC|DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LOCATION"
# What follows an entry as lines of its own: parts of it that are kept, and others.
_PARTS, _LEFT_OUT = ("DETAIL", "STATEMENT", "CONTEXT"), ("HINT", "QUERY", "LOCATION")
_GROUP = re.compile(r"\(\?P<(\w+)>")
_ESCAPES = {
    "m": r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+)",
    "t": r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+?)",
    "n": r"(?P<epoch>\d+\.\d+)",
    "p": r"(?P<pid>\d+)",
    # Services name users as they name people, so that one may hold the @ that stands before the database.
    "u": r"(?P<user>[^\s,]*)",
    "d": r"(?P<database>[^\s,:]*)",
    "a": r"(?P<application>.*?)",
    "c": r"(?P<session>[0-9a-f]+\.[0-9a-f]+)",
    "l": r"(?P<line>\d+)",
    "e": r"(?P<sqlstate>[0-9A-Z]{5})",
    "v": r"(?P<transaction>\S*)",
    # Addresses of IPv6 have colons, as prefixes do; the port says where they end.
    "r": r"(?:\[local\]|\S*?\(\d+\)|\S*?)",
    "h": r"\S*?", "L": r"\S*?", "x": r"\d+", "s": r".*?", "i": r".*?", "b": r"(?P<backend>.*?)",
    "Q": r"-?\d+", "P": r"\d*", "%": "%",
}  # fmt: skip


@dataclass(frozen=True)
class LogEntry:
    """One entry. `time_ns` is Unix time; `session` its name, else the process's number, '' of no client."""

    time_ns: int
    session: str
    level: str
    message: str
    user: str = ""
    database: str = ""
    application: str = ""
    sqlstate: str = ""
    detail: str = ""
    statement: str = ""
    context: str = ""


@dataclass
class Log:
    """A log that is read: its entries by `entries`; afterwards how many were cut or can't be understood."""

    paths: list[Path]
    prefix: str | None = None
    cut: int = 0
    is_coarse: bool = field(default=False)

    def entries(self) -> Iterator[LogEntry]:
        """All entries, file by file. Raises UsageError for a file that is no log, or has another prefix."""
        for path in self.paths:
            try:
                # A statement may hold carriage returns, which end no line of a log.
                with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
                    yield from self._file(path, lines)
            except OSError as error:
                raise UsageError(
                    f"--log {path} can't be read ({error.strerror}): name another file"
                ) from None

    def _file(self, path: Path, lines: Iterable[str]) -> Iterator[LogEntry]:
        if path.suffix == ".json":
            first, lines = _first_of(lines)
            if first.lstrip().startswith("["):
                yield from self._stderr(path, self._exported(path, lines))
            elif '"textPayload"' in first:
                yield from self._stderr(path, self._payloads(lines))
            else:
                yield from self._json(lines)
        elif path.suffix == ".csv":
            yield from self._csv(lines)
        else:
            first, lines = _first_of(lines)
            if first.startswith(_COMPRESSED):
                raise UsageError(f"--log {path} is compressed: unpack it first, and name what was unpacked")
            # A file that was rotated has a number behind its name.
            is_csv = self.prefix is None and _CSV_BEGIN.match(first)
            yield from self._csv(lines) if is_csv else self._stderr(path, lines)

    def _csv(self, lines: Iterable[str]) -> Iterator[LogEntry]:
        """A record may have several lines; one that was cut ends where the next one begins."""
        csv.field_size_limit(_FIELD_BYTES_MAX)
        record: list[str] = []
        is_open = False
        for line in lines:
            if record and _CSV_BEGIN.match(line):
                # A statement that holds such a line within quotes is taken for two records that were cut.
                yield from self._csv_record("".join(record))
                record, is_open = [], False
            record.append(line)
            is_open ^= line.count('"') % 2 == 1
            if not is_open:
                yield from self._csv_record("".join(record))
                record = []
        if record:
            yield from self._csv_record("".join(record))

    def _csv_record(self, record: str) -> Iterator[LogEntry]:
        try:
            row = next(csv.reader([record], strict=True))
            if len(row) < _CSV_COLUMNS_MIN:
                raise ValueError(record)
            time_ns = unix_ns(row[0])
        except (ValueError, csv.Error, StopIteration):
            self.cut += 1
            return
        yield LogEntry(
            time_ns=time_ns,
            session="" if (*row, "")[23] in _NO_CLIENTS else row[5] or row[3],
            level=row[11],
            message=row[13],
            user=row[1],
            database=row[2],
            application=row[22],
            sqlstate=row[12],
            detail=row[14],
            statement=row[19],
            context=row[18],
        )

    def _payloads(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines of stderr that an export of Cloud Logging holds, one entry in each line."""
        for line in lines:
            try:
                text = json.loads(line)["textPayload"]
            except (ValueError, KeyError, TypeError):
                self.cut += bool(line.strip())
                continue
            yield from _payload(str(text))

    def _exported(self, path: Path, lines: Iterable[str]) -> Iterator[str]:
        """The same of an export that is one list, as Logs Explorer and gcloud write it, the latest first."""
        text = "".join(lines)
        start, decoder = text.index("[") + 1, json.JSONDecoder()
        found: list[tuple[str, str]] = []
        while (start := _behind_spaces(text, start)) < len(text) and text[start] != "]":
            try:
                entry, start = decoder.raw_decode(text, start)
                found.append((str(entry.get("timestamp", "")), str(entry["textPayload"])))
            except (KeyError, AttributeError):
                self.cut += 1
            except ValueError:
                # The rest was cut.
                self.cut += 1
                break
        if not found:
            raise UsageError(f"--log {path} is a list without textPayload: name an export of Cloud Logging")
        # The order of the list breaks ties: entries of one time stand in it as the others do.
        if found[0][0] > found[-1][0]:
            found.reverse()
        for _, payload in sorted(found, key=lambda each: each[0]):
            yield from _payload(payload)

    def _json(self, lines: Iterable[str]) -> Iterator[LogEntry]:
        for line in lines:
            try:
                found = json.loads(line)
                time_ns = unix_ns(found["timestamp"])
            except (ValueError, KeyError, TypeError):
                self.cut += bool(line.strip())
                continue
            word = {name: str(value) for name, value in found.items() if value is not None}
            yield LogEntry(
                time_ns=time_ns,
                session=""
                if word.get("backend_type") in _NO_CLIENTS
                else word.get("session_id") or word.get("pid", ""),
                level=word.get("error_severity", ""),
                message=word.get("message", ""),
                user=word.get("user", ""),
                database=word.get("dbname", ""),
                application=word.get("application_name", ""),
                sqlstate=word.get("state_code", ""),
                detail=word.get("detail", ""),
                statement=word.get("statement", ""),
                context=word.get("context", ""),
            )

    def _stderr(self, path: Path, lines: Iterable[str]) -> Iterator[LogEntry]:
        pattern: re.Pattern[str] | None = None
        waiting: dict[str, LogEntry] = {}
        last: tuple[str, str] | None = None
        ending = ""
        for line in lines:
            # Of a server on Windows all lines end so; elsewhere the carriage return is a statement's own.
            ending = ending or ("\r\n" if line.endswith("\r\n") else "\n")
            text = line.removesuffix(ending)
            pattern = pattern or self._pattern(text)
            match = pattern.match(text) if pattern else None
            if match is None:
                if not text.startswith("\t"):
                    self.cut += bool(text.strip())
                    last = None
                elif last is not None and last[0] in waiting:
                    waiting[last[0]] = _longer(waiting[last[0]], last[1], "\n" + text[1:])
                continue
            entry = _of_match(match)
            level = match["level"]
            last = (entry.session, level)
            if level in _PARTS and entry.session in waiting:
                waiting[entry.session] = _longer(waiting[entry.session], level, match["message"])
            elif level not in (*_LEFT_OUT, "CONTEXT"):
                if entry.session in waiting:
                    yield waiting.pop(entry.session)
                waiting[entry.session] = entry
        if pattern is None:
            raise UsageError(
                f"--log {path}: no line begins as a known log_line_prefix has it: give the server's own with "
                "--log-prefix '%m [%p] ' (SHOW log_line_prefix)"
            )
        yield from waiting.values()

    def _pattern(self, line: str) -> re.Pattern[str] | None:
        for prefix in (self.prefix,) if self.prefix is not None else PREFIXES:
            pattern = prefix_pattern(prefix)
            if pattern.match(line):
                self.is_coarse = "%t" in prefix
                return pattern
        return None


def _payload(text: str) -> Iterator[str]:
    head, *more = text.split("\n")
    yield head
    # What follows in the same payload belongs to it, with the server's tab or without.
    yield from ("\t" + each.removeprefix("\t") for each in more)


def _behind_spaces(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\r\n,":
        start += 1
    return start


def _first_of(lines: Iterable[str]) -> tuple[str, Iterable[str]]:
    """The first line that says something, and all lines."""
    stream = iter(lines)
    first = next((line for line in stream if line.strip()), "")
    return first, itertools.chain([first], stream)


def prefix_pattern(prefix: str) -> re.Pattern[str]:
    """How a line with this log_line_prefix begins; raises UsageError where time or session is missing."""
    parts, optional = [], False
    known: set[str] = set()
    for found in re.finditer(r"%(-?\d*)(.)|[^%]+", prefix):
        letter = found[2]
        if letter == "q":
            parts += [] if optional else ["(?:"]
            optional = True
        elif letter is None:
            parts.append(re.escape(found[0]))
        elif letter in _ESCAPES:
            text = _ESCAPES[letter]
            # What is said once more, as the time by %m and %t, has no name of its own.
            if (group := _GROUP.match(text)) is not None:
                text = _GROUP.sub("(?:", text) if group[1] in known else text
                known.add(group[1])
            parts.append(rf"\s*{text}\s*" if found[1] else text)
        else:
            raise UsageError(
                f"--log-prefix {prefix}: %{letter} is not an escape of log_line_prefix: correct it"
            )
    text = "".join(parts) + (")?" if optional else "")
    if not ("<time>" in text or "<epoch>" in text) or not ("<pid>" in text or "<session>" in text):
        raise UsageError(
            f"--log-prefix {prefix}: without %m (or %t, %n) and %p (or %c) sessions can't be identified"
        )
    return re.compile(text + rf"(?P<level>{_LEVELS}):\s+(?P<message>.*)$", re.DOTALL)


def _of_match(match: re.Match[str]) -> LogEntry:
    found = {name: value or "" for name, value in match.groupdict().items()}
    epoch = found.get("epoch")
    return LogEntry(
        time_ns=int(float(epoch) * 1e9) if epoch else unix_ns(found["time"]),
        session="" if found.get("backend") in _NO_CLIENTS else found.get("session") or found.get("pid", ""),
        level=found["level"],
        message=found["message"],
        user=found.get("user", ""),
        database=found.get("database", ""),
        application=found.get("application", ""),
        sqlstate=found.get("sqlstate", ""),
    )


def _longer(entry: LogEntry, level: str, text: str) -> LogEntry:
    if level == "DETAIL":
        return replace(entry, detail=entry.detail + text)
    if level == "STATEMENT":
        return replace(entry, statement=entry.statement + text)
    if level == "CONTEXT":
        return replace(entry, context=entry.context + text)
    if level in _LEFT_OUT:
        return entry
    return replace(entry, message=entry.message + text)


def unix_ns(text: str) -> int:
    """A log's time as Unix time; one with a zone's name other than UTC or GMT is taken for UTC.

    Raises ValueError for what is no time.
    """
    match = _TIME.match(text)
    if match is None:
        raise ValueError(text)
    moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    offset = _OFFSET.fullmatch(match[2] or "")
    if offset is not None:
        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        moment = moment - shift if offset[1] == "+" else moment + shift
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000_000 + whole.microseconds * 1000
