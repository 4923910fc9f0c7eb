"""`pgassay diagnose` of a server of which it is given nothing but sessions: planted limits are named.

The limits are the test's: a control group on the whole server, whose reads pass the system's cache by
(debug_io_direct). What is asked and judged is SQL alone, as of a managed server.
"""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import whole_tool
from limited_servers import ROWS, DirectServer, direct_server, limited_reads
from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.model.running_server.diagnosis import Diagnosis
from pgassay.running_server.diagnosis.sampling import APPLICATION, sample
from pgassay.running_server.open_server import open_target

# The bench is no package: its tables are found as its own script finds them.
sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from plants.late import FOLDER, late_disk
from plants.needs import missing

pytestmark = pytest.mark.server

READS_A_SECOND = 120
LATENCY_MS = 20.0
# A row of a page that is nowhere in memory, and its index's leaf.
READ = "SELECT abalance FROM pgbench_accounts WHERE aid = %s"
# Of a set in the list of results nothing is kept in a file.
COMPUTE = "SELECT sum(sqrt(i)) FROM (SELECT generate_series(1, 300000) AS i) AS s"


@pytest.fixture(scope="module")
def server() -> Iterator[DirectServer]:
    with direct_server() as server:
        yield server


@pytest.fixture
def limited(server: DirectServer, require: Callable[..., None]) -> Iterator[None]:
    require("cgroup-limits")
    with limited_reads(server, READS_A_SECOND):
        yield


@contextmanager
def clients(server: DirectServer, counts: Sequence[int], every_s: float, statement: str) -> Iterator[None]:
    """So many clients in a closed loop, in turn, each number for a while."""
    ended = threading.Event()
    wanted = [counts[0]]

    def work(number: int) -> None:
        draws = random.Random(number)
        with psycopg.connect(server.dsn, autocommit=True) as session:
            while not ended.is_set():
                if number >= wanted[0]:
                    ended.wait(0.02)
                elif "%s" in statement:
                    session.execute(statement.encode(), [draws.randrange(ROWS)])
                else:
                    session.execute(statement.encode())

    def change() -> None:
        turn = 0
        while not ended.wait(every_s):
            turn += 1
            wanted[0] = counts[turn % len(counts)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(max(counts))]
    threads.append(threading.Thread(target=change))
    for thread in threads:
        thread.start()
    try:
        time.sleep(1.5)
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def looked_at(server: DirectServer, seconds: float, folder: Path, vcpus: float | None = None) -> Diagnosis:
    """By sessions alone: the server's machine is another one as far as the diagnosis knows."""
    target = replace(open_target(server.dsn, "DSN", APPLICATION), local=None)
    return diagnose(sample(target, seconds, folder / "interval", vcpus=vcpus))


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_a_limit_of_requests_is_found_while_the_clients_vary(server: DirectServer, tmp_path: Path) -> None:
    with clients(server, (3, 9, 6), 8.0, READ):
        found = looked_at(server, 50.0, tmp_path)
    limit = found.causes[0]
    assert limit.cause == "storage-iops", limit
    assert limit.evidence["ceiling_from"] == "a rate that stayed flat"
    assert 0.5 * READS_A_SECOND < float(limit.evidence["ceiling_read_iops"]) < 1.3 * READS_A_SECOND
    assert float(limit.evidence["reads_in_flight_high"]) > 1.5 * float(limit.evidence["reads_in_flight_low"])
    # Nothing is known of the processors, so nothing is promised.
    assert limit.gain_if_lifted is None


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_one_client_at_a_steady_rate_waits_for_each_read(server: DirectServer, tmp_path: Path) -> None:
    """The decoy: a steady 120 reads a second, of one client, are the time that a read takes."""
    with clients(server, (1,), 60.0, READ):
        found = looked_at(server, 3.0, tmp_path)
    limit = found.causes[0]
    assert limit.cause == "storage-latency", limit
    assert limit.evidence["ceiling"] == "not known"
    assert float(limit.evidence["reads_in_flight"]) < 1.5
    assert 0.5 * 1000 / READS_A_SECOND < float(limit.evidence["read_latency_ms"]) < 100


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_as_many_clients_all_the_time_tell_no_ceiling(server: DirectServer, tmp_path: Path) -> None:
    with clients(server, (8,), 60.0, READ):
        found = looked_at(server, 26.0, tmp_path)
    limit = found.causes[0]
    assert limit.cause == "unknown", limit
    assert "no rate stayed flat while the reads in flight varied" in str(limit.evidence["not_known"])


@pytest.mark.slow
def test_a_disk_that_answers_late_has_no_ceiling_however_the_clients_vary(tmp_path: Path) -> None:
    """The decoy of the ceiling: as many reads at a time as are asked, each as late as ever."""
    if reason := missing(("late-disk",)):
        pytest.skip(reason)
    # The server's account must be able to enter the folder.
    with whole_tool.private_home() as home, late_disk(LATENCY_MS)(home) as places:
        server = DirectServer(Path(places[FOLDER]))
        try:
            server.start()
            with clients(server, (1, 6, 3), 8.0, READ):
                found = looked_at(server, 50.0, tmp_path)
        finally:
            server.stop()
    limit = found.causes[0]
    assert limit.cause == "storage-latency", limit
    assert limit.evidence["ceiling"] == "not reached"
    assert float(limit.evidence["read_latency_ms"]) >= LATENCY_MS


def test_full_processors_are_found_by_their_number(server: DirectServer, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    with clients(server, (3 * cores,), 60.0, COMPUTE):
        found = looked_at(server, 2.0, tmp_path, vcpus=float(cores))
    limit = found.causes[0]
    assert limit.cause == "all-cores", limit
    assert float(limit.evidence["processes_without_wait_event"]) >= cores
    assert found.server.vcpus == cores
