"""A recording of perf, whatever becomes of the process that made it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pgassay.environment.cleanup import registry
from pgassay.environment.linux.perf import Perf, PerfRecording

DIES = """
import os, signal
from pgassay.environment.linux.perf import Perf, PerfRecording
recording = PerfRecording(Perf("perf", "6.1", True), [1], 99, "none")
print(recording._data, flush=True)
recording._data.write_text("samples")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_recording_of_a_killed_process_is_removed_by_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="pgassay-test-") as home:
        Path(home).chmod(0o755)
        monkeypatch.setenv("PGASSAY_HOME", home)
        done = subprocess.run([sys.executable, "-c", DIES], capture_output=True, text=True)
        data = Path(done.stdout.strip())
        assert data.is_file()
        registry.sweep()
        assert not data.parent.exists()


def test_a_closed_recording_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="pgassay-test-") as home:
        Path(home).chmod(0o755)
        monkeypatch.setenv("PGASSAY_HOME", home)
        recording = PerfRecording(Perf("perf", "6.1", True), [1], 99, "none")
        folder = recording._data.parent
        assert folder.is_dir()
        recording.close()
        assert not folder.exists()
        assert not list((Path(home) / "registry").glob("*.json"))
