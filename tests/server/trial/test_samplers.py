"""The samplers that read the machine: each sees something move that the test moves."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pgassay.environment.cgroup.group import Cgroup, cpu_limit
from pgassay.environment.linux.device import BlockDevice, counters, device_of, statistics
from pgassay.environment.linux.pagecache import evict
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.control_group import ControlGroupSampler
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.memory import MemorySampler
from pgassay.trial.observe.page_cache import PageCacheSampler
from pgassay.trial.observe.pressure import PressureSampler
from pgassay.trial.observe.registry import samplers
from pgassay.trial.observe.runner import SamplerRunner

pytestmark = pytest.mark.server
# A tenth of a second of CPU, by the process's own clock.
BURN = "import time\nwhile time.process_time() < 0.1: pass"


def row(sampler: Sampler) -> dict[str, float]:
    return dict(zip(sampler.columns, sampler.sample(), strict=True))


def test_the_device_has_the_kernels_counters(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device.name is None:
        pytest.skip("the temporary folder is on no block device")
    sampler = DeviceSampler(device)
    assert sampler.available()
    before = row(sampler)
    with (tmp_path / "file").open("wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    after = row(sampler)
    assert after["write_bytes"] - before["write_bytes"] >= 1 << 20
    assert after["writes"] > before["writes"]
    assert set(after) == set(statistics(device))
    # The same file as the trial's own counters, which the other reader takes apart by itself.
    low, now, high = counters(device), row(sampler), counters(device)
    for name in ("reads", "read_bytes", "read_ms", "writes", "write_bytes", "in_flight_ms", "weighted_ms"):
        assert getattr(low, name) <= now[name] <= getattr(high, name), name
    assert not DeviceSampler(BlockDevice(None, 0, 1)).available()


def test_the_page_cache_forgets_what_is_evicted(tmp_path: Path, require: Callable[..., None]) -> None:
    require("cold-cache")
    file = tmp_path / "file"
    file.write_bytes(os.urandom(4 << 20))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
    assert row(PageCacheSampler([file])) == {"resident_bytes": 4 << 20, "size_bytes": 4 << 20}
    evict([file])
    assert row(PageCacheSampler([file]))["resident_bytes"] == 0
    # A file that has gone since, as a truncated table's.
    assert row(PageCacheSampler([file, tmp_path / "gone"]))["size_bytes"] == 4 << 20
    assert not PageCacheSampler([]).available()


def test_two_looks_at_the_page_cache_are_apart(tmp_path: Path, require: Callable[..., None]) -> None:
    require("cold-cache")
    file = tmp_path / "file"
    file.write_bytes(b"x" * 8192)
    sampler = PageCacheSampler([file])
    first = sampler.sample()
    file.write_bytes(b"x" * 16384)
    assert sampler.sample() == first, "the kernel is not asked at every tick"


def test_memory_and_pressure_are_the_kernels() -> None:
    memory = MemorySampler()
    assert memory.available()
    levels = row(memory)
    assert 0 < levels["free_bytes"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    pressure = PressureSampler()
    if not pressure.available():
        pytest.skip("this kernel keeps no pressure stall information")
    totals = row(pressure)
    shown = Path("/proc/pressure/io").read_text().split("total=")[1].split()[0]
    assert 0 <= totals["io_some"] <= int(shown) / 1e6
    assert totals["io_full"] <= totals["io_some"]


def test_the_control_group_counts_cpu_and_throttling(require: Callable[..., None]) -> None:
    require("cgroup-cpu")
    group = Cgroup.create("sampler-test", cpu_limit(0.2))
    try:
        sampler = ControlGroupSampler(group)
        assert sampler.available()
        before = row(sampler)
        subprocess.run([*group.join_command(), sys.executable, "-S", "-c", BURN], check=True)
        after = row(sampler)
    finally:
        group.remove()
    assert after["cpu_s"] - before["cpu_s"] >= 0.08
    assert after["nr_throttled"] > before["nr_throttled"]
    assert after["throttled_s"] > before["throttled_s"]
    assert not ControlGroupSampler(None).available()


def test_each_leaves_a_file_and_one_that_fails_ends_alone(tmp_path: Path) -> None:
    class Failing:
        name = "failing"
        version = 1
        columns: tuple[str, ...] = ("value",)

        def available(self) -> bool:
            return True

        def sample(self) -> tuple[float, ...]:
            raise OSError("it went away")

    found: list[Sampler] = [*samplers(device_of(tmp_path)), Failing()]
    with SamplerRunner(found, 0.02) as runner:
        time.sleep(0.1)
    files = runner.files()
    assert runner.warnings == ["sampler failing stopped: it went away"]
    assert {f"{each.name}.parquet" for each in found} == set(files)
    for each in found[:-1]:
        table = parquet.read_table(pa.BufferReader(files[f"{each.name}.parquet"]))
        assert table.column_names == ["clock_ns", *each.columns]
        assert table.num_rows >= 2
