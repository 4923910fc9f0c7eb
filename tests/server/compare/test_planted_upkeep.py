"""Dead space, a missing index, what holds dead rows, and autovacuum, planted in real servers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import whole_tool
from cause_samples import evidence, record
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules.bloat import BLOAT, HELD
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.trial.snapshots.counters import difference, snapshot
from pgassay.trial.snapshots.vacuum_state import read_vacuum_state
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home

pytestmark = pytest.mark.server
# Of 200 000 rows every fifth is left where it was, in a file that does not shrink.
TABLE = (
    "CREATE TABLE t AS SELECT i AS id, i % 1000 AS k, repeat('x', 80) AS f FROM generate_series(1, 200000) i"
)
SPARSE = f"""{TABLE};
ANALYZE t;
DELETE FROM t WHERE id % 5 <> 0;
"""
TWENTY_TIMES = """-- name: scans
SELECT sum(found.n) FROM generate_series(1, 20) s,
    LATERAL (SELECT count(*) AS n FROM t WHERE k = 5 * s OFFSET 0) AS found;
"""


@pytest.fixture
def session(require: Callable[..., None]) -> Iterator[psycopg.Connection[Any]]:
    require("server")
    settings = TINY_SETTINGS | {"max_prepared_transactions": "2", "autovacuum": "off"}
    build = best_build()
    with own_home() as home:
        data = empty_cluster(build, home / "data" / "cluster")
        with Server(build, data, settings) as server, control(server) as connection:
            yield connection


@pytest.mark.slow
def test_dead_space_and_a_missing_index_are_told_apart(require: Callable[..., None], tmp_path: Path) -> None:
    """One arm has both, one an index missing, one neither: the same question on the same rows."""
    require("server")
    data, query, out = tmp_path / "data.sql", tmp_path / "query.sql", tmp_path / "out"
    data.write_text(SPARSE)
    query.write_text(TWENTY_TIMES)
    packed, indexed = "VACUUM FULL t", "VACUUM FULL t; CREATE INDEX ON t (k); ANALYZE t"
    words = [
        *("compare", f"prepare=none,{packed},{indexed}", "--dataset", f"script:{data}"),
        *("--workload", f"sql:{query}", "--cache", "warm-buffers", "--blocks", "1", "--seed", "5", "--json"),
        *("--set", "shared_buffers=64MB", "--set", "max_parallel_workers_per_gather=0", "--out", str(out)),
    ]
    with whole_tool.prepared_home() as home:
        result = whole_tool.result_of(whole_tool.run(*words, *whole_tool.build(), home=home))
    faults: dict[str, dict[str, Any]] = {arm["name"]: {} for arm in result["arms"]}
    for cause in result["causes"]:
        if cause["kind"] == "fault" and cause["cause"] != "noise":
            faults[cause["arm"]][cause["cause"]] = cause
    assert {name.partition("=")[2]: set(found) for name, found in faults.items()} == {
        "none": {"bloat", "discarding-scan"},
        packed: {"discarding-scan"},
        indexed: set(),
    }
    bloat = faults["prepare=none"]["bloat"]["evidence"]
    assert bloat["table"] == "public.t"
    assert bloat["live_rows"] == pytest.approx(40_000, rel=0.01)
    assert bloat["pages"] == pytest.approx(5 * bloat["pages_needed"], rel=0.1)
    index = faults[f"prepare={packed}"]["discarding-scan"]
    assert index["layer"] == "design"
    assert "k = " in index["evidence"]["filter"]
    assert index["evidence"]["scans"] == pytest.approx(20, rel=0.05)
    assert index["gain_if_lifted"] > 3


def scanned(session: psycopg.Connection[Any], query: str = "SELECT count(*) FROM t") -> Evidence:
    """A scan of the table as the server counts it, in a second that was spent on nothing else."""
    major = session.info.server_version // 10000
    before = snapshot(session, major)
    session.execute(query.encode())
    counters = difference(before, snapshot(session, major))
    (database,) = counters["pg_stat_database"]
    made = evidence(cpu_s=10.0, record=record(counters=counters), vacuum_state=read_vacuum_state(session))
    read, hit = database["blks_read"], database["blks_hit"]
    work = replace(made.work, bytes_read=8192.0 * read, bytes_hit=8192.0 * hit)
    return replace(made, work=work)


def found_by(session: psycopg.Connection[Any], query: str = "SELECT count(*) FROM t") -> dict[str, Found]:
    seen = scanned(session, query)
    answers = {rule.cause: rule.find(seen) for rule in (BLOAT, HELD)}
    return {cause: answer for cause, answer in answers.items() if isinstance(answer, Found)}


@pytest.mark.shares_machine
def test_scans_by_an_index_meet_sparse_pages_in_order_and_not_apart(
    session: psycopg.Connection[Any],
) -> None:
    """Of five rows one is left: a range goes through five times the pages, single rows cost one each."""
    in_order = "SELECT count(f) FROM t WHERE id > 0"
    apart = """SELECT count(found.f) FROM generate_series(1, 5000) n,
        LATERAL (SELECT f FROM t WHERE id = 5 * (n * 7919 % 40000 + 1) OFFSET 0) found"""
    session.execute(TABLE.encode())
    session.execute("CREATE INDEX t_id ON t (id)")
    session.execute("VACUUM (ANALYZE) t")
    for name in ("enable_seqscan", "enable_bitmapscan"):
        session.execute(f"SET {name} = off".encode())
    (index,) = read_vacuum_state(session).indexes
    assert (index.table, index.name, index.rows, index.entry_bytes) == ("t", "t_id", 200_000, 20)
    assert index.pages_needed == pytest.approx(index.pages, rel=0.02)
    assert not found_by(session, in_order), "packed"
    session.execute("DELETE FROM t WHERE id % 5 <> 0")
    session.execute("SELECT pg_stat_force_next_flush()")
    session.execute("VACUUM (ANALYZE) t")
    found = found_by(session, in_order)
    assert set(found) == {"bloat"}
    figures = found["bloat"].figures
    assert figures["table"] == "public.t" and figures["live_rows"] == 40_000
    packed, sparse = figures["pages_for_each_row_without"], figures["pages_for_each_row"]
    assert isinstance(packed, float) and isinstance(sparse, float)
    assert sparse == pytest.approx(5 * packed, rel=0.1)
    assert not found_by(session, apart)
    session.execute("VACUUM (FULL, ANALYZE) t")
    assert not found_by(session, in_order)


@pytest.mark.shares_machine
def test_who_holds_dead_rows_is_named_and_gone_they_are_mere_bloat(
    session: psycopg.Connection[Any],
) -> None:
    session.execute(TABLE.encode())
    session.execute("VACUUM (ANALYZE) t")
    assert not found_by(session), "packed"
    with psycopg.connect(session.info.dsn, application_name="a report") as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("INSERT INTO t VALUES (0, 0)")
        session.execute("DELETE FROM t WHERE id % 5 <> 0")
        # Else its count would be added to VACUUM's later on.
        session.execute("SELECT pg_stat_force_next_flush()")
        session.execute("VACUUM t")
        found = found_by(session)
        assert set(found) == {"bloat-held"}
        assert (
            found["bloat-held"].figures["held_by"] == f"session process {other.info.backend_pid} (a report)"
        )
        assert found["bloat-held"].figures["dead_rows"] == pytest.approx(160_000, rel=0.01)
        # Its transaction outlives the session.
        other.execute("PREPARE TRANSACTION 'left behind'")
        session.execute("VACUUM t")
        found = found_by(session)
        assert found["bloat-held"].figures["held_by"] == "prepared transaction left behind"
    session.execute("COMMIT PREPARED 'left behind'")
    session.execute("VACUUM t")
    found = found_by(session)
    assert set(found) == {"bloat"}
    assert found["bloat"].figures["dead_rows"] == 0


@pytest.mark.slow
def test_autovacuum_that_works_beside_a_load(require: Callable[..., None], tmp_path: Path) -> None:
    """Its naps are short and it is not held back; at the other arm it does not come."""
    require("server")
    settings = {
        "autovacuum_naptime": "1s",
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": "50",
        "autovacuum_vacuum_cost_delay": "0",
        "synchronous_commit": "off",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with whole_tool.prepared_home() as home:
        finished = whole_tool.run(
            *("compare", "autovacuum=on,off", "--workload", "simple-update:duration=10s,clients=8"),
            *("--scale", "10", "--set", "shared_buffers=256MB", "--blocks", "1", "--json", *words),
            *(*whole_tool.build(), "--out", tmp_path / "out"),
            home=home,
        )
        result = whole_tool.result_of(finished)
    named = {cause["arm"] for cause in result["causes"] if cause["cause"] == "autovacuum"}
    assert named == {"autovacuum=on"}
