"""Whether the process of a fleet's folder runs: real processes, also one that was killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import dask
import pytest

from pgassay.errors import UsageError
from pgassay.fleet.cluster import nodes
from pgassay.fleet.cluster.fleet_file import NODES
from pgassay.fleet.cluster.member import remove_dead
from pgassay.fleet.cluster.node_folder import NodeFolder

HELD = """
import sys, time
from pathlib import Path
from pgassay.fleet.cluster.node_folder import NodeFolder
with NodeFolder(Path(sys.argv[1])).running():
    print("runs", flush=True)
    time.sleep(600)
"""


def test_a_node_leaves_no_folder_in_the_system_s_temporary_one(tmp_path: Path) -> None:
    with dask.config.set({}):
        nodes.configure(temporary=tmp_path)
        assert dask.config.get("temporary-directory") == str(tmp_path)
    assert not (Path(tempfile.gettempdir()) / "dask-scratch-space").exists()


def as_of_another_container(folder: Path) -> None:
    """What a process of another pid namespace would have written: its pid means nothing here."""
    document = json.loads((folder / "process.json").read_text())
    (folder / "process.json").write_text(json.dumps(document | {"pid_namespace": "pid:[1]"}))


def test_a_killed_process_runs_no_more_wherever_its_pid_was(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HELD, tmp_path], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None and held.stdout.readline() == "runs\n"
        owner = folder.owner()
        assert owner is not None and owner.pid == held.pid
        as_of_another_container(tmp_path)
        assert folder.owner() is not None
        with pytest.raises(UsageError, match="another container"):
            folder.end(1.0)
        assert held.poll() is None
        held.send_signal(signal.SIGKILL)
    assert (tmp_path / "process.json").is_file()
    assert folder.owner() is None
    assert folder.end(1.0) is False


def test_a_record_without_a_lock_is_believed(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    with folder.running():
        assert folder.owner() is not None
        as_of_another_container(tmp_path)
        (tmp_path / "lock").unlink()
        assert folder.owner() is not None
    assert folder.owner() is None


def test_what_no_process_of_a_fleet_uses_any_more_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of a fleet whose worker is killed, of one that is about to start, and of one that never did."""
    monkeypatch.setenv("PGASSAY_HOME", str(tmp_path))
    names = ("killed/worker", "killed/other", "starting/scheduler", "given-up/scheduler")
    worker, other, begun, never = (NodeFolder(tmp_path / NODES / name) for name in names)
    for folder in (worker, other, begun, never):
        folder.identity.folder.mkdir(parents=True)
    given_up = never.path
    for path in (given_up, given_up.parent):
        os.utime(path, (0, 0))
    command = [sys.executable, "-c", HELD, worker.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None and held.stdout.readline() == "runs\n"
        (sentence,) = remove_dead()
        assert "fleet given-up, of which nothing runs here" in sentence and not given_up.parent.exists()
        held.send_signal(signal.SIGKILL)
    (sentence,) = remove_dead()
    assert "fleet killed," in sentence and not worker.path.parent.exists()
    assert begun.path.is_dir() and remove_dead() == []
