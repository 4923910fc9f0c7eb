"""Progress: one line per event in a pipe, a live view on a terminal, nothing on standard output."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import report_examples as examples
from pgassay.terminal.progress import PlainProgress

EVENTS = """
import sys, time
sys.path.insert(0, {examples_folder!r})
import report_examples as examples
from pgassay.terminal import live_progress as live
stored = examples.stored(blocks=3)
result = examples.result(stored)
with live.choose() as progress:
    for done in (0.0, 0.5, 1.0):
        progress.stage("loading pgbench data, scale 100", done)
    progress.plan(["io_method=sync", "io_method=worker"], 60, 240, "they resolve 3 %")
    progress.trial_started(0, 0, "arm-003", 9.0)
    progress.trial_ended(0, 0, "ok", "1.84 s")
    progress.trial_started(0, 1, "arm-001", 9.0)
    progress.trial_ended(0, 1, "failed", "the server \\x1b[2J died")
    progress.estimate(result, 600.0)
    progress.message("a warning")
    progress.trial_started(1, 2, "arm-002", 9.0)
    progress.trial_doing("vacuum: \\x1b[2Jaccounts: scanning heap, 45 %")
    print("on standard output")
    sys.stdout.flush()
    time.sleep({seconds})
"""


def program(seconds: float) -> list[str]:
    """A process that goes through the events of an experiment."""
    folder = str(Path(examples.__file__).parent)
    return [sys.executable, "-c", EVENTS.format(examples_folder=folder, seconds=seconds)]


def test_in_a_pipe_every_event_is_a_line() -> None:
    ended = subprocess.run(program(0), capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "on standard output\n"
    lines = ended.stderr.splitlines()
    assert "\x1b" not in ended.stderr
    assert "scanning heap" not in ended.stderr, "too often for a line each"
    assert lines[0] == "loading pgbench data, scale 100"
    assert lines[1].startswith("2 arms: io_method=sync and io_method=worker; at most 60 blocks, 240 trials")
    assert lines[2] == "they resolve 3 %"
    assert "block 1 of at most 60, trial 1: ok 1.84 s" in lines
    assert any("failed the server \\x1b[2J died" in line for line in lines)
    assert any(
        re.match(r"after block 3: io_method=worker: 1\.200× \(1\.1.*\) faster", line) for line in lines
    )
    assert "at most 10 min 00 s left" in lines


class Screen:
    """A child on a pseudo-terminal of 100 columns, with its output so far."""

    def __init__(self, seconds: float) -> None:
        self.primary, secondary = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        environment.pop("NO_COLOR", None)
        self.child = subprocess.Popen(
            program(seconds),
            stdout=subprocess.PIPE,
            stderr=secondary,
            env=environment,
            start_new_session=True,
        )
        os.close(secondary)
        self.seen = ""

    def read_until(self, content: str, timeout_s: float = 120) -> None:
        """Collect output until it holds `content`, or the terminal is closed."""
        limit = time.monotonic() + timeout_s
        while content not in self.seen and time.monotonic() < limit:
            if not select.select([self.primary], [], [], 0.2)[0]:
                continue
            try:
                self.seen += os.read(self.primary, 65536).decode("utf-8", "replace")
            except OSError:
                break
        assert content in self.seen

    def close(self) -> bytes:
        """What the child wrote to standard output, once it has ended."""
        out, _ = self.child.communicate(timeout=120)
        os.close(self.primary)
        return out


@pytest.mark.parametrize("interrupt", [False, True])
def test_on_a_terminal_the_view_is_live_and_leaves_it_as_it_was(interrupt: bool) -> None:
    screen = Screen(seconds=300 if interrupt else 1.5)
    screen.read_until("arm-002")
    if interrupt:
        screen.child.send_signal(signal.SIGINT)
    screen.read_until("\x1b[?25h")
    out = screen.close()
    assert out == b"on standard output\n"
    assert screen.seen.index("\x1b[?25l") < screen.seen.rindex("\x1b[?25h")
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.seen)
    assert "block 2 of at most 60" in shown
    assert "2 trials, 1 not ok" in shown
    assert "trial 3 of 4" in shown
    assert "of about 9 s · vacuum: \\x1b[2Jaccounts: scanning heap, 45 %" in shown
    assert "failed the server \\x1b[2J died" in shown
    assert "they resolve 3 %" in shown
    assert "1.200×" in shown
    assert "twin" not in shown


def test_a_reader_that_left_does_not_stop_the_experiment() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w", buffering=1)
    progress = PlainProgress(stream)
    progress.message("one")
    progress.message("two")
    with pytest.raises(BrokenPipeError):
        os.write(write_end, b"x")
    # The stream still holds the lines: give it somewhere to leave them.
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), write_end)
    stream.close()


def test_a_large_grid_is_counted_instead_of_listed() -> None:
    stored = examples.stored(levels=[f"l{number}" for number in range(12)], blocks=2)
    stream = io.StringIO()
    PlainProgress(stream).estimate(examples.result(stored), None)
    assert stream.getvalue() == "after block 2: 11 faster\n"


def test_an_estimate_is_said_once_per_block() -> None:
    result = examples.result(examples.stored(blocks=4))
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.estimate(result, None)
    said = stream.getvalue()
    progress.estimate(result, None)
    assert said.count("after block 4") == 2
    assert stream.getvalue() == said
