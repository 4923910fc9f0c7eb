"""What dead owners left is removed; what is not theirs is never touched."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgassay.environment.cleanup import registry
from pgassay.environment.home import home as pgassay_home
from pgassay.errors import UsageError
from pgassay.storage import imitated_device

DIES = """
import os, signal, sys
from pgassay.environment.cleanup import registry
registry.register(sys.argv[1], **eval(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pgassay-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("PGASSAY_HOME", folder)
        yield pgassay_home()


def left_by_a_dead_process(kind: str, **details: object) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, kind, repr(details)])
    assert done.returncode == -9


def entries(home: Path) -> list[Path]:
    return sorted((home / "registry").iterdir())


def test_a_registered_resource_is_on_disk_and_private(home: Path) -> None:
    token = registry.register("folder", path="/tmp/pgassay-x")
    assert entries(home) == [token.file]
    assert token.file.stat().st_mode & 0o777 == 0o600
    assert (home / "registry").stat().st_mode & 0o777 == 0o700
    document = json.loads(token.file.read_text())
    assert document["owner"]["pid"] == os.getpid()
    registry.forget(token)
    registry.forget(token)
    assert entries(home) == []


def test_a_living_owner_keeps_its_folder(home: Path) -> None:
    folder = home / "data" / "scratch"
    token = registry.register("folder", path=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    assert registry.sweep() == []
    assert folder.is_dir()
    assert entries(home) == [token.file]


def test_a_dead_owners_folder_goes(home: Path) -> None:
    folder = home / "data" / "scratch"
    (folder / "below").mkdir(parents=True, exist_ok=True)
    (folder / "below" / "file").write_text("x")
    left_by_a_dead_process("folder", path=str(folder))
    (sentence,) = registry.sweep()
    assert str(folder) in sentence
    assert not folder.exists()
    assert entries(home) == []
    assert registry.sweep() == []


def test_a_folder_in_use_by_a_living_process_stays(home: Path) -> None:
    folder = home / "data" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    left_by_a_dead_process("folder", path=str(folder))
    registry.register("folder", path=str(folder))
    assert registry.sweep() == []
    assert folder.is_dir()


def test_folders_elsewhere_are_left_alone(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.mkdir()
    link = home / "data" / "link"
    link.symlink_to(tmp_path)
    for path in (elsewhere, link, link / "precious", home, home / "data", home / "builds" / ".." / "data"):
        left_by_a_dead_process("folder", path=str(path))
    sentences = registry.sweep()
    assert len(sentences) == 5 + 1  # home/builds/../data is no path that pgassay writes
    assert elsewhere.is_dir()
    assert (home / "data").is_dir()
    assert link.is_symlink()


SCRATCH = """
import os, signal
from pgassay.environment.cleanup.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("home")
def test_a_scratch_folder_below_another_temporary_folder_goes_too(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRATCH], env=environment, capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert left.parent == tmp_path and left.is_dir()
    # The next start may have another $TMPDIR.
    (sentence,) = registry.sweep()
    assert sentence.startswith(f"Removed the folder {left}")
    assert not left.exists()


def test_a_folder_with_a_link_inside_does_not_lead_out(home: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    folder = home / "data" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "out").symlink_to(tmp_path)
    left_by_a_dead_process("folder", path=str(folder))
    registry.sweep()
    assert not folder.exists()
    assert (tmp_path / "precious").read_text() == "x"


def test_after_a_reboot_only_files_are_removed(home: Path) -> None:
    folder = home / "data" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    left_by_a_dead_process("folder", path=str(folder))
    # Another boot's server: a process that now has its pid must not be looked at.
    left_by_a_dead_process("server", data_directory=str(folder))
    left_by_a_dead_process("cgroup", paths=["/sys/fs/cgroup/precious"])
    for file in entries(home):
        document = json.loads(file.read_text())
        document["owner"]["boot_id"] = "another"
        file.write_text(json.dumps(document))
    (sentence,) = registry.sweep()
    assert "Removed the folder" in sentence
    assert entries(home) == []


def test_a_process_of_the_same_pid_is_not_the_owner(home: Path) -> None:
    folder = home / "data" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    token = registry.register("folder", path=str(folder))
    document = json.loads(token.file.read_text())
    document["owner"]["start_ticks"] -= 1
    token.file.write_text(json.dumps(document))
    assert len(registry.sweep()) == 1
    assert not folder.exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 99}', '{"format": 1, "kind": "shell", "owner": {}, "details": {}}', "null"],
)
def test_a_broken_entry_is_reported_and_harms_nothing(home: Path, text: str) -> None:
    folder = home / "data" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    left_by_a_dead_process("folder", path=str(folder))
    (home / "registry" / "folder-1-0.json").write_text(text)
    sentences = registry.sweep()
    assert any("delete it" in sentence for sentence in sentences)
    assert not folder.exists()


@pytest.mark.usefixtures("home")
def test_details_that_do_not_fit_are_reported() -> None:
    left_by_a_dead_process("folder", file="/tmp/pgassay-x")
    left_by_a_dead_process("read_ahead", disk="../../etc", value_kb=1)
    left_by_a_dead_process("cgroup", paths=["/etc"])
    left_by_a_dead_process("mount", path="/proc")
    sentences = registry.sweep()
    assert any("does not say what to remove" in sentence for sentence in sentences)
    assert any("/etc is not a cgroup" in sentence for sentence in sentences)
    assert any("/proc is not below" in sentence for sentence in sentences)


def test_what_the_system_refuses_keeps_nothing_else_from_going(home: Path, tmp_path: Path) -> None:
    """Every command begins with a sweep: a disk that fails must not end them all."""
    probe = tmp_path / f"pgassay-probe-{'0' * 16}"
    probe.write_text("no folder, so that it can't be listed")
    folder = home / "data" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    left_by_a_dead_process("probe", path=str(probe))
    left_by_a_dead_process("folder", path=str(folder))
    sentences = registry.sweep()
    assert any(f"could not be removed: Not a directory ({probe})" in sentence for sentence in sentences)
    assert not folder.exists()
    assert [entry.name.partition("-")[0] for entry in entries(home)] == ["probe"]


def test_a_registry_that_others_may_write_is_refused(home: Path) -> None:
    registry.register("folder", path="/tmp/pgassay-x")
    (home / "registry").chmod(0o777)
    with pytest.raises(UsageError, match="chmod 700"):
        registry.sweep()


def test_an_unfinished_entry_of_a_dead_process_goes(home: Path) -> None:
    registry.sweep()
    (home / "registry" / "folder-999999999-abcd.tmp").write_text("{")
    registry.sweep()
    assert entries(home) == []


def test_the_folder_below_an_imitated_volume_is_written_down_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing it down takes as long as the disk does, in which somebody may press Ctrl-C."""

    def interrupted(_kind: str, **_details: str) -> None:
        raise KeyboardInterrupt

    (tmp_path / "data").mkdir()
    monkeypatch.setattr(imitated_device, "home", lambda: tmp_path)
    monkeypatch.setattr(registry, "register", interrupted)
    with pytest.raises(KeyboardInterrupt):
        imitated_device.ServedImage(tmp_path / "root", 1 << 29, 0, None)
    assert not [*(tmp_path / "data" / "work").iterdir()]
