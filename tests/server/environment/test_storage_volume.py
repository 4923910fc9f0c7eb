"""An imitated volume on the real machine: its limits while it is measured, its speed before, and its end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.cleanup import registry
from pgassay.environment.linux.mounts import mounted_at
from pgassay.environment.linux.settle import sync_tree
from pgassay.errors import MeasurementError
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide
from pgassay.storage.volume import ImitatedVolume
from storage_fixtures import MB, assert_nothing_left, frozen_directory, private_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

BLOCK = 8192
# 120 operations a second, with nothing saved up.
SLOW = "volume:gp2,size=40GiB,credits=empty"
# Holds a serving process, a FUSE mount, a loop device, a mount, and a model in force.
HOLDER = """
import sys
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide

volume = provide(parse_storage(sys.argv[1]), 100 << 20)
with volume.measured():
    (volume.root / "written").write_bytes(b"x" * (1 << 20))
    print(volume.root, volume.device.name, volume._served.server.pid, volume._served.server.file, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("loop")
    require("fuse")
    with private_home() as folder:
        yield folder
        assert_nothing_left(folder)


def provided(text: str) -> ImitatedVolume:
    volume = provide(parse_storage(text), 100 * MB)
    assert isinstance(volume, ImitatedVolume)
    return volume


def read_blocks(file: Path, count: int) -> float:
    """Seconds that so many single reads around the page cache take."""
    buffer = mmap(-1, BLOCK)
    opened = os.open(file, os.O_RDONLY | os.O_DIRECT)
    try:
        blocks = os.lseek(opened, 0, os.SEEK_END) // BLOCK
        began = time.monotonic()
        for index in range(count):
            assert os.preadv(opened, [buffer], (index * 4799 % blocks) * BLOCK) == BLOCK
        return time.monotonic() - began
    finally:
        os.close(opened)


def test_a_trial_gets_what_the_volume_gives(home: Path) -> None:
    volume = provided(SLOW)
    try:
        working = volume.clone(frozen_directory(home / "frozen", 32), "key", 0)
        content = (working / "base/5/16384").read_bytes()
        assert content == (home / "frozen/base/5/16384").read_bytes()
        facts = volume.facts()
        assert (facts["kind"], facts["file_system"], facts["direct_io"]) == ("volume", "xfs", True)
        described = facts["volume"]
        assert isinstance(described, dict) and described["model"]["name"] == "gp2,size=40GiB,credits=empty"
        # Each of them begins without credits: what one used up is not owed by the next.
        for _ in range(2):
            with volume.measured() as delivered:
                elapsed_s = read_blocks(working / "base/5/16384", 90)
            # The bucket makes up for a pause of 10 ms at 3,000 a second.
            assert elapsed_s >= (90 - 30) / 120
            assert delivered is not None
            assert sum(delivered.columns["reads"]) >= 90
            assert delivered.facts["operations"] == sum(delivered.columns["operations"]) >= 90
            assert delivered.columns["credits_operations"][-1] < 120
            assert float(str(delivered.facts["credits_ended_s"])) < elapsed_s + 1
        (working / "base/5/16384").write_bytes(b"changed")
        volume.reset(working, home / "frozen")
        assert (working / "base/5/16384").read_bytes() == content
    finally:
        volume.remove()


@pytest.mark.slow
def test_volumes_of_an_experiment_share_one_device(home: Path) -> None:
    first = provided(SLOW)
    second = provided("volume:gp3,size=100GiB")
    try:
        assert (first.device, first.root) == (second.device, second.root)
        source = frozen_directory(home / "frozen", 8)
        assert first.clone(source, "key", 0) == second.clone(source, "key", 0)
        first.remove()
        measured_us = second.facts()["volume"]["overhead_us"]  # type: ignore[index]  # of a mapping of documents
        # A dozen looks at the device: those that a busy machine disturbs count for nothing.
        with second.measured() as delivered:
            assert read_blocks(second.root / "key/copy-0/base/5/16384", 5400) > 0
        assert delivered is not None
        assert delivered.facts["credits_ended_s"] is None
        # What the way through the kernel takes is looked at again by the device's counters, and followed.
        followed_us = delivered.columns["overhead_us"]
        assert any(each != measured_us for each in followed_us)
        assert all(measured_us / 2.01 <= each <= measured_us * 2.01 for each in followed_us)
    finally:
        first.remove()
        second.remove()


def test_the_wal_has_a_volume_and_a_model_of_its_own(home: Path) -> None:
    """Of which each flush waits for a second zone, while the data lie on a folder that imposes nothing."""
    both = provide(
        parse_storage(f"host:path={home},wal={SLOW.replace(',credits', ',flush_latency=30ms,credits')}"), MB
    )
    try:
        working = both.clone(frozen_directory(home / "frozen", 1), "key", 0)
        both.mark(working, clean=False)
        segment = working / "pg_wal/000000010000000000000001"
        assert mounted_at(segment.resolve().parents[1]) != []
        with both.measured() as delivered, segment.open("r+b", buffering=0) as wal:
            began = time.monotonic()
            for _ in range(10):
                wal.write(b"x" * BLOCK)
                os.fdatasync(wal.fileno())
            elapsed_s = time.monotonic() - began
        assert delivered is not None and delivered.columns == {}
        (imposed,) = delivered.wal
        assert sum(imposed.columns["flushes"]) >= 10 and sum(imposed.columns["writes"]) >= 10
        # Ten flushes of 30 ms each, of which lognormal luck takes less than half.
        assert elapsed_s > 0.15
        described = both.facts()["wal"]
        assert isinstance(described, dict) and described["volume"]["price"]["per_month"] == 4.0
        both.mark(working, clean=True)
        assert (working / "pg_wal").is_dir() and not (working / "pg_wal").is_symlink()
        assert (working / "pg_wal" / segment.name).read_bytes()[:BLOCK] == b"x" * BLOCK
    finally:
        both.remove()


def test_the_first_touch_of_a_restored_volume_is_paid_once(home: Path) -> None:
    volume = provided("volume:gp3,size=100GiB,first_touch=40ms")
    try:
        working = volume.clone(frozen_directory(home / "frozen", 4), "key", 0)
        with volume.measured() as delivered:
            # A page of each of the eight chunks of 4 MB, then the same again.
            for _ in range(2):
                read_blocks(working / "base/5/16384", 16)
        assert delivered is not None
        waited_ms = sum(delivered.columns["latency_ms"])
        reads = sum(delivered.columns["reads"])
        # Eight or nine fetches with a median of 40 ms, and 0.6 ms for each of at least 32 reads.
        assert reads >= 32 and 8 * 40 / 3 < waited_ms < 9 * 40 * 3 + 5 * reads
    finally:
        volume.remove()


@pytest.mark.usefixtures("home")
def test_a_trial_on_a_volume_whose_server_died_says_so() -> None:
    volume = provided(SLOW)
    try:
        file = volume.root / "written"
        file.write_bytes(b"x" * MB)
        ended = pytest.raises(MeasurementError, match="serves the imitated volume has ended")
        with ended, volume.measured():
            os.kill(volume._served.server.pid, signal.SIGKILL)
            read_blocks(file, 1)
    finally:
        volume.remove()


@pytest.mark.usefixtures("home")
def test_nothing_is_left_of_a_killed_owner() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, SLOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    root, disk, server, file = holder.stdout.readline().split()
    assert registry.sweep() == []  # its owner is alive
    assert mounted_at(Path(root)) != []
    # It can't notice that its owner dies.
    os.kill(int(server), signal.SIGSTOP)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    sentences = registry.sweep()
    for part in ("Unmounted", "Detached", "Ended the imitated volume"):
        assert any(part in sentence for sentence in sentences), (part, sentences)
    assert mounted_at(Path(root)) == mounted_at(Path(file).parent) == []
    assert not Path(file).parent.exists()
    assert not Path(f"/sys/block/{disk}/loop/backing_file").exists()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{server}/fd/0").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert registry.sweep() == []


def test_a_mounted_volume_is_as_slow_as_it_says_until_it_is_interrupted(home: Path, tmp_path: Path) -> None:
    page = (whole_tool.ROOT / "docs" / "volumes.md").read_text("utf-8")
    (documented,) = re.findall(r"^\$ pgassay (volumes mount \S+) FOLDER$", page, re.MULTILINE)
    folder = tmp_path / "mounted"
    folder.mkdir()
    process = whole_tool.start(*documented.split(), folder, "--json", "--used", "64MB", home=home)
    try:
        assert process.stdout is not None
        mounted = json.loads(process.stdout.readline())["mounted"]
        assert mounted["volume"] == "gp3,size=100GiB" and mounted_at(folder)
        file = folder / "read"
        file.write_bytes(os.urandom(1 * MB))
        sync_tree(folder)
        # 3,000 operations a second at most, and one at a time waits for each one's latency.
        assert read_blocks(file, 100) > 100 / 3000
        seconds = [json.loads(process.stdout.readline())["second"] for _ in range(2)]
        assert sum(each["reads"] for each in seconds) >= 100
    finally:
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert not mounted_at(folder) and list(folder.iterdir()) == []


def test_a_volume_is_mounted_only_once_its_limit_stands(home: Path, tmp_path: Path) -> None:
    """Whoever waits for the mount and reads at once gets no more than the volume gives."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    # 100 operations a second, without credits.
    words = ("volumes", "mount", "gp2,size=30GiB,credits=empty", folder, "--json", "--used", "64MB")
    process = whole_tool.start(*words, home=home)
    try:
        deadline = time.monotonic() + 120
        while not mounted_at(folder):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.002)
        source = mounted_at(folder)[0].source
        # The first reads may come from the fraction of a second that a bucket holds.
        assert read_blocks(Path(source), 150) > 1.0
    finally:
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint


def test_both_volumes_are_behind_one_instance(home: Path) -> None:
    """An instance of 200 operations a second, with two volumes of 3,000 each: together they get 200."""
    (home / "volumes.toml").write_text(
        'date = "2026-01-01"\n[sources.here]\ntitle = "t"\nurl = "u"\nread = "2026-01"\n'
        '[instances."tiny.one"]\nprovider = "aws"\nsources = ["here"]\n'
        "operations = { base = 200, quantum_kib = 256, merging = true }\n"
    )
    of_data, count = "volume:gp3,size=100GiB", 120
    both = provide(parse_storage(f"{of_data},instance=tiny.one,wal=volume:gp3,size=10GiB"), 100 * MB)
    alone = provide(parse_storage(f"{of_data},instance=tiny.one"), 100 * MB)
    try:
        working = both.clone(frozen_directory(home / "frozen", 16), "key", 0)
        both.mark(working, clean=False)
        relation, segment = working / "base/5/16384", working / "pg_wal/000000010000000000000001"
        described = both.facts()
        assert described["volume"]["shared_instance"] == described["wal"]["volume"]["shared_instance"]  # type: ignore[index]  # of a mapping of documents
        for _ in range(2):
            with both.measured() as delivered, ThreadPoolExecutor() as pool:
                took_s = max(pool.map(read_blocks, (relation, segment), (count, count)))
            assert delivered is not None
            # Each by itself would take half as long; the bucket makes up for a pause of 10 ms.
            assert took_s >= (2 * count - 10) / 200
            (of_wal,) = delivered.wal
            counted = [sum(each.columns["operations"]) for each in (delivered, of_wal)]
            assert min(counted) >= count
        # An arm without a volume of the WAL has all of the instance for its data.
        with alone.measured():
            assert count / 200 * 0.8 <= read_blocks(relation, count)
        both.mark(working, clean=True)
    finally:
        both.remove()
        alone.remove()
