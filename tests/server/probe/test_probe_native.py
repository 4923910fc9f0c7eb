"""`pgassay-native probe`: every engine reads the right pages and finds the broken; failures have codes."""

import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from native_probe import ENGINES, PAGE, RawProbe, break_page, probing
from pgassay.environment.home import home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
PAGES = 1024
MB = 1 << 20


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """On the machine's own disk; pytest's folders may lie in memory."""
    with tempfile.TemporaryDirectory(dir=home(), prefix="probe-test-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    with probing() as probe:
        return probe.make(folder / "pages", PAGES)


@pytest.fixture
def probe() -> Iterator[RawProbe]:
    with probing() as probe:
        yield probe


@pytest.mark.parametrize(("engine", "files"), [("sync", 1 + 2), ("io_uring", 1 + 2), ("worker", 1 + 2 + 3)])
def test_every_process_of_a_server_has_the_file_open_for_itself(
    require: Callable[..., None], probe: RawProbe, file: Path, engine: str, files: int
) -> None:
    """The kernel's read-ahead belongs to the open file: 2 backends, and 3 I/O workers, don't share it."""
    if engine == "io_uring":
        require("io_uring")
    seen = 0
    with ThreadPoolExecutor() as pool:
        cell = pool.submit(probe.cell, file, engine, consumers=2, workers=3, duration_s=1.0)
        while not cell.done():
            seen = max(seen, opened(probe.process.pid, file))
            time.sleep(0.01)
        assert cell.result()["verify_failures"] == 0
    assert seen == files


def opened(pid: int, file: Path) -> int:
    """How many descriptors of a process are of this file."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found += link.readlink() == file
    return found


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_one_pass_reads_every_page_once(
    require: Callable[..., None], probe: RawProbe, file: Path, engine: str, direct: bool
) -> None:
    if engine in ("io_uring", "hybrid"):
        require("io_uring")
    whole = PAGES * PAGE
    expected = probe.cell(file, "sync", bytes_max=whole, depth=1)["page_sum"]
    record = probe.cell(file, engine, bytes_max=whole, direct=direct, duration_s=30)
    # Reads of 1, 2, 4 and 8 pages while the look-ahead grows, then of 16, and the page that is left.
    assert (record["bytes"], record["operations"]) == (whole, 4 + (PAGES - 15) // 16 + 1)
    assert record["page_sum"] == expected
    assert record["verify_failures"] == 0
    assert sum(window["operations"] for window in record["windows"]) == record["operations"]
    if direct:
        assert record["device_read_bytes"] >= whole


@pytest.mark.parametrize("major", [18, 19])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_processes_of_a_parallel_scan_read_every_page_once(
    require: Callable[..., None], probe: RawProbe, file: Path, engine: str, major: int
) -> None:
    if engine in ("io_uring", "hybrid"):
        require("io_uring")
    more: dict[str, object] = {"major": major, "bytes_max": PAGES * PAGE, "duration_s": 30}
    expected = probe.cell(file, "sync", **more)
    if engine == "worker" and major == 19:
        more |= {"workers": 6, "workers_min": 1, "launch_interval_ms": 0}
    # 64 pages at a time, so that each of four processes gets a quarter of them.
    record = probe.cell(file, engine, pattern="parallel", consumers=4, table_blocks=131072, **more)
    assert record["bytes"] == expected["bytes"] == PAGES * PAGE
    assert record["page_sum"] == expected["page_sum"]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_broken_page(
    require: Callable[..., None], probe: RawProbe, file: Path, engine: str, in_order: bool
) -> None:
    if engine in ("io_uring", "hybrid"):
        require("io_uring")
    copy = file.with_name("broken")
    copy.write_bytes(file.read_bytes())
    break_page(copy, 700)
    more = {"bytes_max": PAGES * PAGE, "consumers": 2, "in_order": in_order, "duration_s": 30}
    record = probe.cell(copy, engine, **more)
    assert (record["verify_failures"], record["broken_blocks"]) == (1, [700])
    assert probe.cell(copy, engine, verify=False, **more)["verify_failures"] == 0


def test_deferred_completions_and_single_submissions_read_the_same_pages(
    require: Callable[..., None], probe: RawProbe, file: Path
) -> None:
    require("io_uring")
    more = {"pattern": "random", "request_bytes": PAGE, "depth": 8, "direct": True, "in_order": False}
    more |= {"bytes_max": PAGES * PAGE, "duration_s": 30}
    expected = probe.cell(file, "sync", **more)
    record = probe.cell(file, "io_uring", defer_completions=True, submit_batch=1, **more)
    assert record["operations"] == expected["operations"] == PAGES
    assert record["page_sum"] == expected["page_sum"]


def test_the_hybrid_sets_out_by_what_the_page_cache_has(
    require: Callable[..., None], probe: RawProbe, file: Path
) -> None:
    require("io_uring")
    probe.ask("warm", file=str(file), bytes=PAGES * PAGE)
    cached = probe.cell(file, "hybrid")
    assert cached["path"][0]["way"] == "own"
    assert {step["way"] for step in cached["path"]} <= {"own", "ring", "shared", "given"}
    probe.ask("evict", file=str(file))
    assert probe.cell(file, "hybrid", bytes_max=PAGES * PAGE)["path"][0]["way"] == "ring"
    assert probe.cell(file, "hybrid", direct=True)["path"][0]["way"] == "ring"
    probe.ask("evict", file=str(file))
    announced = probe.cell(file, "hybrid", pattern="gaps", bytes_max=PAGES * PAGE // 4)
    assert announced["path"][0]["way"] == "own"


@pytest.mark.parametrize("engine", ["null", *ENGINES])
@pytest.mark.parametrize("pattern", ["random", "dependent", "gaps"])
def test_the_time_is_accounted_for(
    require: Callable[..., None], probe: RawProbe, file: Path, engine: str, pattern: str
) -> None:
    if engine in ("io_uring", "hybrid"):
        require("io_uring")
    more = {"pattern": pattern, "request_bytes": PAGE, "execute_ns_per_page": 500}
    record = probe.cell(file, engine, advise=True, **more)
    times = record["time_s"]
    parts = sum(value for name, value in times.items() if name != "workers")
    assert parts == pytest.approx(record["elapsed_s"], rel=0.001)
    assert times["execute"] > 0
    assert (times["checksum"] > 0) == (engine not in ("null", "worker"))
    assert (times["workers"]["checksum"] > 0) == (engine == "worker") or engine == "hybrid"
    assert record["cpu_s_per_gb"] > 0


@pytest.mark.parametrize("in_order", [False, True])
def test_a_cell_that_costs_nothing_ends_when_its_time_is_up(
    probe: RawProbe, file: Path, in_order: bool
) -> None:
    """Nothing in it waits or computes: the deadline must be seen all the same."""
    record = probe.cell(file, "null", duration_s=0.1, in_order=in_order)
    assert record["operations"] > 0
    assert record["elapsed_s"] == pytest.approx(0.1, abs=0.1)


def test_the_queue_of_the_workers_is_bounded(probe: RawProbe, file: Path) -> None:
    """256 requests on their way do not fit into 63 places: consumers read the rest themselves."""
    record = probe.cell(file, "worker", depth=256, workers=1, request_bytes=PAGE, in_order=False)
    assert record["synchronous_fallbacks"] > 0
    assert probe.cell(file, "worker", depth=16)["synchronous_fallbacks"] == 0


def test_the_cache_is_emptied_filled_and_told(probe: RawProbe, file: Path) -> None:
    assert probe.ask("evict", file=str(file))["evicted"]["resident_bytes"] == 0
    cold = probe.cell(file, "sync", bytes_max=PAGES * PAGE, duration_s=30)
    assert cold["resident_bytes_before"] == 0
    assert cold["device_read_bytes"] >= PAGES * PAGE
    assert probe.ask("evict", file=str(file))["evicted"]["resident_bytes"] == 0
    warmed = probe.ask("warm", file=str(file), bytes=PAGES * PAGE)["warmed"]["resident_bytes"]
    assert warmed == PAGES * PAGE
    facts = probe.ask("facts", file=str(file))["facts"]
    assert facts["resident_bytes"] == warmed
    assert probe.cell(file, "sync", bytes_max=PAGES * PAGE, duration_s=30)["device_read_bytes"] == 0


@pytest.mark.parametrize("kind", ["wal", "pages"])
def test_durable_writes_leave_nothing_behind(probe: RawProbe, folder: Path, kind: str) -> None:
    before = sorted(folder.iterdir())
    written = probe.ask("write", folder=str(folder), kind=kind, duration_s=0.1)["write"]
    assert written["operations"] > 0
    assert written["latency_us"]["p50"] <= written["latency_us"]["max"]
    assert (written["final_fsync_s"] > 0) == (kind == "pages")
    assert sorted(folder.iterdir()) == before


def test_a_device_that_fails(require: Callable[..., None], probe: RawProbe, folder: Path) -> None:
    """A file system whose image is cut behind its back: its device answers with an error."""
    require("loop")
    image, mount_point = folder / "image", folder / "mount"
    mount_point.mkdir()
    with image.open("wb") as stream:
        stream.truncate(64 * MB)
    run("mkfs.ext4", "-q", "-m", "0", image)
    run("mount", "-o", "loop", image, mount_point)
    try:
        made = probe.make(mount_point / "pages", 40 * MB // PAGE)
        run("mount", "-o", "remount,ro", mount_point)
        os.truncate(image, 24 * MB)
        for engine in ENGINES:
            error = probe.error(
                "cell", file=str(made), engine=engine, pattern="random", duration_s=5, direct=True
            )
            assert error["code"] in ("eio", "io-uring-refused"), error
            assert str(made) in error["message"] or error["code"] != "eio"
    finally:
        run("umount", mount_point)
        image.unlink()


def random_reads(file: Path, duration_s: float) -> dict[str, object]:
    return {"file": str(file), "pattern": "random", "duration_s": duration_s}


def run(*command: str | Path) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_shrinks(
    require: Callable[..., None], probe: RawProbe, folder: Path, engine: str
) -> None:
    if engine in ("io_uring", "hybrid"):
        require("io_uring")
    shrinking = probe.make(folder / f"shrinking-{engine}", 256)
    assert probe.process.stdin is not None and probe.process.stdout is not None
    cell = {"file": str(shrinking), "engine": engine, "pattern": "random", "depth": 8, "duration_s": 60}
    probe.process.stdin.write(json.dumps({"cell": cell}) + "\n")
    probe.process.stdin.flush()
    wait_until(lambda: "consumer" in threads_of(probe.process.pid))
    os.truncate(shrinking, 10 * PAGE)
    answer = probe.process.stdout.readline()
    assert '"short-read"' in answer
    assert "became shorter" in answer
    assert probe.cell(shrinking, engine, blocks=10)["bytes"] > 0, "the conversation goes on"


def test_limits_that_are_too_low(require: Callable[..., None], file: Path) -> None:
    require("io_uring")

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

    with probing(few_files) as probe:
        error = probe.error(
            "cell", file=str(file), engine="worker", workers=32, pattern="random", duration_s=1
        )
        assert error["code"] == "too-many-files"
        assert "RLIMIT_NOFILE" in error["message"]
        error = probe.error(
            "cell", file=str(file), engine="io_uring", consumers=20, pattern="random", duration_s=1
        )
        assert error["code"] == "io-uring-refused"
        assert "RLIMIT_NOFILE" in error["message"]
        assert probe.cell(file, "sync")["bytes"] > 0


def test_no_space_and_other_places_where_nothing_can_be_made(
    probe: RawProbe, folder: Path, file: Path
) -> None:
    error = probe.error("make", file=str(folder / "large"), bytes=1 << 50)
    assert error["code"] == "no-space"
    assert not (folder / "large").exists()
    assert probe.error("make", file=str(file), bytes=PAGE)["code"] == "path"
    assert probe.error("make", file=str(folder / "none" / "file"), bytes=PAGE)["code"] == "path"
    assert probe.error("make", file="/proc/file", bytes=PAGE)["code"] in ("path", "refused")
    assert probe.error("make", file=str(folder / "odd"), bytes=PAGE + 1)["code"] == "usage"


def test_requests_that_make_no_sense(probe: RawProbe, file: Path) -> None:
    cell = {"file": str(file), "engine": "sync", "pattern": "random", "duration_s": 1}
    numbers = (
        {"depth": 0},
        {"request_bytes": 1000},
        {"consumers": 0},
        {"submit_batch": 0},
        {"workers_min": 9},
        {"found": 2},
    )
    for wrong in (*numbers, {"duration_s": 0}, {"gap": 2}):
        error = probe.error("cell", **cell | wrong)
        assert error["code"] == "usage"
        assert next(iter(wrong)) in error["message"]
    assert probe.error("cell", **cell, deep=3)["code"] == "usage"
    assert probe.error("cell", **cell, first_block=PAGES)["code"] == "usage"
    assert probe.error("nonsense")["code"] == "usage"
    assert probe.error("cell", **cell | {"file": str(file.with_name("none"))})["code"] == "path"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_removes_what_was_made(folder: Path, number: signal.Signals) -> None:
    with probing() as probe:
        made = probe.make(folder / "made", 16)
        probe.process.send_signal(number)
        assert probe.process.wait(120) == 128 + number
        assert not made.exists()


def test_the_end_of_input_keeps_what_is_whole(folder: Path) -> None:
    with probing() as probe:
        made = probe.make(folder / "kept", 16)
        assert probe.process.stdin is not None
        request = {"make": {"file": str(folder / "half"), "bytes": 4096 * MB}}
        probe.process.stdin.write(json.dumps(request) + "\n")
        probe.process.stdin.flush()
        wait_until((folder / "half").exists)
        probe.process.stdin.close()
        assert probe.process.wait(120) == 0
        assert made.exists()
        assert not (folder / "half").exists()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


def threads_of(pid: int) -> list[str]:
    """The names of a process's threads; one may end while they are looked at."""
    names = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            names.append((thread / "comm").read_text().strip())
    return names
