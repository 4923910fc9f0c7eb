"""Loop storage on the real machine: an image, direct I/O, XFS, read-ahead, limits, reflinks."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.home import account
from pgassay.environment.linux import device, pagecache
from pgassay.errors import MeasurementError, UsageError
from pgassay.storage.base import Volume
from pgassay.storage.file_copies import extents
from pgassay.storage.loop import LoopVolume
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide
from storage_fixtures import MB, assert_nothing_left, frozen_directory, private_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

RELATION_MB = 64


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("loop")
    with private_home() as folder:
        yield folder
        assert_nothing_left(folder)


@pytest.fixture(scope="module")
def source(home: Path) -> Path:
    return frozen_directory(home / "frozen", RELATION_MB)


@pytest.fixture
def volume(home: Path) -> Iterator[LoopVolume]:
    provided = provide(parse_storage("loop:size=512MB"), 100 * MB)
    assert isinstance(provided, LoopVolume)
    yield provided
    provided.remove()
    assert_nothing_left(home)


def rate_of(volume: Volume, file: Path, field: str, *dd: str) -> tuple[float, float]:
    """(what the device counted in `field` while a process with the volume's limits read, that per second)."""
    volume.drop_cache([file])
    assert volume.resident_bytes([file]) == 0
    group = Cgroup.create("read", volume.limits_cgroup())
    command = [*group.join_command(), "dd", f"if={file}", "of=/dev/null", *dd]
    try:
        started, before = time.monotonic(), device.counters(volume.device)
        subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
        done: float = getattr(device.counters(volume.device) - before, field)
        return done, done / (time.monotonic() - started)
    finally:
        group.remove()


def test_the_volume_is_what_it_says(volume: LoopVolume, source: Path) -> None:
    working = volume.clone(source, "key", 0)
    facts = volume.facts()
    assert facts["file_system"] == "xfs"
    assert facts["direct_io"] is True
    assert facts["device"]["read_ahead_kb"] == 128
    assert facts["image_bytes"] == 512 * MB
    assert facts["extents"]["key/copy-0"]["bytes"] == RELATION_MB * MB
    assert facts["extents"]["key/copy-0"]["extents"] == extents(working / "base/5/16384") >= 1
    owner = account()
    assert owner is not None
    assert {working.stat().st_uid, (working / "base/5/16384").stat().st_uid} == {owner.uid}
    image = Path(facts["image"])
    assert image.stat().st_blocks * 512 >= image.stat().st_size  # its space can't run out later


def test_reading_leaves_the_image_out_of_the_hosts_page_cache(volume: LoopVolume, source: Path) -> None:
    working = volume.clone(source, "key", 0)
    relation = working / "base/5/16384"
    image = Path(volume.facts()["image"])
    pagecache.evict([image])
    volume.drop_cache([relation])
    before = device.counters(volume.device)
    relation.read_bytes()
    delivered = device.counters(volume.device) - before
    assert delivered.read_bytes >= RELATION_MB * MB
    assert volume.resident_bytes([relation]) == RELATION_MB * MB
    assert pagecache.resident_bytes([image]) < MB


@pytest.mark.parametrize(
    ("limit", "field", "per_second", "amount", "dd"),
    [
        ("read_mb_s=20", "read_bytes", 20 * MB, 30 * MB, ("bs=1M", "count=30")),
        ("read_iops=400", "reads", 400, 600, ("bs=8k", "iflag=direct", "count=600")),
    ],
)
def test_a_process_does_not_read_faster_than_the_limit(
    home: Path,
    source: Path,
    limit: str,
    field: str,
    per_second: float,
    amount: float,
    dd: tuple[str, ...],
    require: Callable[..., None],
) -> None:
    """Without one the same takes a hundredth of the time; how much slower it is depends on the machine."""
    require("cgroup-limits")
    volume = provide(parse_storage(f"loop:size=512MB,{limit}"), 100 * MB)
    try:
        working = volume.clone(source, "key", 0)
        done, rate = rate_of(volume, working / "base/5/16384", field, *dd)
    finally:
        volume.remove()
    assert done >= amount
    # The kernel lets the first slice of a tenth of a second pass.
    assert rate < per_second * 1.2
    assert_nothing_left(home)


def test_working_copies_share_blocks_with_their_base_and_not_with_the_twin(
    volume: LoopVolume, source: Path
) -> None:
    free_before = os.statvfs(volume.root).f_bfree * os.statvfs(volume.root).f_frsize
    first = volume.clone(source, "shared", 0)
    twin = volume.clone(source, "shared", 1)
    taken = free_before - os.statvfs(volume.root).f_bfree * os.statvfs(volume.root).f_frsize
    # Two bases and the WAL of two working copies and two bases; the relation once in each base.
    assert 2 * RELATION_MB * MB < taken < (2 * RELATION_MB + 4 * 16 + 8) * MB

    def blocks(file: Path) -> str:
        shown = subprocess.run(["filefrag", "-v", str(file)], capture_output=True, text=True, check=True)
        return shown.stdout.splitlines()[3].split(":")[2]

    relation = "base/5/16384"
    assert blocks(first / relation) == blocks(first.with_name("base-0") / relation)
    assert blocks(twin / relation) == blocks(first.with_name("base-1") / relation)
    assert blocks(first / relation) != blocks(twin / relation)
    wal = "pg_wal/000000010000000000000001"
    assert blocks(first / wal) != blocks(first.with_name("base-0") / wal)


def test_a_reset_puts_back_what_was_written(volume: LoopVolume, source: Path) -> None:
    working = volume.clone(source, "key", 0)
    assert volume.is_clean(working)
    volume.mark(working, clean=False)
    with (working / "base/5/16384").open("r+b") as file:
        file.write(b"changed")
    (working / "base/5/99999").write_bytes(b"new")
    volume.reset(working, source)
    assert volume.is_clean(working)
    assert (working / "base/5/16384").read_bytes() == (source / "base/5/16384").read_bytes()
    assert not (working / "base/5/99999").exists()


def test_the_content_survives_from_one_run_to_the_next(home: Path, source: Path) -> None:
    inodes = []
    for _ in range(2):
        volume = provide(parse_storage("loop:size=512MB"), 100 * MB)
        try:
            working = volume.clone(source, "key", 0)
            assert volume.is_clean(working)
            inodes.append((working / "base/5/16384").stat().st_ino)
        finally:
            volume.remove()
    assert inodes[0] == inodes[1]
    assert_nothing_left(home)


def test_volumes_that_differ_in_read_ahead_share_the_data(home: Path, source: Path) -> None:
    first = provide(parse_storage("loop:size=512MB,read_ahead=64"), 100 * MB)
    second = provide(parse_storage("loop:size=512MB,read_ahead=1024"), 100 * MB)
    try:
        assert first.clone(source, "key", 0) == second.clone(source, "key", 0)
        assert second.facts()["device"]["read_ahead_kb"] == 1024
        with pytest.raises(MeasurementError, match="instead of 64 kB"):
            first.facts()
        first.activate()
        assert first.facts()["device"]["read_ahead_kb"] == 64
        first.remove()
        second.activate()
        assert second.facts()["device"]["read_ahead_kb"] == 1024
    finally:
        first.remove()
        second.remove()
        second.remove()
    assert_nothing_left(home)


def test_older_data_give_way_to_new(volume: LoopVolume, source: Path) -> None:
    for number in range(6):
        working = volume.clone(source, f"key-{number}", 0)
        assert volume.is_clean(working)
    kept = {path.name for path in volume.root.iterdir()}
    assert "key-5" in kept
    assert "key-0" not in kept


def test_a_volume_that_is_too_small_is_one_sentence(home: Path, source: Path) -> None:
    with pytest.raises(UsageError, match=r"type loop:size=\d+(MB|GB)"):
        provide(parse_storage("loop:size=512MB"), 600 * MB)
    with pytest.raises(UsageError, match="too small for XFS"):
        provide(parse_storage("loop:size=16MB"), MB)
    with pytest.raises(UsageError, match=r"takes 900\.0 TB .* are free there"):
        provide(parse_storage("loop:size=900TB"), MB)
    with pytest.raises(UsageError, match="does not exist"):
        provide(parse_storage("loop:path=/absent/folder"), MB)
    volume = provide(parse_storage("loop:size=320MB"), MB)
    try:
        filler = volume.root / "filler"
        filler.write_bytes(b"x" * (os.statvfs(volume.root).f_bavail * 4096 - 40 * MB))
        with pytest.raises(MeasurementError, match=r"needs .* are free"):
            volume.clone(source, "key", 0)
        assert not (volume.root / "key" / "copy-0").exists()
    finally:
        volume.remove()
    assert_nothing_left(home)


def test_a_damaged_image_is_made_anew(home: Path) -> None:
    volume = provide(parse_storage("loop:size=320MB"), MB)
    image = Path(volume.facts()["image"])
    volume.remove()
    with image.open("r+b") as file:
        file.write(b"\0" * MB)
    volume = provide(parse_storage("loop:size=320MB"), MB)
    try:
        assert volume.facts()["file_system"] == "xfs"
        assert volume.facts()["device"]["size_bytes"] == 320 * MB
    finally:
        volume.remove()
    assert_nothing_left(home)


def test_an_image_that_another_process_uses_is_refused(home: Path, volume: LoopVolume) -> None:
    script = (
        "from pgassay.storage.registry import provide\n"
        "from pgassay.storage.parse import parse_storage\n"
        "provide(parse_storage('loop:size=512MB'), 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "by another process" in done.stderr
    assert volume.facts()["direct_io"] is True
    assert home.is_dir()
