"""What Python asks the native binary, and what it makes of the answers: one script of conversations.

The script runs against the binary and a server (to record, and in a test that starts servers) or against a
recorded transcript, which needs neither.
"""

import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyarrow import parquet

from frozen import entry_points, outputs
from frozen.entry_points import (
    NativeProbe,
    ProbeError,
    ServerObserver,
    SqlSession,
    StatementError,
    run_load,
)

STAND_IN = Path(__file__).with_name("native_stand_in.py")
TRANSCRIPTS = Path(__file__).with_name("transcripts")
STATEMENTS = (
    "SELECT 1",
    "SELECT generate_series(1, 1000)",
    "DO $$ BEGIN RAISE WARNING 'a notice'; END $$",
    "SELECT 1; VALUES (2), (3)",
    "selct 1",
    "SELECT 1/0",
    "VACUUM (VERBOSE) pgbench_branches",
)
LOADS = ("grid-io-method-clients", "tpcb-synchronous-commit", "oltp-read-only", "simple-update")
SHORT = {"duration_s": 1.2, "warmup_s": 0.0}
FILE_BYTES = 4 << 20
# Where a list's length is the time's and the machine's.
_LONG = ("threads", "waits", "aios", "windows", "per_second", "mean", "p99", "notices", "reasons")
Facts = dict[str, Any]


class _Observed:
    """What the observer asks of a server."""

    def __init__(self, connect: Mapping[str, Any], postmaster_pid: int) -> None:
        self.on_edge: Callable[[], None] | None = None
        self.on_restart: Callable[[], None] | None = None
        self._document = {"connect": dict(connect), "postmaster_pid": postmaster_pid}

    def observed(self) -> dict[str, Any]:
        return self._document


def converse(corpus: Path, connect: Mapping[str, Any], postmaster_pid: int, folder: Path) -> Facts:
    """Hold all conversations; what Python made of the answers, by name."""
    return {
        "sql": _sql(connect),
        "load": _loads(corpus, connect),
        "observe": _observe(connect, postmaster_pid),
        "probe": _probe(folder),
    }


def _sql(connect: Mapping[str, Any]) -> list[Any]:
    made: list[Any] = []
    with SqlSession() as session:
        made.append(asdict(session.connect(connect)))
        for number, statement in enumerate(STATEMENTS):
            try:
                made.append(_without_parts(asdict(session.execute(f"statement {number}", statement))))
            except StatementError as error:
                made.append([str(error), error.sqlstate, error.detail, error.hint])
        session.disconnect()
        try:
            session.execute("without a connection", "SELECT 1")
        except StatementError as error:
            made.append(str(error))
    return made


def _loads(corpus: Path, connect: Mapping[str, Any]) -> list[Any]:
    made: list[Any] = []
    for name in LOADS:
        request = entry_points.load_request(corpus / name, connect) | SHORT
        seen: list[dict[str, Any]] = []
        try:
            made.append([run_load(request, seen.append), seen])
        except StatementError as error:
            made.append([str(error), error.sqlstate])
    return made


def _observe(connect: Mapping[str, Any], postmaster_pid: int) -> Facts:
    server = _Observed(connect, postmaster_pid)
    with ServerObserver(server, 20.0, 10.0) as observer:
        assert server.on_edge is not None
        assert server.on_restart is not None
        server.on_edge()
        server.on_restart()
        server.on_edge()
    return {
        "facts": observer.facts,
        "warnings": observer.warnings,
        "files": {
            name: outputs.table(parquet.read_table(io.BytesIO(content)))
            for name, content in observer.files().items()
        },
    }


def _probe(folder: Path) -> list[Any]:
    file = folder / "pages"
    with NativeProbe() as native:
        made: list[Any] = [native.make(file, FILE_BYTES), native.facts(file), native.evict(file)]
        made += [native.warm(file, FILE_BYTES), native.checksum(1 << 20).model_dump()]
        made.append(native.cell(entry_points.cell(), {"file": str(file), "duration_s": 0.2}))
        made.append(native.write(folder, entry_points.write_cell(), 0.1))
        try:
            native.facts(folder / "missing")
        except ProbeError as error:
            made.append([str(error), error.code, error.errno])
    return made


def listened(corpus: Path, connect: Mapping[str, Any], postmaster_pid: int) -> dict[str, str]:
    """Hold the conversations with the binary; the transcripts, with the names of folders made neutral."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        folder = Path(name)
        with _Native(FROZEN_NATIVE=str(entry_points.binary()), FROZEN_TRANSCRIPTS=name):
            converse(corpus, connect, postmaster_pid, folder)
        names = {name: "FOLDER", str(connect["host"]): "SOCKET"}
        return {
            path.name: _neutral(path.read_text("utf-8"), names) for path in sorted(folder.glob("*.jsonl"))
        }


def _neutral(text: str, names: Mapping[str, str]) -> str:
    for name, neutral in names.items():
        text = text.replace(name, neutral)
    return text


def replayed(corpus: Path) -> tuple[dict[str, list[Any]], Facts]:
    """Hold them with the recorded transcripts: what Python sent, by transcript, and what it made of it."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        heard = Path(name)
        connect, postmaster_pid = _recorded_connection()
        places = {"FROZEN_TRANSCRIPTS": str(TRANSCRIPTS), "FROZEN_HEARD": name}
        with _Native(**places, FROZEN_VERSION=entry_points.native_version()):
            made = converse(corpus, connect, postmaster_pid, Path("FOLDER"))
        sent = {
            path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            for path in sorted(heard.glob("*.heard"))
        }
        return sent, made


def recorded() -> dict[str, list[Any]]:
    """What Python sent when the transcripts were recorded."""
    return {
        path.stem: [
            document for way, document in map(json.loads, path.read_text("utf-8").splitlines()) if way == "in"
        ]
        for path in sorted(TRANSCRIPTS.glob("*.jsonl"))
    }


def _recorded_connection() -> tuple[Any, int]:
    (first, *_) = recorded()["observe-1"]
    return first["connect"], first["postmaster_pid"]


class _Native:
    """A `with` block in which the stand-in is the native binary."""

    def __init__(self, **variables: str) -> None:
        self._variables = {"PGASSAY_NATIVE": str(STAND_IN), **variables}
        self._before: dict[str, str] = {}

    def __enter__(self) -> None:
        assert shutil.which("python3"), "the stand-in is a program of python3"
        self._before = dict(os.environ)
        os.environ.update(self._variables)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


def shape(transcript: str) -> list[Any]:
    """A transcript without what varies: requests whole but for the server's place, answers by type.

    Answers of one shape that follow each other are one. The observer's windows stand at the end, each shape
    once: a server that was taken up begins one unasked, and it is chance whether the next request comes
    before it or after.
    """
    lines: list[Any] = []
    windows: list[Any] = []
    for way, document in map(json.loads, transcript.splitlines()):
        line = [way, _placeless(document) if way == "in" else _types(document)]
        if way == "out" and "window" in document:
            if line not in windows:
                windows.append(line)
        elif way == "in" or not lines or lines[-1] != line:
            lines.append(line)
    return lines + windows


def _placeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            name: f"<{name}>" if name in ("host", "port", "postmaster_pid") else _placeless(value)
            for name, value in document.items()
        }
    return document


def _types(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _types(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        if name in _LONG:
            return "list"
        return value if name.endswith("_columns") else [_types(inner) for inner in value]
    # A rate that happens to be whole is a rate all the same.
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def _without_parts(executed: dict[str, Any]) -> dict[str, Any]:
    """As it was recorded: only transactions have parts, and then there were none."""
    assert not executed.pop("parts_ns")
    return executed
