"""`pgassay watch` on a real server: in a terminal, in a pipe, without rights, while it comes and goes."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import replay
import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.design.schedule import next_step
from pgassay.environment.server.private_server import Server
from pgassay.model.build import Build
from pgassay.record.experiment import TrialWriter, load
from pgassay.record.experiment_lock import held
from pgassay.report import schema
from pgassay.trial.target import RunningServer
from pgassay.watch.reading.watched_experiment import ExperimentWatch
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home

pytestmark = pytest.mark.server
CONTROL = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
QUICK = ("--interval", "0.3")
PATIENCE_S = 60.0
_BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        with server.query_connection() as connection:
            connection.execute("CREATE ROLE weak LOGIN")
        yield server


def dsn(server: NativeTestServer, user: str = "postgres") -> str:
    return f"host={server.folder} port={server.port} user={user} dbname=postgres"


@contextmanager
def row_lock(server: NativeTestServer) -> Iterator[None]:
    """One session that holds a row, and one that waits for it as long as the block lasts."""
    update = "UPDATE pgbench_branches SET bbalance = 1 WHERE bid = 1"
    with server.query_connection() as holder, server.query_connection() as waiter:
        holder.execute("BEGIN")
        holder.execute(update)
        thread = threading.Thread(target=waiter.execute, args=(update,))
        thread.start()
        try:
            with server.query_connection() as looking:
                while looking.execute(_BLOCKED).fetchone() == (0,):
                    time.sleep(0.01)
            yield
        finally:
            holder.execute("ROLLBACK")
            thread.join()


def documents(*words: str) -> list[dict[str, Any]]:
    finished = whole_tool.run("watch", *words, "--json")
    assert finished.returncode == 0, finished.stderr
    found = [json.loads(line) for line in finished.stdout.splitlines()]
    for document in found:
        jsonschema.validate(document, schema.WATCH.schema(), cls=jsonschema.Draft202012Validator)
    return found


def test_each_interval_is_a_document_that_says_what_waits(server: NativeTestServer) -> None:
    with row_lock(server):
        found = documents(dsn(server), "--interval", "0.6", "--seconds", "1.2")
    assert len(found) == 2
    assert found[1]["clock_ns"] > found[0]["clock_ns"]
    looked = [document for document in found if document["server"]["waits"] is not None]
    assert looked
    for document in looked:
        seen, host = document["server"], document["host"]
        lock = [wait for wait in seen["waits"] if wait["event_type"] == "Lock"]
        assert {(wait["kind"], wait["state"]) for wait in lock} == {("backend", "active")}
        assert sum(wait["threads"] for wait in lock) == pytest.approx(1.0)
        # It wakes for a moment when the server looks for a deadlock.
        assert any(wait["scheduler"] == "asleep" for wait in lock)
        assert seen["connections"]["by_state"] == {
            "active": pytest.approx(1.0),
            "idle in transaction": pytest.approx(1.0),
        }
        assert seen["connections"]["limit"] == 30
        assert {use["kind"] for use in seen["threads"]} >= {
            "backend",
            "checkpointer",
            "pgassay",
            "postmaster",
        }
        assert seen["throughput"]["transactions_s"] >= 0
        (statement,) = [each for each in seen["statements"] if each["waiting"]]
        assert statement["event"].startswith("Lock:")
        assert statement["query"].startswith("UPDATE pgbench_branches")
        assert not host["cpu"] or sum(host["cpu"].values()) == pytest.approx(1.0)
        assert document["experiment"] is None


def test_in_a_pipe_there_is_a_line_each_and_no_control_sequence(server: NativeTestServer) -> None:
    finished = whole_tool.run("watch", dsn(server), *QUICK, "--seconds", "0.8")
    assert finished.returncode == 0, finished.stderr
    heading, *lines = finished.stdout.splitlines()
    assert heading.split()[:4] == ["time", "conn", "act", "wait"]
    assert 2 <= len(lines) <= 3, "the last interval is cut to the time that was given"
    assert "\x1b" not in finished.stdout + finished.stderr


@pytest.mark.shares_machine
def test_a_reader_that_goes_away_ends_it(server: NativeTestServer) -> None:
    watch = whole_tool.start("watch", dsn(server), *QUICK)
    assert watch.stdout is not None
    assert watch.stdout.readline().startswith("time")
    watch.stdout.close()
    assert watch.wait(PATIENCE_S) == 0
    assert watch.stderr is not None
    assert "Traceback" not in watch.stderr.read()
    watch.stderr.close()


class Terminal:
    """`pgassay watch` on a pseudo-terminal of its own; `said` is all that it wrote so far."""

    def __init__(self, *words: str, columns: int = 80, rows: int = 24, **variables: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.said = b""
        self.process = subprocess.Popen(
            [*whole_tool.COMMAND, "watch", *words],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=whole_tool.environment() | {"TERM": "xterm"} | variables,
        )  # fmt: skip

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, words: bytes) -> None:
        """Read until the words have been written since the last time."""
        begun, deadline = len(self.said), time.monotonic() + PATIENCE_S
        while words not in CONTROL.sub(b"", self.said[begun:]):
            assert time.monotonic() < deadline, self.said
            self._read(0.1)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        """Wait for the end; all that was written is read meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.said
            self._read(0.05)
        self._read(0.0)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def _read(self, timeout_s: float) -> None:
        while select.select([self.master], [], [], timeout_s)[0]:
            self.said += os.read(self.master, 1 << 16)
            timeout_s = 0.0

    @property
    def is_given_back(self) -> bool:
        """The usual screen, a cursor, and the keys as they were."""
        shown = self.said.rpartition(b"\x1b[?1049l")
        is_usual = bool(shown[1]) and b"\x1b[?1049h" not in shown[2]
        has_cursor = self.said.rfind(b"\x1b[?25h") > self.said.rfind(b"\x1b[?25l")
        return is_usual and has_cursor and termios.tcgetattr(self.slave) == self.before


@contextmanager
def terminal(*words: str, **options: Any) -> Iterator[Terminal]:
    opened = Terminal(*words, **options)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.shares_machine
def test_a_terminal_is_drawn_on_and_given_back_after_ctrl_c(server: NativeTestServer) -> None:
    with row_lock(server), terminal(dsn(server), *QUICK) as shown:
        shown.wait_for(b"Lock:transactionid")
        assert not termios.tcgetattr(shown.slave)[3] & termios.ECHO
        drawn = len(shown.said)
        assert b"\x1b[2J" not in shown.said[shown.said.find(b"Lock:") :], "nothing is wiped between pictures"
        shown.resize(100, 40)
        os.kill(shown.process.pid, signal.SIGWINCH)
        # What has no room in 24 lines of 80 characters.
        shown.wait_for(b"%util")
        assert len(shown.said) > drawn
        shown.type(b"\x03")
        assert shown.end() == 0
        assert shown.is_given_back
        last = CONTROL.sub(b"", shown.said.rpartition(b"\x1b[?1049l")[2])
        assert b"Lock:transactionid" in last, "the last picture stays"
        assert b"Traceback" not in shown.said


@pytest.mark.shares_machine
@pytest.mark.parametrize(
    "ending", ["q", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGTERM", "SIGHUP"))]
)
def test_a_terminal_is_given_back_however_it_ends(server: NativeTestServer, ending: str) -> None:
    with terminal(dsn(server), *QUICK, NO_COLOR="1") as shown:
        shown.wait_for(b"connections ")
        if ending == "q":
            shown.type(b"q")
        else:
            os.kill(shown.process.pid, getattr(signal, ending))
        assert shown.end() == 0
        assert shown.is_given_back
        assert not re.search(rb"\x1b\[[\d;]*3[0-7]m", shown.said), "NO_COLOR"


@pytest.mark.slow
def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(server: NativeTestServer) -> None:
    with terminal(dsn(server), *QUICK) as shown:
        shown.wait_for(b"connections ")
        shown.type(b"\x1a")
        deadline = time.monotonic() + PATIENCE_S
        while not os.waitid(os.P_PID, shown.process.pid, os.WSTOPPED | os.WNOHANG):
            assert time.monotonic() < deadline
            shown._read(0.05)
        shown._read(0.0)
        assert shown.is_given_back
        os.kill(shown.process.pid, signal.SIGCONT)
        shown.wait_for(b"connections ")
        assert not shown.is_given_back
        shown.type(b"q")
        assert shown.end() == 0
        assert shown.is_given_back


def test_a_role_without_rights_is_told_what_is_missing(server: NativeTestServer) -> None:
    with row_lock(server):
        (document,) = documents(dsn(server, "weak"), "--seconds", "1")
    assert any("GRANT pg_monitor TO" in sentence for sentence in document["missing"])
    assert document["server"]["connections"]["by_state"]["not shown"] == pytest.approx(2.0)
    assert document["server"]["throughput"] is not None


@pytest.mark.slow
def test_a_server_that_goes_away_is_found_again(server: NativeTestServer) -> None:
    watch = whole_tool.start("watch", dsn(server), *QUICK, "--json")
    assert watch.stdout is not None

    def next_that(holds: bool) -> dict[str, Any]:
        while True:
            assert watch.stdout is not None
            document: dict[str, Any] = json.loads(watch.stdout.readline())
            if (document["server"]["version"] is not None) == holds:
                return document

    try:
        next_that(True)
        server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "fast", "stop")
        gone = next_that(False)
        assert "the server is gone" in gone["missing"][0]
        assert gone["server"]["throughput"] is None
        server.start_again()
        assert next_that(True)["server"]["threads"]
        watch.send_signal(signal.SIGINT)
        assert watch.wait(PATIENCE_S) == 0
    finally:
        watch.kill()
        _, complaints = watch.communicate()
    assert "Traceback" not in complaints


@pytest.mark.shares_machine
def test_what_can_t_be_watched_is_one_sentence(server: NativeTestServer, tmp_path: Path) -> None:
    nowhere = whole_tool.assert_one_sentence(whole_tool.run("watch", f"host={tmp_path} dbname=x"), 2)
    assert "DSN: " in nowhere
    neither = whole_tool.assert_one_sentence(whole_tool.run("watch", "some-folder"), 2)
    assert "neither a folder nor a connection string" in neither
    empty = whole_tool.assert_one_sentence(whole_tool.run("watch", str(tmp_path)), 2)
    assert "has no experiment" in empty
    often = whole_tool.assert_one_sentence(whole_tool.run("watch", dsn(server), "--interval", "0.01"), 2)
    assert "--interval" in often


@pytest.fixture(scope="module")
def build() -> Build:
    return best_build()


@pytest.mark.shares_machine
def test_a_measured_server_is_looked_at_without_a_session(build: Build, tmp_path: Path) -> None:
    """The server of the process that holds the folder is found, by another start of it too."""
    folder = replay.recorded(tmp_path / "results", blocks=2)
    stored = load(folder)
    step = next_step(stored.experiment, (trial.record for trial in stored.trials))
    with own_home() as home, held(folder), ExperimentWatch(folder) as watch:
        assert watch.sample().server is None
        writer = TrialWriter(folder, step.spec.number, step.spec.attempt)
        with Server(build, empty_cluster(build, home / "data" / "measured"), TINY_SETTINGS) as measured:
            running = RunningServer(measured, {})
            assert running.control.info.backend_pid
            seen = followed(watch, measured.pid)
            assert seen["threads"]
            assert {use["kind"] for use in seen["threads"]} >= {"checkpointer", "backend", "postmaster"}
            assert (seen["connections"], seen["throughput"], seen["statements"]) == (None, None, None)
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%watch%'"
            assert running.control.execute(sessions).fetchone() == (0,)
            running.restart()
            followed(watch, measured.pid)
            running.close_control()
        sample = watch.sample()
        assert sample.experiment is not None
        assert sample.experiment.trial is not None
        assert sample.experiment.trial.arm_id == step.spec.arm.id
        assert any("a session on a measured server" in sentence for sentence in sample.missing)
        writer.discard()
    assert watch.sample().experiment.is_running is False  # type: ignore[union-attr]


def followed(watch: ExperimentWatch, pid: int) -> dict[str, Any]:
    """The first sample of the server with this first process: it is found at the sample before."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        sample = watch.sample()
        if sample.server is not None and sample.server.pid == pid:
            return sample.server.model_dump()
    raise AssertionError("the server was not found")


@pytest.mark.slow
def test_a_whole_comparison_is_watched_to_its_end(tmp_path: Path) -> None:
    with whole_tool.private_home() as home:
        folder = tmp_path / "results"
        compare = whole_tool.start(
            "compare", "work_mem=4MB,8MB", "--workload", "select-only:duration=2s", *whole_tool.SMALL,
            *whole_tool.build(), "--blocks", "2", "--out", folder, "--quiet", home=home,
        )  # fmt: skip
        whole_tool.wait_for((folder / "experiment.json").exists, "the plan", process=compare)
        watched = whole_tool.run("watch", folder, "--json", home=home)
        plain = whole_tool.run("watch", folder, home=home)
        assert compare.wait(PATIENCE_S) == 0
        compare.communicate()
    assert watched.returncode == 0, watched.stderr
    found = [json.loads(line) for line in watched.stdout.splitlines()]
    for document in found:
        jsonschema.validate(document, schema.WATCH.schema(), cls=jsonschema.Draft202012Validator)
    trials = {each["experiment"]["trial"]["number"] for each in found if each["experiment"]["trial"]}
    assert trials
    assert trials <= set(range(6))
    assert found[-1]["experiment"]["stopped"] == "blocks"
    assert found[-1]["experiment"]["blocks"] == 2
    assert plain.stdout.splitlines()[1:] == [
        "it has ended: all its blocks were run",
        f"report: {folder / 'report.html'}",
    ]
    assert plain.stdout.startswith("after block 2: work_mem=8MB: ")
