"""The observer of a server's threads, on real servers: kinds, waits, counters, marks, restarts, accounts."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import capabilities
from pgassay.analysis.accounts.items import account
from pgassay.analysis.accounts.threads import Span, trial_times
from pgassay.environment.server.private_server import Server
from pgassay.model.build import Build
from pgassay.native.load import run_load
from pgassay.trial.observe.server_observer import AIOS_FILE, THREADS_FILE, WAITS_FILE, ServerObserver
from pgassay.trial.target import RunningServer
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home

pytestmark = pytest.mark.server
OUTPUT_S = 0.1
SETTINGS = {"shared_buffers": "64MB", "autovacuum": "off", "max_parallel_workers_per_gather": "2"}
TABLE = (
    "CREATE TABLE numbers AS SELECT i AS aid, repeat('x', 100) AS filler FROM generate_series(1, 400000) i"
)
SCAN = "SELECT count(*), sum(length(filler)) FROM numbers"


@pytest.fixture(scope="module")
def build() -> Build:
    # It lies in the machine's home, which the tests' own one then replaces.
    capabilities.missing("io_uring")
    return best_build()


@pytest.fixture(scope="module")
def running(build: Build) -> Iterator[RunningServer]:
    with own_home() as home:
        data = empty_cluster(build, home / "data" / "observed")
        with Server(build, data, {**TINY_SETTINGS, **SETTINGS}) as server:
            running = RunningServer(server, {})
            running.control.execute(TABLE)
            running.control.execute("VACUUM (ANALYZE) numbers")
            running.control.execute(
                "CREATE TABLE pgbench_accounts AS SELECT aid, 0 AS abalance FROM numbers LIMIT 100000"
            )
            running.control.execute("ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)")
            yield running
            running.close_control()


def read(observer: ServerObserver, name: str) -> dict[str, list[Any]]:
    """The columns of one of its files."""
    return parquet.read_table(pa.BufferReader(observer.files()[name])).to_pydict()


def rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def run_ns(pid: int) -> int:
    """What the scheduler counts for a process now."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_every_process_is_seen_with_its_kind(running: RunningServer) -> None:
    with ServerObserver(running, 50.0, OUTPUT_S) as observer, running.connect_another("pgassay") as measured:
        pid = measured.info.backend_pid
        for _ in range(10):
            measured.execute(SCAN)
    assert observer.warnings == []
    seen = rows(read(observer, THREADS_FILE))
    kinds = {row["pid"]: row["kind"] for row in seen}
    expected = {"postmaster", "checkpointer", "background writer", "WAL writer", "backend", "pgassay"}
    assert expected <= set(kinds.values())
    if running.server.build.major >= 18:
        assert list(kinds.values()).count("io worker") == 3
    assert kinds[running.server.pid] == "postmaster"
    assert kinds[pid] == "backend"
    assert kinds[running.control.info.backend_pid] == "pgassay"
    assert "parallel worker" in kinds.values()
    # The sampling session has no row of its own in pg_stat_activity, and is no part of the server's work.
    own = [row for row in rows(read(observer, WAITS_FILE)) if row["kind"] == "pgassay"]
    assert {row["wait_event"] for row in own} <= {"", "ClientRead"}
    assert observer.facts["threads"]
    assert observer.facts["activity"]
    assert 0 < observer.own_cpu_s < 1


def test_a_sleep_and_a_lock_are_waits_of_their_sessions(running: RunningServer) -> None:
    first, second = (running.connect_another("pgassay") for _ in range(2))
    first_pid, second_pid = first.info.backend_pid, second.info.backend_pid
    with first, second, ServerObserver(running, 100.0, OUTPUT_S) as observer:
        first.execute("BEGIN")
        first.execute("UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 1")
        blocked = threading.Thread(
            target=second.execute, args=("UPDATE pgbench_accounts SET abalance = 2 WHERE aid = 1",)
        )
        blocked.start()
        first.execute("SELECT pg_sleep(1)")
        first.execute("COMMIT")
        blocked.join()
    looks: dict[int, Counter[tuple[str, str, str]]] = {}
    for row in rows(read(observer, WAITS_FILE)):
        key = (row["wait_event_type"], row["wait_event"], row["scheduler_state"])
        looks.setdefault(row["pid"], Counter())[key] += row["samples"]
    assert looks[first_pid]["Timeout", "PgSleep", "S"] > 0
    assert looks[second_pid]["Lock", "transactionid", "S"] > 0


def test_counters_are_the_schedulers_and_marks_are_exact(running: RunningServer) -> None:
    """An idle session's counter stands still, so the marks must show exactly what /proc shows."""
    with running.connect_another("pgassay") as measured:
        pid = measured.info.backend_pid
        measured.execute("SET max_parallel_workers_per_gather = 0")
        with ServerObserver(running, 20.0, 5.0) as observer:
            before = run_ns(pid)
            running.mark()
            begin_ns = time.monotonic_ns()
            measured.execute(SCAN)
            end_ns = time.monotonic_ns()
            _wait_until_asleep(pid)
            running.mark()
            after = run_ns(pid)
    threads, waits = read(observer, THREADS_FILE), read(observer, WAITS_FILE)
    times = trial_times(threads, waits, [Span(begin_ns, end_ns, True)], 20.0)
    assert times.connections[pid].run_s == pytest.approx((after - before) / 1e9, rel=0.001, abs=1e-4)
    assert times.connections[pid].wall_s == pytest.approx((end_ns - begin_ns) / 1e9)
    edges = [row for row in rows(threads) if row["edge"] and row["pid"] == pid]
    assert len(edges) == 4, "at its begin, two marks, at its end"


def _wait_until_asleep(pid: int) -> None:
    """The server's last word is out before its process sleeps."""
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "S":
        time.sleep(0.005)


def test_the_cpu_of_a_load_is_that_of_the_scheduler(running: RunningServer) -> None:
    """The accounts' CPU lies between what the test reads of all backends on both sides of each mark."""
    spec = {
        "connect": running.parameters(),
        "script": "select-only",
        "scale": 1,
        "clients": 4,
        "threads": 1,
        "protocol": "prepared",
        "duration_s": 3.0,
        "warmup_s": 0.1,
        "seed": 1,
    }
    seconds: list[dict[str, Any]] = []
    load = threading.Thread(target=run_load, args=(spec, seconds.append))
    with ServerObserver(running, 50.0, OUTPUT_S) as observer:
        load.start()
        while not seconds:
            time.sleep(0.01)
        readings = [_cpu_s(running)]
        running.mark()
        begin_ns = time.monotonic_ns()
        readings.append(_cpu_s(running))
        while len(seconds) < 2:
            time.sleep(0.01)
        readings.append(_cpu_s(running))
        end_ns = time.monotonic_ns()
        running.mark()
        readings.append(_cpu_s(running))
        load.join()
    span = Span(begin_ns, end_ns, True)
    times = trial_times(read(observer, THREADS_FILE), read(observer, WAITS_FILE), [span], 50.0)
    assert len(times.connections) == 4
    backend = times.kinds["backend"]
    low = sum(readings[2][pid] - readings[1][pid] for pid in times.connections)
    high = sum(readings[3][pid] - readings[0][pid] for pid in times.connections)
    assert 0.97 * low <= backend.run_s <= 1.03 * high
    assert backend.wall_s == pytest.approx(4 * times.measured_s, rel=1e-6)
    found = account("backend", backend, 1, times.measured_s)
    share, asleep = found.residue_s / found.wall_s, found.asleep_s / found.wall_s
    sampled = found.asleep_sampled_s / found.wall_s
    print(f"residue {share:+.2%} of the wall time, asleep {asleep:.2%}, by samples {sampled:.2%}")
    assert sum(item.seconds for item in found.items) + found.residue_s == pytest.approx(found.wall_s)
    assert {item.kind for item in found.items} >= {"cpu", "runnable", "client"}


def _cpu_s(running: RunningServer) -> dict[int, float]:
    """What the scheduler counts now for every process of the server."""
    return {pid: run_ns(pid) / 1e9 for pid in running.server.process_ids()}


def test_parallel_workers_have_an_account_though_they_end(running: RunningServer) -> None:
    """The postmaster's children's time holds all that they used, seen or not; it counts in ticks of 10 ms."""
    with running.connect_another("pgassay") as measured, ServerObserver(running, 100.0, OUTPUT_S) as observer:
        measured.execute("SET min_parallel_table_scan_size = 0")
        measured.execute("SET parallel_setup_cost = 0")
        before = _children_s(running.server.pid)
        running.mark()
        begin_ns = time.monotonic_ns()
        for _ in range(4):
            measured.execute(SCAN)
        end_ns = time.monotonic_ns()
        time.sleep(0.05)
        running.mark()
        after = _children_s(running.server.pid)
    spans = [Span(begin_ns, end_ns, True)]
    times = trial_times(read(observer, THREADS_FILE), read(observer, WAITS_FILE), spans, 100.0)
    worker = times.kinds["parallel worker"]
    assert worker.run_s == pytest.approx(after - before, abs=0.021)
    assert worker.run_s > 0.02
    assert 0 < worker.wall_s < 3 * (end_ns - begin_ns) / 1e9


def _children_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / 100


def test_kernel_threads_of_io_uring_are_seen_as_such(build: Build, require: Callable[..., None]) -> None:
    """Cold reads through a ring are done by threads that the kernel adds to the backend."""
    require("io_uring")
    with own_home() as home:
        data = empty_cluster(build, home / "data" / "ring")
        settings = {**TINY_SETTINGS, **SETTINGS, "io_method": "io_uring"}
        with Server(build, data, settings) as server:
            ring = RunningServer(server, {})
            ring.control.execute(TABLE)
            ring.restart()
            with (
                ring.connect_another("pgassay") as measured,
                ServerObserver(ring, 200.0, OUTPUT_S) as observer,
            ):
                measured.execute("SET effective_io_concurrency = 64")
                measured.execute("SET io_combine_limit = '32kB'")
                measured.execute(SCAN)
            ring.close_control()
    threads = rows(read(observer, THREADS_FILE))
    kernel = [row for row in threads if row["kind"] == "io_uring worker"]
    assert kernel
    assert all(row["thread"] != row["pid"] for row in kernel)
    assert max(row["run_ns"] for row in kernel) > 0


def test_reads_that_nobody_does_are_seen_under_way(running: RunningServer) -> None:
    """I/O workers that are held take no request, so a scan's stay where pg_aios shows them."""
    if running.server.build.major < 18:
        pytest.skip("pg_aios came with PostgreSQL 18")
    running.restart()
    workers = [
        int(row[0])
        for row in running.control.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'"
        ).fetchall()
    ]
    measured = running.connect_another("pgassay")
    scan = threading.Thread(target=measured.execute, args=(SCAN,))
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        with ServerObserver(running, 20.0, OUTPUT_S) as observer:
            scan.start()
            while running.control.execute("SELECT count(*) FROM pg_aios").fetchone() == (0,):
                time.sleep(0.01)
            # Some looks, however busy the machine.
            time.sleep(0.3)
            running.mark()
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
    scan.join()
    measured.close()
    seen = rows(read(observer, AIOS_FILE))
    assert {row["operation"] for row in seen} == {"readv"}
    assert all(row["handles"] > 0 and row["bytes"] >= 8192 for row in seen)


def test_a_restart_is_followed(running: RunningServer) -> None:
    with ServerObserver(running, 50.0, OUTPUT_S) as observer:
        old = running.server.pid
        running.restart()
        new = running.server.pid
        running.control.execute("SELECT pg_sleep(0.2)")
    assert observer.warnings == []
    pids = {row["pid"] for row in rows(read(observer, THREADS_FILE)) if row["kind"] == "postmaster"}
    assert pids == {old, new}
    control = running.control.info.backend_pid
    waits = [row for row in rows(read(observer, WAITS_FILE)) if row["pid"] == control]
    assert any(row["wait_event"] == "PgSleep" for row in waits)


def test_a_server_that_dies_costs_no_more_than_what_it_would_have_said(build: Build) -> None:
    with own_home() as home:
        data = empty_cluster(build, home / "data" / "dying")
        server = Server(build, data, TINY_SETTINGS)
        server.start()
        try:
            with ServerObserver(RunningServer(server, {}), 50.0, OUTPUT_S) as observer:
                time.sleep(0.2)
                server.kill()
                time.sleep(0.3)
        finally:
            server.stop()
    threads = rows(read(observer, THREADS_FILE))
    assert any(row["kind"] == "checkpointer" and not row["alive"] for row in threads)


def test_nothing_is_observed_where_nothing_is_asked_for(running: RunningServer) -> None:
    with ServerObserver(running, 0.0, OUTPUT_S) as observer:
        running.mark()
    assert (observer.files(), observer.facts, observer.warnings, observer.own_cpu_s) == ({}, {}, [], 0.0)


def test_a_role_that_may_not_connect_leaves_the_threads(running: RunningServer, monkeypatch: Any) -> None:
    refused = {**running.parameters(), "user": "nobody_by_this_name"}
    monkeypatch.setattr(running, "parameters", lambda: refused)
    with ServerObserver(running, 50.0, OUTPUT_S) as observer:
        time.sleep(0.2)
    assert observer.facts["activity"] is False
    assert observer.facts["threads"] is True
    assert any("not all is observed" in warning for warning in observer.warnings)
    waits = rows(read(observer, WAITS_FILE))
    assert {row["wait_event"] for row in waits} == {""}
    with pytest.raises(psycopg.OperationalError):
        running.connect_another("pgassay")
