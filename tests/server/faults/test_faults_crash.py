"""A server killed in the middle of a trial, and pgassay itself killed or interrupted at random moments."""

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.linux.mounts import mounts
from whole_tool import leftovers, servers_below, wait_for

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# Stands still for as long as the file is missing, and a test needs no more than one such trial.
SLOW_SQL = """-- name: slow
SELECT count(*), pg_sleep(CASE WHEN (pg_stat_file('{quick}', true)).size IS NULL THEN 60 ELSE 0 END)
FROM pgbench_accounts;
"""
VOLUME = "volume:gp3,size=100GiB"
MOMENTS_BY_DEFAULT = 6
MOMENTS = 30


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


@pytest.fixture
def new_home(require: Callable[..., None]) -> Iterator[Path]:
    """One without data, so that making them is interrupted as well."""
    require("server")
    with whole_tool.private_home() as folder:
        yield folder


class SlowSql:
    """A workload whose statement takes a minute between `begin` and `end`, and no time else."""

    def __init__(self, folder: Path) -> None:
        self._quick = folder / "quick"
        self._file = folder / "slow.sql"
        self._file.write_text(SLOW_SQL.format(quick=self._quick))
        self.end()

    @property
    def workload(self) -> str:
        return f"sql:{self._file}"

    def begin(self) -> None:
        self._quick.unlink(missing_ok=True)

    def end(self) -> None:
        self._quick.touch()


@pytest.fixture
def slow(home: Path) -> Iterator[SlowSql]:
    """In the home, which the servers' account can read; its path stays, so that it is rehearsed once."""
    slow = SlowSql(home)
    yield slow
    slow.end()


def words_of(workload: str, out: Path, *more: str) -> list[str]:
    return [
        "compare", "work_mem=1MB,2MB", "--workload", workload, "--cache", "as-is", *whole_tool.SMALL,
        *whole_tool.build(), "--restart", "each", "--seed", "3", "--out", str(out), "--json", *more,
    ]  # fmt: skip


def runs_query(pid: int) -> bool:
    """Whether the title of a process is that of a backend in a SELECT."""
    try:
        return b"SELECT" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@contextmanager
def held_in_a_query(
    home: Path, slow: SlowSql, process: "subprocess.Popen[str] | None" = None
) -> Iterator[int]:
    """The postmaster of a server one of whose backends stands still in a SELECT.

    The trial can't end while the block runs, however long the machine takes for it. The next ones are quick.
    """

    def stop_one() -> int | None:
        for pid in filter(runs_query, servers_below(home / "data" / "work")):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                while runs_query(pid) and not is_stopped(pid):
                    time.sleep(0.005)
                if runs_query(pid):
                    return pid
                os.kill(pid, signal.SIGCONT)
        return None

    slow.begin()
    backend = wait_for(stop_one, "a backend in a query", process=process)
    slow.end()
    try:
        postmaster = whole_tool.postmaster_of(home)
        assert postmaster is not None
        yield postmaster
    finally:
        with suppress(ProcessLookupError):
            os.kill(backend, signal.SIGCONT)


@contextmanager
def held_in_a_load(home: Path, process: "subprocess.Popen[str]") -> Iterator[int]:
    """The postmaster of a server whose load stands still: its transactions are too short to be caught."""

    def stop_client() -> int | None:
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                words = status.with_name("cmdline").read_bytes().split(b"\0")
                is_load = words[0].endswith(b"pgassay-native") and words[1:2] == [b"load"]
                if is_load and f"\nPPid:\t{process.pid}\n" in status.read_text():
                    pid = int(status.parent.name)
                    os.kill(pid, signal.SIGSTOP)
                    return pid
        return None

    client = wait_for(stop_client, "the client of a load", process=process)
    try:
        postmaster = whole_tool.postmaster_of(home)
        assert postmaster is not None
        yield postmaster
    finally:
        os.kill(client, signal.SIGCONT)


@pytest.mark.parametrize("kind", ["statement", pytest.param("load", marks=pytest.mark.slow)])
def test_a_server_killed_in_a_trial(kind: str, home: Path, tmp_path: Path, slow: SlowSql) -> None:
    """The trial is recorded as failed with its reason, repeated once, and the experiment goes on."""
    before = whole_tool.socket_folders()
    workload = slow.workload if kind == "statement" else "select-only:clients=2,duration=1s,warmup=100ms"
    out = tmp_path / "out"
    process = whole_tool.start(*words_of(workload, out, "--blocks", "1"), home=home)
    wait_for(lambda: (out / "trials" / "000000" / "attempt-1").exists(), "the first trial", process=process)
    held = held_in_a_load(home, process) if kind == "load" else held_in_a_query(home, slow, process)
    with held as postmaster:
        os.kill(postmaster, signal.SIGKILL)
    output, progress = process.communicate(timeout=whole_tool.TIMEOUT_S)
    assert process.returncode == 0, progress
    result = json.loads(output)
    assert result["blocks"] == 1
    assert result["failures"] == 1
    recorded = whole_tool.trials(out)
    [failed] = [record for record in recorded if record["status"] != "ok"]
    assert failed["status"] == "failed"
    assert failed["attempt"] == 1
    assert re.search("server|postmaster", failed["reason"]), failed["reason"]
    assert failed["reason"] in progress
    [again] = [
        record for record in recorded if (record["number"], record["attempt"]) == (failed["number"], 2)
    ]
    assert again["status"] == "ok"
    assert len([record for record in recorded if record["status"] == "ok"]) == 3
    assert leftovers(home, before, [process.pid]) == []


def catches_signals(process: "subprocess.Popen[str]") -> bool:
    """Whether the run has come to installing its handlers: Python alone catches no SIGTERM."""
    if process.poll() is not None:
        return True
    caught = Path(f"/proc/{process.pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def kill_at_a_random_moment(
    words: list[str], home: Path, seconds: float, number: signal.Signals
) -> "subprocess.Popen[str]":
    """Start a run, wait, and send it (and for an interruption its whole group) the signal."""
    process = whole_tool.start(*words, home=home)
    if number == signal.SIGINT:
        wait_for(lambda: catches_signals(process), "the start of the run")
    time.sleep(seconds)
    if process.poll() is None:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    return process


def survives_kills(home: Path, folder: Path, storage: str, kills: int, seed: int) -> None:
    """SIGKILL until `kills` have hit, resume to the end, and find nothing left."""
    before = whole_tool.socket_folders()
    moments = random.Random(seed)
    hits, run, pids = 0, 0, []
    while hits < kills:
        run += 1
        out = folder / f"run-{run}"
        options = ["--storage", storage, "--blocks", "3", "--quiet"]
        words = words_of("full-scan:only=sum", out, *options)
        while True:
            process = kill_at_a_random_moment(words, home, moments.uniform(0.5, 9), signal.SIGKILL)
            output, said = process.communicate(timeout=whole_tool.TIMEOUT_S)
            pids.append(process.pid)
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, said
                break
            hits += 1
            if (out / "experiment.json").exists():
                words = ["resume", str(out), "--json", "--quiet"]
            if hits >= kills:
                finished = whole_tool.run(*words, home=home)
                assert finished.returncode == 0, finished.stderr
                output = finished.stdout
                break
        result = json.loads(output)
        assert result["blocks"] == 3
        assert result["failures"] == 0
        recorded = whole_tool.trials(out)
        assert [record["number"] for record in recorded if record["status"] == "ok"] == list(range(9))
        assert list(out.rglob(".*")) == []
    assert leftovers(home, before, pids) == []


@pytest.mark.slow
def test_killed_at_random_moments_on_the_hosts_disk(new_home: Path, tmp_path: Path) -> None:
    survives_kills(new_home, tmp_path, "host", MOMENTS_BY_DEFAULT // 2, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["loop:read_mb_s=200", VOLUME])
def test_killed_at_random_moments_on_a_device_of_its_own(
    storage: str, new_home: Path, tmp_path: Path, require: Callable[..., None]
) -> None:
    """Servers in cgroups on a mounted loop device, or on a volume: all of it is gone after the next start."""
    require("loop", "cgroup-limits", "root", *(["fuse"] if storage == VOLUME else []))
    survives_kills(new_home, tmp_path, storage, MOMENTS_BY_DEFAULT // 2, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["postmaster", "volume"])
def test_a_process_killed_in_a_trial_on_a_volume(
    victim: str, home: Path, tmp_path: Path, slow: SlowSql, require: Callable[..., None]
) -> None:
    """The trial is recorded as failed with its reason, and nothing is left."""
    require("loop", "fuse", "root")
    before = whole_tool.socket_folders()
    out = tmp_path / "out"
    words = words_of(slow.workload, out, "--blocks", "1", "--storage", VOLUME)
    process = whole_tool.start(*words, home=home)
    wait_for(lambda: (out / "trials" / "000000" / "attempt-1").exists(), "the first trial", process=process)
    with held_in_a_query(home, slow, process) as postmaster:
        (server,) = serving_below(home)
        os.kill(postmaster if victim == "postmaster" else server, signal.SIGKILL)
    output, said = process.communicate(timeout=whole_tool.TIMEOUT_S)
    assert "Traceback" not in said
    failed = [record for record in whole_tool.trials(out) if record["status"] == "failed"]
    assert failed and failed[0]["attempt"] == 1, (said, whole_tool.trials(out))
    if victim == "postmaster":
        assert re.search("server|postmaster", failed[0]["reason"]), failed[0]["reason"]
        assert (process.returncode, json.loads(output)["blocks"]) == (0, 1), said
    else:
        ended = "serves the imitated volume has ended"
        assert ended in failed[0]["reason"] and ended in said.splitlines()[-1]
        assert process.returncode == 1, said
    wait_for(lambda: not Path(f"/proc/{server}/fd/0").exists(), "the end of the volume's process")
    assert leftovers(home, before, [process.pid]) == []


def serving_below(home: Path) -> list[int]:
    """The processes that serve volumes of this home, by the sources of their mounts."""
    ours = [mount for mount in mounts() if mount.kind == "fuse.pgassay" and home in mount.point.parents]
    return [int(mount.source.rpartition(":")[2]) for mount in ours]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("storage", ["host", "loop:read_mb_s=200"])
def test_killed_at_30_random_moments(
    storage: str, new_home: Path, tmp_path: Path, require: Callable[..., None]
) -> None:
    if storage != "host":
        require("loop", "cgroup-limits", "root")
    survives_kills(new_home, tmp_path, storage, MOMENTS, seed=3)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_in_a_trial(number: signal.Signals, home: Path, tmp_path: Path, slow: SlowSql) -> None:
    """Exit status 130, the trial kept as interrupted, nothing left; a second signal harms nothing."""
    before = whole_tool.socket_folders()
    out = tmp_path / "out"
    words = words_of(slow.workload, out, "--blocks", "1")
    process = whole_tool.start(*words, home=home)
    wait_for(lambda: (out / "trials" / "000000" / "attempt-1").exists(), "the first trial", process=process)
    with held_in_a_query(home, slow, process):
        os.killpg(process.pid, number)
        time.sleep(0.05)
        os.killpg(process.pid, number)
    output, said = process.communicate(timeout=whole_tool.TIMEOUT_S)
    assert process.returncode == 130, said
    assert output == ""
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("pgassay: interrupted")
    assert f"pgassay resume {out}" in said
    assert leftovers(home, before, [process.pid]) == []
    assert whole_tool.trials(out)[-1]["status"] == "interrupted"
    assert json.loads((out / "state.json").read_bytes())["stopped"] == "interrupted"
    result = whole_tool.result_of(whole_tool.run("resume", out, "--json", "--quiet", home=home))
    assert result["blocks"] == 1
    assert result["failures"] == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_interrupted_at_random_moments(new_home: Path, tmp_path: Path) -> None:
    home = new_home
    before = whole_tool.socket_folders()
    moments = random.Random(5)
    for turn in range(20):
        out = tmp_path / f"run-{turn}"
        words = words_of("full-scan:only=sum", out, "--blocks", "500", "--margin", "0.1%", "--quiet")
        process = kill_at_a_random_moment(words, home, moments.uniform(0, 12), signal.SIGINT)
        _, said = process.communicate(timeout=whole_tool.TIMEOUT_S)
        assert process.returncode == 130, said
        assert "Traceback" not in said
        assert leftovers(home, before, [process.pid]) == []


def test_ctrl_c_in_a_terminal(home: Path, tmp_path: Path, slow: SlowSql) -> None:
    """Typed in a pty while the live view is up: the cursor comes back, and the last line is the sentence."""
    before = whole_tool.socket_folders()
    out = tmp_path / "out"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable,
            [*whole_tool.COMMAND, *words_of(slow.workload, out, "--blocks", "3")],
            whole_tool.environment(home, TERM="xterm", COLUMNS="80", LINES="24"),
        )
    os.set_blocking(terminal, False)
    shown = b""

    def in_first_trial() -> bool:
        nonlocal shown
        shown += read_all(terminal)
        assert os.waitpid(pid, os.WNOHANG)[0] == 0, shown
        return b"trial 1" in shown and bool(servers_below(home / "data" / "work"))

    wait_for(in_first_trial, "the first trial")
    with held_in_a_query(home, slow):
        os.write(terminal, b"\x03")

    def ended() -> bool:
        nonlocal shown, status
        shown += read_all(terminal)
        done, status = os.waitpid(pid, os.WNOHANG)
        return done != 0

    status = 0
    wait_for(ended, "the end")
    shown += read_all(terminal)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l") >= 0
    assert b"pgassay: interrupted" in shown
    assert b"Traceback" not in shown
    assert leftovers(home, before, [pid]) == []


def read_all(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 20)
    except (BlockingIOError, OSError):
        return b""
