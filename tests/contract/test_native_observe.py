"""The documents of the native binary's command `observe`, without a PostgreSQL server."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hostile_peers import HOSTILE, READY, fake_server
from pgassay.native.binary import binary

WORKER = "import time\nwhile True: time.sleep(0.001)"
PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WORKER!r}])"


@contextmanager
def observing(**spec: Any) -> Iterator["subprocess.Popen[str]"]:
    """The command with its first line written."""
    command = [binary(), "observe"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        write(process, {"rate_hz": 50.0, "output_s": 0.05} | spec)
        try:
            yield process
        finally:
            process.kill()


def write(process: "subprocess.Popen[str]", document: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(document) + "\n")
    process.stdin.flush()


def read(process: "subprocess.Popen[str]", key: str) -> dict[str, Any]:
    """The next document of this kind."""
    assert process.stdout is not None
    for line in process.stdout:
        document = json.loads(line)
        if key in document:
            found: dict[str, Any] = document[key]
            return found
    pytest.fail(f"the command ended without {key}")


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[bytes]"]:
    """A process with a child that works, as a postmaster with a backend."""
    with subprocess.Popen([sys.executable, "-c", PARENT], process_group=0) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text().strip():
            time.sleep(0.005)
        yield process
        # Some tests end it themselves.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"rate_hz": 0, "output_s": 1, "postmaster_pid": 1}, "0.1 to 1000 readings per second"),
        ({"rate_hz": 10, "output_s": 0, "postmaster_pid": 1}, "0.01 to 60 seconds"),
        ({"rate_hz": 10, "output_s": 1}, "there is nothing to observe"),
        ({"rate_hz": 10, "output_s": 1, "password": "secret"}, "unknown field"),
        ([], "can't be used"),
    ],
)
def test_a_document_of_no_use_is_refused_with_a_sentence(document: Any, words: str) -> None:
    finished = subprocess.run(
        [binary(), "observe"], input=json.dumps(document) + "\n", capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2
    assert words in json.loads(finished.stdout)["error"]["message"]
    assert "secret" not in finished.stdout


def test_the_threads_of_a_process_and_its_children(parent: "subprocess.Popen[bytes]") -> None:
    with observing(postmaster_pid=parent.pid) as process:
        ready = read(process, "ready")
        assert (ready["activity"], ready["threads"], ready["backend_pid"]) == (False, True, None)
        first = read(process, "window")
        assert first["edge"]
        later = [read(process, "window") for _ in range(4)]
        write(process, {"end": {}})
        while not (last := read(process, "window"))["edge"]:
            later.append(last)
        assert read(process, "ended")["observer_cpu_ns"] > 0
        assert process.wait(10) == 0
    windows = [first, *later, last]
    for before, after in itertools.pairwise(windows):
        assert after["from_ns"] == before["clock_ns"] < after["clock_ns"]
    columns = ready["thread_columns"]
    by_pid: dict[int, list[dict[str, Any]]] = {}
    for window in windows:
        for row in window["threads"]:
            named = dict(zip(columns, row, strict=True))
            by_pid.setdefault(named["pid"], []).append(named)
    assert {rows[0]["kind"] for rows in by_pid.values()} == {"postmaster", "other"}
    (child,) = (rows for rows in by_pid.values() if rows[0]["kind"] == "other")
    for name in ("run_ns", "delay_ns", "slices", "seen_ns"):
        values = [row[name] for row in child]
        assert values == sorted(values), name
    assert child[-1]["slices"] > child[0]["slices"]
    looks = sum(dict(zip(ready["wait_columns"], row, strict=True))["samples"] for row in last["waits"])
    assert looks == 2 * last["samples"]


def test_an_edge_is_answered_at_once_and_a_child_that_died_is_seen_going(
    parent: "subprocess.Popen[bytes]",
) -> None:
    with observing(postmaster_pid=parent.pid, output_s=60.0) as process:
        read(process, "window")
        write(process, {"edge": {}})
        edge = read(process, "window")
        assert edge["edge"]
        assert all(row[5] for row in edge["threads"])
        os.killpg(parent.pid, 9)
        parent.wait()
        gone: set[int] = set()
        for _ in range(200):
            write(process, {"edge": {}})
            gone |= {row[0] for row in read(process, "window")["threads"] if not row[5]}
            if len(gone) == 2:
                break
            time.sleep(0.01)
        assert parent.pid in gone
        assert len(gone) == 2


def test_it_ends_when_nobody_writes_to_it_any_more(parent: "subprocess.Popen[bytes]") -> None:
    with observing(postmaster_pid=parent.pid) as process:
        read(process, "ready")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize("answer", [pytest.param(HOSTILE[name], id=name) for name in HOSTILE])
def test_whatever_a_peer_answers_the_threads_are_still_read(
    answer: bytes, tmp_path: Path, parent: "subprocess.Popen[bytes]"
) -> None:
    with (
        fake_server(tmp_path, answer) as parameters,
        observing(connect=parameters, postmaster_pid=parent.pid) as process,
    ):
        ready = read(process, "ready")
        assert (ready["activity"], ready["threads"]) == (False, True)
        assert ready["reasons"]
        assert read(process, "window")["threads"]


@pytest.mark.parametrize("rows", [b"D\0\0\0\x06\0\x07Z\0\0\0\x05I", b"?\0\0\0\x04", b"D\0\0\1\0abc", b""])
def test_rows_that_are_none_cost_the_waits_alone(
    rows: bytes, tmp_path: Path, parent: "subprocess.Popen[bytes]"
) -> None:
    prepared = b"1\0\0\0\x04Z\0\0\0\x05I"
    with (
        fake_server(tmp_path, READY, prepared, rows) as parameters,
        observing(connect=parameters, postmaster_pid=parent.pid) as process,
    ):
        assert read(process, "ready")["activity"]
        for _ in range(3):
            assert read(process, "window")["threads"]
