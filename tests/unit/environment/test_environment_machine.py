"""Facts of the machine, its devices and its page cache, read from the real kernel."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beside_others import shared_machine
from pgassay.environment.linux import device, libc, machine, mounts, pagecache, settle
from pgassay.errors import MeasurementError
from pgassay.model.storage import StorageSpec

FILE_BYTES = 8 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "16384"
    path.write_bytes(os.urandom(FILE_BYTES))
    return path


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pgassay-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("PGASSAY_HOME", folder)
        yield Path(folder)


@pytest.mark.usefixtures("home")
def test_facts_can_be_stored_and_agree_with_the_system() -> None:
    facts = json.loads(json.dumps(machine.facts()))
    assert facts["kernel"] == subprocess.run(["uname", "-r"], capture_output=True, text=True).stdout.strip()
    assert facts["cores_online"] == os.cpu_count()
    assert abs(facts["memory_bytes"] - machine._meminfo_bytes("MemTotal")) < 2**30
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_the_machine_id_is_stable_and_opaque(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine.machine_id()
    assert first == machine.machine_id()
    assert len(first) == 16
    raw = Path("/etc/machine-id")
    if raw.exists():
        assert first not in raw.read_text()
    monkeypatch.setattr(machine, "_MACHINE_ID_FILES", (home / "absent",))
    without = machine.machine_id()
    assert without != first
    assert without == machine.machine_id()


def test_cpu_times_grow_with_work() -> None:
    before = machine.cpu_times()
    started = time.process_time()
    while time.process_time() - started < 0.3:
        pass
    after = machine.cpu_times()
    assert before is not None
    assert after is not None
    assert (after - before).user_s + (after - before).system_s > 0.2
    assert (after - before).steal_s >= 0


def test_eviction_empties_and_loading_fills(file: Path) -> None:
    assert pagecache.resident_bytes([file]) == FILE_BYTES
    pagecache.evict([file])
    assert pagecache.resident_bytes([file]) == 0
    with file.open("rb") as opened:
        opened.read(1)
    assert 0 < pagecache.resident_bytes([file]) <= FILE_BYTES
    assert pagecache.load([file]) == FILE_BYTES
    assert pagecache.resident_bytes([file]) == FILE_BYTES


def test_dirty_pages_are_written_before_they_are_evicted(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"dirty")
    pagecache.evict([file])
    assert pagecache.resident_bytes([file]) == 0
    assert file.read_bytes()[:5] == b"dirty"


def test_mincore_agrees_with_cachestat(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pagecache.evict([file])
    with file.open("rb") as opened:
        opened.seek(FILE_BYTES // 2)
        opened.read(1)
    by_cachestat = pagecache.resident_bytes([file])
    monkeypatch.setattr(pagecache, "_has_cachestat", lambda: False)
    assert pagecache.resident_bytes([file]) == by_cachestat
    assert 0 < by_cachestat < FILE_BYTES
    assert pagecache.can_verify()


def test_without_cachestat_and_mincore_it_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagecache, "_has_cachestat", lambda: False)
    monkeypatch.setattr(libc, "has_mincore", lambda: False)
    assert not pagecache.can_verify()
    with pytest.raises(MeasurementError, match="as-is"):
        pagecache.resident_bytes([file])


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="absent"):
        pagecache.evict([tmp_path / "absent"])


def test_relation_files_are_told_from_others(tmp_path: Path) -> None:
    wanted = [
        "base/1/1259",
        "base/1/1259_fsm",
        "base/1/1259_vm",
        "base/5/16384",
        "base/5/16384.1",
        "global/1262",
    ]
    others = [
        "base/1/pg_filenode.map",
        "base/1/PG_VERSION",
        "global/pg_control",
        "base/pgsql_tmp/pgsql_tmp1.0",
    ]
    for name in wanted + others:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    found = [str(path.relative_to(tmp_path)) for path in pagecache.relation_files(tmp_path)]
    assert found == sorted(wanted)
    one = [str(path.relative_to(tmp_path)) for path in pagecache.relation_files(tmp_path, databases=[5])]
    assert one == ["base/5/16384", "base/5/16384.1"]
    assert [path.name for path in pagecache.files_of_relation(tmp_path, "base/1/1259")] == [
        "1259",
        "1259_fsm",
        "1259_vm",
    ]


def test_counters_count_what_is_read(file: Path) -> None:
    below = device.device_of(file)
    if below.name is None:
        pytest.skip("the temporary folder has no block device")
    pagecache.evict([file])
    before = device.counters(below)
    file.read_bytes()
    done = device.counters(below) - before
    assert done.read_bytes >= FILE_BYTES
    assert done.reads >= 1
    facts = device.facts(below)
    assert facts["size_bytes"] > FILE_BYTES
    assert device.disk_of(device.disk_of(below)) == device.disk_of(below)


def test_a_folder_without_a_device() -> None:
    below = device.device_of(Path("/proc"))
    assert below.name is None
    assert device.facts(below) == {"name": None}
    with pytest.raises(MeasurementError, match="no block device"):
        device.counters(below)


def test_mounts_hold_the_root() -> None:
    assert Path("/") in {mount.point for mount in mounts.mounts()}
    mount = mounts.mount_of(Path("/proc/self"))
    assert mount is not None
    assert mount.kind == "proc"


@pytest.mark.parametrize("has_syncfs", [True, False])
def test_syncing_a_tree_leaves_nothing_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_syncfs: bool
) -> None:
    monkeypatch.setattr(libc, "has_syncfs", lambda: has_syncfs)
    shared_machine.set_flushing(flushes=True)
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(os.urandom(1 << 20))
    (tmp_path / "link").symlink_to("nowhere")
    settle.sync_tree(tmp_path)
    files = [path for path in tmp_path.iterdir() if not path.is_symlink()]
    for path in files:  # DONTNEED without an fsync drops clean pages only
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    assert pagecache.resident_bytes(files) == 0


def test_settling_warns_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "SETTLED_BYTES", -1)
    warning = settle.wait_until_settled(0.3)
    assert warning is not None
    assert "something else on this machine writes" in warning


def test_settling_writes_what_is_dirty(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(32 << 20))
    assert settle.unwritten_bytes() > settle.SETTLED_BYTES
    # Others may write on this machine: then it warns each time, but what was dirty here is written meanwhile.
    for _ in range(10):
        settle.wait_until_settled(2)
        descriptor = os.open(tmp_path / "file", os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        if pagecache.resident_bytes([tmp_path / "file"]) == 0:
            return
    pytest.fail("it is not written after 20 s")


def test_limits_are_a_property_of_the_description() -> None:
    assert not StorageSpec().is_limited
    assert StorageSpec(write_iops=1).is_limited
