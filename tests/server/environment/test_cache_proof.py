"""Whose reads break a warm state: the server's own do, another process's on the same device don't."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import server_helpers
import whole_tool
from pgassay.environment.linux import pagecache
from pgassay.environment.server.device_reads import reads_between, reads_of
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control

pytestmark = pytest.mark.server
MB = 1024 * 1024
FILE_BYTES = 64 * MB
# Reads its file from the device again and again: what it has read is dropped before each round.
READER = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print("reading", flush=True)
while True:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    for offset in range(0, int(sys.argv[2]), 1 << 20):
        os.pread(file, 1 << 20, offset)
"""


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


@pytest.fixture
def large_file(home: Path) -> Path:
    """A file beside the data, readable for the servers' account, nothing of it in memory."""
    file = home / "large"
    with file.open("wb") as writing:
        for _ in range(FILE_BYTES // MB):
            writing.write(os.urandom(MB))
        writing.flush()
        os.fsync(writing.fileno())
    file.chmod(0o644)
    pagecache.evict([file])
    return file


def words_of(file: Path, out: Path) -> list[str | Path]:
    words = ["compare", "work_mem=1MB,2MB", "--workload", f"sql:{file},writes=no", "--cache", "warm-pages"]
    return [*words, *whole_tool.SMALL, *whole_tool.build(), "--blocks", "1", "--json", "--out", out]


@pytest.mark.slow
@pytest.mark.shares_machine
def test_another_process_that_reads_does_not_spoil_a_warm_trial(
    require: Callable[..., None], home: Path, large_file: Path, tmp_path: Path
) -> None:
    require("server", "cold-cache", "root")
    (tmp_path / "s.sql").write_text("SELECT sum(abalance), pg_sleep(0.5) FROM pgbench_accounts;\n")
    command = [sys.executable, "-c", READER, str(large_file), str(FILE_BYTES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout is not None and reader.stdout.readline() == "reading\n"
            out = tmp_path / "out"
            finished = whole_tool.run(*words_of(tmp_path / "s.sql", out), home=home)
            whole_tool.result_of(finished)
        finally:
            reader.kill()
    trials = whole_tool.trials(out)
    assert [trial["status"] for trial in trials] == ["ok"] * 3, [trial["reason"] for trial in trials]
    observed = [trial["statements"][0] for trial in trials]
    # The disturbance was real: by the device's counters alone at least one trial would be invalid.
    assert max(each["device_read_bytes"] for each in observed) > 16 * MB
    assert max(each["server_device_read_bytes"] for each in observed) < 16 * MB


@pytest.mark.shares_machine
def test_a_read_by_the_server_itself_makes_a_warm_trial_invalid(
    require: Callable[..., None], home: Path, large_file: Path, tmp_path: Path
) -> None:
    """A backend reads a file that is no relation, whose pages a program has dropped just before."""
    require("server", "cold-cache", "root")
    (tmp_path / "s.sql").write_text(
        f"""-- name: words
CREATE TEMP TABLE words (word text);
-- name: drop-pages
COPY words FROM PROGRAM 'dd if={large_file} iflag=nocache count=0';
-- name: read
SELECT length(pg_read_binary_file('{large_file}'));
"""
    )
    words = words_of(tmp_path / "s.sql", tmp_path / "out")
    words[words.index("--workload") + 1] = f"sql:{tmp_path}/s.sql,writes=yes"
    finished = whole_tool.run(*words, home=home)
    complaint = whole_tool.assert_one_sentence(finished, 1)
    assert "statement read should have found everything in the page cache" in complaint
    assert "the server had 64 MB read from the device" in complaint


@pytest.mark.shares_machine
@pytest.mark.parametrize("method", ["sync", pytest.param("worker", marks=pytest.mark.slow), "io_uring"])
def test_reads_are_counted_whoever_makes_them(method: str, require: Callable[..., None]) -> None:
    """Parallel workers that have ended, I/O workers, and the kernel's threads of io_uring."""
    require("server", "cold-cache", "root", *(["io_uring"] if method == "io_uring" else []))
    build = server_helpers.best_build()
    if build.major < 18:
        pytest.skip("I/O methods came with PostgreSQL 18")
    with server_helpers.own_home() as folder:
        data = server_helpers.empty_cluster(build, folder / "data" / "cluster")
        settings = {
            **server_helpers.TINY_SETTINGS,
            "min_parallel_table_scan_size": "0",
            "parallel_setup_cost": "0",
            "parallel_tuple_cost": "0",
            "parallel_leader_participation": "off",
            "max_parallel_workers_per_gather": "2",
            "autovacuum": "off",
            "io_method": method,
        }
        with Server(build, data, settings) as server, control(server) as session:
            session.execute("CREATE TABLE t AS SELECT repeat('x', 1000) AS c FROM generate_series(1, 40000)")
            row = session.execute("SELECT pg_relation_filepath('t'), pg_relation_size('t')").fetchone()
        assert row is not None
        with Server(build, data, settings) as server, control(server) as session:
            plan = session.execute("EXPLAIN SELECT count(*) FROM t WHERE c > 'y'").fetchall()
            assert "Parallel Seq Scan" in str(plan)
            file = [data / row[0]]
            pagecache.evict(file)
            assert pagecache.resident_bytes(file) == 0
            before = reads_of(server.pid)
            session.execute("SELECT count(*) FROM t WHERE c > 'y'")
            read = reads_between(before, reads_of(server.pid))
            assert read is not None
            assert 0.95 * row[1] < read < 1.5 * row[1]
        assert before is not None and reads_of(before.postmaster) is None, "it has ended"
    assert reads_between(before, None) is None
    assert reads_between(before, reads_of(os.getpid())) is None, "another process is not a continuation"
