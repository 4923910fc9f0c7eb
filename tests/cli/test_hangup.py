"""SIGHUP, when the terminal closes: ends a command like Ctrl-C, unless it was started by nohup."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOHUP = """import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])"""


def started(file: Path, *prefix: str) -> "subprocess.Popen[str]":
    """`pgassay run` of a named pipe: it waits in the middle of the command until somebody writes."""
    os.mkfifo(file)
    words = [*prefix, sys.executable, "-m", "pgassay.cli.main", "run", str(file)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)


def writer(file: Path, process: "subprocess.Popen[str]") -> int:
    """Open the pipe for writing, which succeeds once the command opens it; returns when it waits for words.

    A signal that came between the two would be looked at by Python after the first words only.
    """
    deadline = time.monotonic() + 120
    pipe = None
    while time.monotonic() < deadline:
        if pipe is None:
            with contextlib.suppress(OSError):
                pipe = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
        elif has_open(process.pid, file) and state(process.pid) == "S":
            return pipe
        time.sleep(0.02)
    process.kill()
    raise AssertionError("the command doesn't read its file")


def has_open(pid: int, file: Path) -> bool:
    """Whether a file descriptor of the process is this file."""
    return any(link.readlink() == file for link in Path(f"/proc/{pid}/fd").iterdir())


def state(pid: int) -> str:
    """The letter of the process's state: S while it sleeps in a system call (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_hangup_ends_the_command(tmp_path: Path) -> None:
    with started(tmp_path / "pipe.toml") as process:
        pipe = writer(tmp_path / "pipe.toml", process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) == 130
        os.close(pipe)


def test_nohup_is_respected(tmp_path: Path) -> None:
    with started(tmp_path / "pipe.toml", sys.executable, "-c", NOHUP) as process:
        pipe = writer(tmp_path / "pipe.toml", process)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        os.write(pipe, b"not TOML")
        os.close(pipe)
        assert process.wait(120) == 2
        assert process.stderr is not None
        assert "is not valid TOML" in process.stderr.read()
