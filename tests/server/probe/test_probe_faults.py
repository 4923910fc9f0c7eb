"""What may go wrong with a probe: each says one sentence, and nothing stays behind."""

import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.environment.cgroup.group import Cgroup, memory_limit
from pgassay.environment.linux.device import device_of
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.probe import CellSpec
from pgassay.native.probe import NativeProbe, ProbeError
from pgassay.probe.analysis.probe_plan import KB
from pgassay.probe.measuring import probe_location
from pgassay.probe.measuring.facilities import refusal, try_facilities
from pgassay.probe.measuring.probe_files import (
    CACHED_BYTES_MIN,
    COLD_BYTES_MIN,
    Files,
    given_file,
    make_files,
)
from pgassay.probe.measuring.runner import Runner

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
MB = 1 << 20


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on the machine's own disk (pytest's may lie in memory)."""
    with whole_tool.private_home() as folder:
        (folder / "disk").mkdir()
        yield folder / "disk"


def refused(capsys: Any, *words: str | Path) -> str:
    return whole_tool.assert_one_sentence(whole_tool.run_here(capsys, "probe", *words), 2)


def test_a_path_that_is_no_folder_is_refused(disk: Path, capsys: Any) -> None:
    assert "does not exist" in refused(capsys, disk / "missing")
    (disk / "file").write_bytes(b"x")
    assert "--file" in refused(capsys, disk / "file")
    assert "too few to measure" in refused(capsys, disk, "--file", disk / "file")
    assert "is not a file" in refused(capsys, disk, "--file", disk)
    assert "at least 3" in refused(capsys, disk, "--seconds", "1")


def test_what_could_not_be_written_at_the_end_is_refused_at_the_start(disk: Path, capsys: Any) -> None:
    assert "does not exist" in refused(capsys, disk, "--html", disk / "none" / "page.html")
    (disk / "file").write_bytes(b"{}")
    assert "name a folder" in refused(capsys, disk, "--out", disk / "file")
    assert "has no probe result" in refused(capsys, disk, "--compare", disk / "file")
    assert "--markdown cannot be used with --json" in refused(capsys, disk, "--json", "--markdown")
    assert "--max-time needs --prove" in refused(capsys, disk, "--max-time", "1m")
    assert re.search(r"17\.\d+ does not have", refused(capsys, disk, "--prove", "--pg", "17"))
    assert "16 and newer, and not 9.1" in refused(capsys, disk, "--pg", "9.1", "--seconds", "3")
    assert sorted(path.name for path in disk.iterdir()) == ["file"]


@contextmanager
def mounted(point: Path, *words: str | Path) -> Iterator[Path]:
    point.mkdir()
    subprocess.run(["mount", *map(str, words), str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_memory_is_no_disk(disk: Path, capsys: Any, require: Callable[..., None]) -> None:
    require("root")
    with mounted(disk / "memory", "-t", "tmpfs", "tmpfs") as folder:
        assert "tmpfs, which is in memory" in refused(capsys, folder)
        file = folder / "data"
        file.write_bytes(bytes(20 * MB))
        assert "tmpfs, which is in memory" in refused(capsys, disk, "--file", file)


def test_a_read_only_mount_is_refused(disk: Path, capsys: Any, require: Callable[..., None]) -> None:
    require("root")
    (disk / "data").mkdir()
    with mounted(disk / "bound", "--bind", disk / "data") as folder:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        assert "read-only" in refused(capsys, folder)


@contextmanager
def small_file_system(folder: Path, size_mb: int) -> Iterator[Path]:
    """An ext4 of its own on a loop device; its image is `folder/image`."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(size_mb * MB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    with mounted(folder / "small", "-o", "loop", image) as point:
        yield point


def test_no_space_is_said_with_its_size(disk: Path, capsys: Any, require: Callable[..., None]) -> None:
    require("loop", "root")
    with small_file_system(disk, 100) as folder:
        complaint = refused(capsys, folder)
        assert "MB free" in complaint and "free " in complaint
        assert [path.name for path in folder.iterdir()] == ["lost+found"]


def test_a_limit_of_file_sizes_is_said_before_anything_is_written(disk: Path, capsys: Any) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * MB, limits[1]))
    try:
        assert "ulimit -f" in refused(capsys, disk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(disk.iterdir()) == []


def test_a_slow_disk_gets_small_files(disk: Path) -> None:
    """The time of a probe is for measuring: a second's worth of writing decides how much is written."""

    class Slow(NativeProbe):
        mb_s = 5.0

        def make(self, file: Path, size_bytes: int, progress: Any = None) -> dict[str, Any]:
            return super().make(file, size_bytes, progress) | {"mb_s": self.mb_s}

    with Slow() as native:
        slow = make_files(native, disk, 60.0, lambda *_: None)
        for file in (slow.cold, slow.cached):
            file.unlink()
        native.mb_s = 25.0
        fast = make_files(native, disk, 60.0, lambda *_: None)
    assert (slow.cold_bytes, slow.cached_bytes) == (COLD_BYTES_MIN, CACHED_BYTES_MIN)
    assert fast.cold_bytes > slow.cold_bytes and fast.cached_bytes > slow.cached_bytes
    assert sorted(path.name for path in disk.iterdir()) == ["cached", "cold"]
    assert fast.cold.stat().st_size == fast.cold_bytes


def cell(**changes: object) -> CellSpec:
    base = {"engine": "sync", "cache": "direct", "pattern": "sequential", "request_bytes": 8 * KB, "depth": 1}
    return CellSpec.model_validate(base | changes)


def runner(native: NativeProbe, file: Path, cell_s: float = 3.0) -> Runner:
    where = probe_location.ProbeLocation(file, None, device_of(file), "ext4")
    return Runner(native, given_file(file), where, cell_s)


def test_a_file_that_shrinks_ends_the_probe(disk: Path) -> None:
    file = disk / "data"
    file.write_bytes(bytes(64 * MB))
    shrink = threading.Timer(0.5, os.truncate, (file, MB))
    with NativeProbe() as native:
        running = runner(native, file)
        shrink.start()
        with pytest.raises(MeasurementError, match="became shorter while it was read"):
            running.run(cell(engine="sync", pattern="random", cache="cached", depth=1))
    shrink.join()


def test_a_device_that_fails_ends_the_probe(disk: Path, require: Callable[..., None]) -> None:
    """A real error of a device: the image below a loop device loses its end."""
    require("loop", "root")
    with small_file_system(disk, 96) as folder:
        file = folder / "data"
        file.write_bytes(os.urandom(MB) * 64)
        subprocess.run(["sync", "--file-system", str(folder)], check=True)
        with NativeProbe() as native:
            native.evict(file)
            os.truncate(disk / "image", 24 * MB)
            with pytest.raises(MeasurementError, match=r"device failed while it was read .*dmesg"):
                runner(native, file).run(cell(pattern="random"))
            # The conversation goes on.
            with pytest.raises(ProbeError):
                native.facts(folder / "missing")
        # So that what is left of the file system can be unmounted cleanly.
        os.truncate(disk / "image", 96 * MB)


REFUSED = """
import sys
sys.path[:0] = [{tests!r}, {package!r}]
from pathlib import Path
from pgassay.environment.linux.device import device_of
from pgassay.probe.measuring import probe_location as place
from pgassay.native.probe import NativeProbe
from pgassay.probe.measuring.facilities import try_facilities
from pgassay.probe.measuring.probe_files import given_file
{before}
file = Path(sys.argv[1])
where = place.ProbeLocation(file, None, device_of(file), "ext4")
with NativeProbe() as native:
    have, missing = try_facilities(native, given_file(file), where, execute_ns=0, vary_read_ahead=False)
print(have.engines, missing)
"""
SECCOMP = f"""
import importlib.util
path = {str(Path(__file__).parents[1] / "faults" / "test_faults_machine.py")!r}
spec = importlib.util.spec_from_file_location("faults", path)
faults = importlib.util.module_from_spec(spec)
spec.loader.exec_module(faults)
faults.forbid_io_uring()
"""


def in_a_child(file: Path, before: str) -> str:
    tests, package = Path(__file__).parents[2], Path(__file__).parents[3] / "python"
    source = REFUSED.format(tests=str(tests), package=str(package), before=before)
    finished = subprocess.run(
        [sys.executable, "-c", source, str(file)], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_refused_io_uring_is_named_and_the_rest_goes_on(disk: Path, require: Callable[..., None]) -> None:
    require("io_uring")
    file = disk / "data"
    file.write_bytes(os.urandom(MB) * 20)
    said = in_a_child(file, SECCOMP)
    assert "'sync'" in said and "'worker'" in said
    assert "'io_uring':" in said and "seccomp" in said
    assert "'io_uring'," not in said.split("{")[0]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ProbeError("io_uring_setup: EMFILE", "io-uring-refused", 24), "ulimit -n"),
        (ProbeError("io_uring_setup: ENOMEM", "io-uring-refused", 12), "ulimit -l"),
        (ProbeError("io_uring_setup: ENOSYS", "io-uring-refused", 38), "built without io_uring"),
        (ProbeError("opening: too many files", "too-many-files", None), "ulimit -n"),
        (ProbeError("io_uring_setup: EPERM", "io-uring-refused", 1), "seccomp|sysctl"),
    ],
)
def test_each_refusal_has_its_remedy(error: ProbeError, remedy: str) -> None:
    import re

    assert re.search(remedy, refusal("io_uring", error))


def test_a_folder_of_somebody_elses_is_never_removed(disk: Path) -> None:
    from pgassay.environment.cleanup.removal import remove_probe_folder

    named = disk / f"{probe_location.PROBE_PREFIX}0123456789abcdef"
    (named / "inner").mkdir(parents=True)
    for folder in (named, disk, named / "inner"):
        with pytest.raises(UsageError):
            remove_probe_folder(folder)
    (named / "inner").rmdir()
    link = disk / f"{probe_location.PROBE_PREFIX}fedcba9876543210"
    link.symlink_to(named)
    with pytest.raises(UsageError):
        remove_probe_folder(link)
    (named / "cold").write_bytes(b"x")
    assert remove_probe_folder(named)
    assert not remove_probe_folder(named)


def test_what_works_here_is_found_by_trying(disk: Path) -> None:
    file = disk / "data"
    file.write_bytes(os.urandom(MB) * 20)
    where = probe_location.ProbeLocation(file, None, device_of(file), "ext4")
    with NativeProbe() as native:
        have, missing = try_facilities(native, given_file(file), where, execute_ns=100, vary_read_ahead=True)
    assert {"null", "sync", "worker"} <= set(have.engines)
    assert have.cold and not have.can_write
    assert set(missing) <= {"io_uring", "hybrid", "direct"}


def test_cold_cells_are_cold_and_cached_ones_cached(disk: Path) -> None:
    """By the kernel's own account of what the device delivered."""
    file = disk / "data"
    file.write_bytes(os.urandom(MB) * 32)
    files: Files = given_file(file)
    with NativeProbe() as native:
        running = Runner(
            native, files, probe_location.ProbeLocation(file, None, device_of(file), "ext4"), 0.2
        )
        cold, cached = (
            cell(cache="cold", request_bytes=128 * KB),
            cell(cache="cached", request_bytes=128 * KB),
        )
        for spec in (cold, cached, cold):
            running.run(spec)
    runs = {each.spec: each.runs for each in running.cells}
    assert len(runs[cold]) == 2 and len(runs[cached]) == 1
    for made in runs[cold]:
        assert made.resident_bytes_before == 0
        assert made.bytes <= files.cold_bytes
        assert made.device_read_bytes is not None and made.device_read_bytes >= 0.9 * made.bytes
    assert runs[cached][0].device_read_bytes == 0


CAPPED_MB = 192
IN_A_GROUP = """
import sys
from pathlib import Path
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.linux.device import device_of
from pgassay.model.probe import CellSpec
from pgassay.probe.measuring import probe_location as place
from pgassay.native.probe import NativeProbe
from pgassay.probe.measuring.probe_files import Files, given_file
from pgassay.probe.measuring.runner import Runner

file = Path(sys.argv[1])
small = given_file(file)
large = Files(file, small.cold_bytes, file, small.cold_bytes)
print(usable_memory_bytes() >> 20, small.cached_bytes >> 20)
for files in (large, small):
    with NativeProbe() as native:
        native.evict(file)
        running = Runner(native, files, place.ProbeLocation(file, None, device_of(file), "ext4"), 0.1)
        running.run(CellSpec(engine="sync", cache="cached", pattern="sequential", verify=False))
    print(len(running.cells), len(running.refused), *running.warnings)
"""


def test_what_a_capped_page_cache_does_not_keep_is_not_called_cached(
    disk: Path, require: Callable[..., None]
) -> None:
    """In a container the cap is the memory: the file is chosen by it, and a larger one is refused."""
    require("cgroup-memory")
    file = disk / "data"
    file.write_bytes(os.urandom(MB) * 2 * CAPPED_MB)
    group = Cgroup.create("test-probe", memory_limit(CAPPED_MB * MB))
    try:
        command = [*group.join_command(), sys.executable, "-c", IN_A_GROUP, str(file)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    finally:
        group.remove()
    assert said[0] == f"{CAPPED_MB} {CAPPED_MB // 8}"
    assert said[1].startswith("0 1 Cached reads are left out: the page cache does not keep the 384 MB")
    assert said[2] == "1 0"
