"""Statements as real servers count them, and a server's log on the clock of a trial."""

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pgassay
from cause_samples import load_record
from pgassay.analysis.changes.server_log import log_events
from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.trial.snapshots.readings import clock_offset_ns
from pgassay.trial.snapshots.server_statements import (
    COLUMNS,
    ServerStatements,
    counted_before,
    counted_files,
    own_sessions_uncounted,
)
from pgassay.trial.target import RunningServer
from server_helpers import TINY_SETTINGS, empty_cluster, own_home
from whole_tool import run

pytestmark = pytest.mark.server
LOADED = {**TINY_SETTINGS, "shared_preload_libraries": "pg_stat_statements", "log_checkpoints": "on"}


@pytest.mark.shares_machine
@pytest.mark.parametrize(
    "major",
    ["18", *(pytest.param(major, marks=pytest.mark.slow) for major in ("16", "17", "19"))],
)
def test_each_version_s_columns_are_found_and_its_log_is_placed_in_time(
    major: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("version-19" if major == "19" else "versions-16-17-18")
    build = resolve(major if major == "19" else f"npm:{major}")
    with own_home() as home:
        data, log = empty_cluster(build, home / "data" / major), home / "server.log"
        with Server(build, data, LOADED, log_path=log) as server:
            running = RunningServer(server, {"work_mem": "64kB"})
            assert ServerStatements.of(running.control) is None, "loaded, but not created"
            running.control.execute('CREATE SCHEMA "Else"; CREATE EXTENSION pg_stat_statements SCHEMA "Else"')
            files = counted(running, tmp_path)
            offset_ns, before_ns = clock_offset_ns(), time.monotonic_ns()
            running.control.execute("CHECKPOINT")
            after_ns = time.monotonic_ns()
            # Before the checkpoint of its shutdown.
            text = log.read_text()
            running.close_control()
    rows = {row["query"]: row for row in pq.read_table(files).to_pylist()}
    assert [query for query in rows if "observed" in query] == [
        "SELECT count(*) AS observed FROM t WHERE i > $1"
    ]
    assert not [query for query in rows if "own" in query or "pg_stat_" in query]
    observed = rows["SELECT count(*) AS observed FROM t WHERE i > $1"]
    assert set(observed) == {"queryid", "query", *COLUMNS}
    assert (observed["calls"], observed["rows"]) == (3, 3)
    assert observed["shared_blks_hit"] + observed["shared_blks_read"] > 0
    written = rows["INSERT INTO t SELECT generate_series($1, $2)"]
    assert (written["rows"], written["calls"]) == (1000, 1)
    assert written["wal_bytes"] > 1000
    record = load_record().model_copy(
        update={"clock_ns": (before_ns, after_ns), "clock_offset_ns": (offset_ns, offset_ns)}
    )
    (checkpoint,) = [
        each for each in log_events(text, record).events if each.ended_s is not None and each.ended_s > 0
    ]
    taken_s = (after_ns - before_ns) / 1e9
    # The log's times are cut to the millisecond.
    assert checkpoint.began_s is not None and checkpoint.ended_s is not None
    assert -0.002 <= checkpoint.began_s <= checkpoint.ended_s <= taken_s + 0.002


def counted(running: RunningServer, folder: Path) -> Path:
    """The file of a measurement in which a client runs two statements, and pgassay's own sessions some."""
    with own_sessions_uncounted(running) as statements:
        before = counted_before(running, statements)
        client = running.server.connection_parameters()
        with pgassay_client(client) as connection:
            connection.execute("CREATE TABLE t (i int)")
            connection.execute("INSERT INTO t SELECT generate_series(1, 1000)")
            for number in range(3):
                connection.execute(f"SELECT count(*) AS observed FROM t WHERE i > {number}")
        running.control.execute("SELECT 1 AS own")
        running.restart()
        running.control.execute("SELECT 2 AS own")
        observer = {**running.observed()["connect"], "application_name": "observer"}
        with pgassay_client(observer) as connection:
            connection.execute("SELECT 3 AS own")
        files = counted_files(running, statements, before)
    assert running.control.execute("SHOW pg_stat_statements.track").fetchone() == ("top",)
    (content,) = files.values()
    file = folder / "statements.parquet"
    file.write_bytes(content)
    return file


def pgassay_client(parameters: dict):
    """A session with exactly these parameters."""
    from pgassay.environment.server.sessions import connect

    return connect(parameters)


@pytest.mark.slow
def test_a_comparison_tells_what_the_server_counted_and_when_it_was_checkpointed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    finished = run(
        *(
            "compare",
            "work_mem=1MB,2MB",
            "--workload",
            "tpcb:clients=2,duration=3s,warmup=0s",
            "--scale",
            "1",
        ),
        *("--set", "shared_preload_libraries=pg_stat_statements", "--set", "max_wal_size=32MB"),
        *("--prepare", "CREATE EXTENSION pg_stat_statements", "--blocks", "1", "--quiet", "--out", str(out)),
    )
    assert finished.returncode == 0, finished.stderr
    opened = pgassay.open(out)
    updates = [
        row
        for row in opened.series("pg_stat_statements").to_pylist()
        if row["query"].startswith("UPDATE pgbench_accounts")
    ]
    by_number = {trial.record.number: trial.record for trial in opened.stored.trials}
    assert len(updates) == len(by_number) == 3
    for row in updates:
        load = by_number[row["number"]].load
        assert load is not None
        # Transactions that ran into the end are counted by the server and late for the client.
        assert 0 <= row["calls"] - load.transactions - load.late_transactions <= 2
        assert len(load.per_second_p99_ms) == len(load.per_second_mean_ms) == 3
    for record in by_number.values():
        assert record.clock_offset_ns is not None
        assert abs(record.clock_offset_ns[1] - record.clock_offset_ns[0]) < 500_000_000
    page = (out / "report.html").read_text()
    assert "UPDATE pgbench_accounts SET abalance" in page
    assert 'id="timeline-1"' in page
