"""Causes planted in real servers are named by `pgassay compare`, and their harmless counterparts are not.

The plants are those of `benchmarks/planted_causes.py`, which also sets what is predicted beside what lifting
them gains: here only names count, since a machine's load moves every figure.
"""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.errors import UsageError

# The bench is no package: its table is found as its own script finds it.
sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from plants.base import Plant, both, is_harmless, judge
from plants.late import FOLDER, late_disk
from plants.needs import free_memory_disk, missing
from plants.table import PLANTS

pytestmark = pytest.mark.server

# The capabilities of the tests that a plant's needs are.
CAPABILITIES = {
    "loop": "loop",
    "rate-limits": "cgroup-limits",
    "cpu-quota": "cgroup-cpu",
    "memory-cap": "cgroup-memory",
    "imitated-volume": "fuse",
}
# A limit of the device, a setting, and late writes: the shortest of the ways of planting. A cap around the
# command, a missing index and dead rows have tests of their own; the others are planted in the slow tests.
DEFAULT = ("storage-iops", "temp-spill", "wal-insert")
# Each version counts and names otherwise what writes wait for, so each is asked.
WRITE_SIDE = ("backend-writes", "checkpoint", "wal-insert", "slru", "extension", "checkpoint-wait")
VERSIONS = ("16", "17", "18", "19")
# Whether these are found depends on how much of the processors other processes leave.
NEEDS_THE_MACHINE = frozenset({"all-cores", "backend-core", "noise", "autovacuum", "connections"})
FIRST = {plant.name: plant for plant in reversed(PLANTS)}
# What is named after five seconds is so after two.
SHORT = replace(
    FIRST["wal-insert"], workload="pgbench:file=wal.sql,writes=yes,clients=8,duration=2s,warmup=0s"
)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with whole_tool.prepared_home() as folder:
        yield folder
        free_memory_disk()


def compare(plant: Plant, home: Path, folder: Path, version: str = "18") -> dict[str, Any]:
    """Run it once; the JSON document."""
    folder.mkdir()
    with plant.outside(home) as given, plant.around(home) as before:
        words = [*plant.words(folder, given), *(() if plant.is_remote else whole_tool.build(version))]
        if not before:
            return whole_tool.result_of(whole_tool.run(*words, home=home))
        finished = subprocess.run(
            [*before, *whole_tool.COMMAND, *words],
            env=whole_tool.environment(home),
            capture_output=True,
            text=True,
            timeout=whole_tool.TIMEOUT_S,
            check=False,
        )
        return whole_tool.result_of(finished)


def assert_named(
    plant: Plant, home: Path, folder: Path, with_decoy: bool, version: str = "18"
) -> dict[str, Any]:
    """The cause in the arms that have it, and neither it nor a fault in the others."""
    result = compare(plant, home, folder / "planted", version)
    judgement = judge(plant, result)
    if judgement.is_none:
        pytest.skip(
            f"{plant.name} limited nothing on this machine: {judgement.measured:.2f} times as fast without"
        )
    assert judgement.is_named, str(judgement)
    assert judgement.is_clean is not False, str(judgement)
    decoy = plant.harmless()
    if decoy is not None and with_decoy:
        for named in both(decoy, compare(decoy, home, folder / "decoy", version)):
            assert is_harmless(plant, named), str(named)
    return result


def require_all(plant: Plant, require: Callable[..., None]) -> None:
    """Skip where the machine can't be given what the plant needs."""
    require("server", "cold-cache")
    for need in plant.needs:
        if need in CAPABILITIES:
            require(CAPABILITIES[need])
        elif reason := missing((need,)):
            pytest.skip(reason)


@pytest.mark.parametrize("name", DEFAULT)
def test_a_planted_cause_is_named(
    name: str, require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    plant = SHORT if name == SHORT.name else FIRST[name]
    require_all(plant, require)
    result = assert_named(plant, home, tmp_path, with_decoy=False)
    found = [cause for cause in result["causes"] if cause["cause"] == plant.cause]
    assert all(cause["evidence"] for cause in found)


def test_the_late_disk_is_late_where_it_should_be(require: Callable[..., None], home: Path) -> None:
    """It holds however slow the machine is: no request ends before its time."""
    require("server", "loop", "fuse")
    page = mmap.mmap(-1, 8192)
    with late_disk(write_ms=20.0)(home) as places:
        file = os.open(Path(places[FOLDER], "file"), os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        try:
            os.pwrite(file, page, 0)
            began = time.monotonic()
            os.pwrite(file, page, 0)
            write_s = time.monotonic() - began
        finally:
            os.close(file)
    assert write_s >= 0.02
    assert not Path(home, "late").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FIRST if name not in (*NEEDS_THE_MACHINE, *WRITE_SIDE)])
def test_every_planted_cause_is_named_and_its_decoy_is_not(
    name: str, require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require_all(FIRST[name], require)
    assert_named(FIRST[name], home, tmp_path, with_decoy=True)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", WRITE_SIDE)
def test_what_writes_wait_for_is_named_on_each_version(
    name: str, version: str, require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    """The other arm has a disk, or a setting, that does not let it wait: nothing is named there."""
    require_all(FIRST[name], require)
    try:
        resolve(version)
    except UsageError:
        pytest.skip(f"no PostgreSQL {version} at hand")
    assert_named(FIRST[name], home, tmp_path, with_decoy=True, version=version)
