"""The contract between Python and the native binary, without a PostgreSQL server: documents, versions, ends,
peers that don't keep the protocol, and the null server."""

import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgassay
from hostile_peers import HOSTILE, READY, fake_server
from pgassay.errors import MeasurementError, UsageError
from pgassay.native.binary import binary, source_id
from pgassay.native.load import run_load
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession

ROOT = Path(__file__).resolve().parents[2]

HOSTILE_ANSWERS = {
    "nothing": b"",
    "unknown message": b"?\0\0\0\x04",
    "bad status": b"Z\0\0\0\x05?",
    "empty status": b"Z\0\0\0\x04",
    "authentication again": b"R\0\0\0\x08\0\0\0\0",
    "row cut short": b"D\0\0\1\0abc",
    "copy": b"W\0\0\0\x07\0\0\0",
    "text": b"what do you want?",
}


def load_spec(connect: dict[str, Any], **changes: Any) -> dict[str, Any]:
    usual = {"connect": connect, "script": "select-only", "scale": 1, "clients": 2, "threads": 1}
    return usual | {"protocol": "prepared", "duration_s": 0.3, "warmup_s": 0.1, "seed": 1} | changes


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_peer_that_is_no_server_is_one_clear_error(folder: Path, name: str) -> None:
    with fake_server(folder, HOSTILE[name]) as connect:
        with SqlSession() as session, pytest.raises(StatementError) as caught:
            session.connect(connect)
        assert caught.value.message.startswith("connecting to ")
        with pytest.raises(StatementError, match="could not connect"):
            run_load(load_spec(connect))
    assert "panic" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(HOSTILE_ANSWERS))
def test_an_answer_that_is_none_is_one_clear_error(folder: Path, name: str) -> None:
    with fake_server(folder, READY, HOSTILE_ANSWERS[name]) as connect:
        with SqlSession() as session:
            session.connect(connect)
            with pytest.raises(StatementError, match='statement "x"'):
                session.execute("x", "select 1")
            with pytest.raises(StatementError, match="no connection"):
                session.execute("y", "select 1")
        with pytest.raises(StatementError, match=r"client \d failed while preparing"):
            run_load(load_spec(connect))
        with pytest.raises(StatementError, match=r'client \d failed in the statement "SELECT'):
            run_load(load_spec(connect, protocol="simple"))


@pytest.mark.timeout(120)
def test_too_many_scram_rounds_are_not_done(folder: Path) -> None:
    """A server may not keep the client busy: two thousand million rounds would take half an hour."""

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / ".s.PGSQL.1"))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(HOSTILE["scram with too many rounds"])
                nonce = peer.recv(65536).split(b"r=")[1]
                body = b"\0\0\0\x0br=" + nonce + b"x,s=c2FsdA==,i=2000000000"
                peer.sendall(b"R" + (len(body) + 4).to_bytes(4) + body)
                peer.recv(65536)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        connect = {"host": str(folder), "port": 1, "user": "u", "dbname": "d", "password": "p"}
        with SqlSession() as session, pytest.raises(StatementError, match="iteration"):
            session.connect(connect)
        thread.join(5)


@contextmanager
def null_server(folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / ".s.PGSQL.5432"
    process = subprocess.Popen([binary(), "null-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps({"socket": str(path)}).encode())
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"ready": {"socket": str(path)}}
        yield {"host": str(folder), "port": 5432, "user": "u", "dbname": "d"}
        process.stdin.close()
        assert process.wait(60) == 0
        assert not path.exists()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_null_server_serves_other_drivers(folder: Path) -> None:
    with (
        null_server(folder) as connect,
        psycopg.connect(host=connect["host"], user="u", dbname="d", autocommit=True) as connection,
    ):
        assert connection.execute("select 1").rowcount == 0
        assert connection.execute("select %s", [1], prepare=True).rowcount == 0
        connection.execute("")


def test_the_null_server_measures_the_client_alone(folder: Path) -> None:
    with null_server(folder) as connect:
        for protocol in ("prepared", "simple"):
            record = run_load(load_spec(connect, clients=60, threads=2, protocol=protocol, script="tpcb"))
            assert record["transactions"] > 0
        with SqlSession() as session:
            assert session.connect(connect).server_version == "18.0"
            assert session.execute("nothing", "select 1").rows == 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"clients": 0}, "clients is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"scale": 0}, "scale is 0"),
        ({"duration_s": 0}, "duration_s is 0"),
        ({"duration_s": -1.0}, "duration_s is -1"),
        ({"warmup_s": -0.5}, "warmup_s is -0.5"),
        ({"script": "tpcc"}, "unknown variant `tpcc`"),
        ({"surprise": 1}, "unknown field `surprise`"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(changes: dict[str, Any], fault: str) -> None:
    connect = {"host": "/nowhere", "port": 1, "user": "u", "dbname": "d", "password": "hidden-word"}
    with pytest.raises(StatementError, match=fault) as caught:
        run_load(load_spec(connect, **changes))
    assert "hidden-word" not in str(caught.value)


def test_a_line_that_is_no_command_is_answered_and_the_conversation_goes_on() -> None:
    process = subprocess.Popen([binary(), "sql"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    for line in ("nonsense", '{"dance": {}}', '{"execute": {"name": "x", "sql": "select 1"}}'):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        assert set(json.loads(process.stdout.readline())["error"]) == {
            "message",
            "sqlstate",
            "detail",
            "hint",
        }
    process.stdin.write('{"disconnect": {}}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"disconnected": {}}
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_the_native_process_dies_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pgassay.native.sql import SqlSession; s = SqlSession();"
        "print(s.process_id, flush=True); os.kill(os.getpid(), 9)"
    )
    package = Path(pgassay.__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(package), "PGASSAY_NATIVE": str(binary())}
    # Without any package that is installed: this part needs Python alone.
    command = ["/usr/bin/env", "python3", "-S", "-c", program]
    child = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path
    )
    process = Path(f"/proc/{int(child.stdout)}")
    deadline = time.monotonic() + 60
    while process.exists() and "State:\tZ" not in (process / "status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGABRT, "ended unexpectedly"), (signal.SIGKILL, "more memory")]
)
def test_a_crash_of_the_binary_is_explained(number: signal.Signals, words: str) -> None:
    session = SqlSession()
    os.kill(session.process_id, number)
    with pytest.raises(MeasurementError, match=words):
        session.disconnect()
    with pytest.raises(MeasurementError, match="closed"):
        session.disconnect()
    session.close()


def test_cpu_affinity_holds_for_the_child_alone() -> None:
    before = os.sched_getaffinity(0)
    cpu = min(before)
    with SqlSession(cpu_affinity=[cpu]) as session:
        assert os.sched_getaffinity(session.process_id) == {cpu}
        assert os.sched_getaffinity(0) == before
    with pytest.raises(UsageError, match="CPUs 100000 can't be used"):
        SqlSession(cpu_affinity=[100000])
    assert os.sched_getaffinity(0) == before


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_binary_is_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout
    assert answer.split() == ["pgassay-native", pgassay.__version__, source_id(ROOT)]
    monkeypatch.setenv("PGASSAY_NATIVE", str(script(tmp_path / "old", "echo pgassay-native 0.0.1")))
    with pytest.raises(UsageError, match=r"'pgassay-native 0\.0\.1', not version .* `make setup`"):
        binary()
    stale = script(tmp_path / "stale", f"echo pgassay-native {pgassay.__version__} 00000000")
    monkeypatch.setenv("PGASSAY_NATIVE", str(stale))
    with pytest.raises(UsageError, match=r"stale was not built from the Rust sources here; .*`make setup`"):
        binary()
    monkeypatch.setenv("PGASSAY_NATIVE", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="no file"):
        binary()
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    monkeypatch.setenv("PGASSAY_NATIVE", str(plain))
    with pytest.raises(UsageError, match="can't be run"):
        binary()


def test_help_and_usage() -> None:
    helped = subprocess.run([binary(), "--help"], capture_output=True, text=True, check=True).stdout
    assert all(command in helped for command in ("sql", "load", "null-server"))
    wrong = subprocess.run([binary(), "dance"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "--help" in wrong.stderr
