"""The dataset against the real thing: `pgbench -i` of the same build on a stock server."""

import re

import pytest

from pgassay.environment.datasets import snapshots
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.environment.server.setting_values import parse_number
from pgassay.model.arm import DatasetSpec
from server_helpers import best_build, empty_cluster, own_home, run_program

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

SETTINGS = {"shared_buffers": "256MB", "max_connections": "20", "autovacuum": "off"}
TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
COLUMNS = """
SELECT attrelid::regclass::text, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attstorage
FROM pg_attribute WHERE attnum > 0 AND attrelid::regclass::text LIKE 'pgbench%' ORDER BY 1, 2"""
RELATIONS = """
SELECT relname, relkind, relpages, reltuples, relallvisible, reloptions, relpersistence, relnatts,
       pg_relation_size(oid), relhasindex
FROM pg_class WHERE relname LIKE 'pgbench%' ORDER BY relname"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid::regclass::text LIKE 'pgbench%' ORDER BY 1, 2"""
INDEXES = (
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'pgbench%' ORDER BY 1, 2"
)
STATISTICS = """
SELECT tablename, attname, null_frac, avg_width, n_distinct, correlation
FROM pg_stats WHERE tablename LIKE 'pgbench%' ORDER BY 1, 2"""
MADE_WITH = ("server_encoding", "data_checksums", "wal_segment_size", "block_size")


@pytest.fixture(scope="module")
def build():
    return best_build()


@pytest.fixture(
    scope="module",
    params=[1, pytest.param(2, marks=pytest.mark.slow), pytest.param(13, marks=pytest.mark.slow)],
)
def pair(request, build):
    """(scale, what `pgbench -i` left, what the snapshot holds): two data directories, both stopped."""
    scale = request.param
    with own_home() as home:
        real = empty_cluster(build, home / "data" / "real")
        with Server(build, real, {}) as server:
            connection = ["-h", str(server.socket_directory), "-U", "postgres", "postgres"]
            run_program(build, "pgbench", "-i", "-q", "-s", str(scale), *connection)
        snapshot = snapshots.ensure(build, DatasetSpec(scale=scale), (), lambda *_: None)
        yield scale, real, snapshot


@pytest.fixture(scope="module")
def sessions(build, pair):
    """Control connections to a server on each of the two."""
    _, real, snapshot = pair
    with (
        Server(build, real, SETTINGS) as first,
        Server(build, snapshot.path, SETTINGS) as second,
        control(first) as theirs,
        control(second) as ours,
    ):
        yield theirs, ours


def both(sessions, sql):
    return tuple(session.execute(sql).fetchall() for session in sessions)


def test_checksums_of_both_are_valid(build, pair):
    _, real, snapshot = pair
    for folder in (real, snapshot.path):
        answer = run_program(build, "pg_checksums", "--check", "-D", str(folder)).stdout
        assert re.search(r"Bad checksums:\s+0\b", answer)
        assert int(re.search(r"Blocks scanned:\s+(\d+)", answer)[1]) > 1640


def test_first_reads_change_nothing(build, pair):
    scale, _, snapshot = pair
    with Server(build, snapshot.path, SETTINGS) as server, control(server) as session:
        before = session.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        for table in TABLES:
            plan = session.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {table}"
            ).fetchone()
            assert plan[0][0]["Plan"]["Shared Dirtied Blocks"] == 0
        session.execute("SET enable_seqscan = off")
        count = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM pgbench_accounts WHERE aid > 0"
        scan = session.execute(count).fetchone()[0][0]["Plan"]
        while "Plans" in scan:
            scan = scan["Plans"][0]
        assert (scan["Node Type"], scan["Heap Fetches"]) == ("Index Only Scan", 0)
        assert session.execute("SELECT count(*) FROM pgbench_accounts").fetchone() == (scale * 100_000,)
        if "pg_buffercache" in build.extensions:
            dirty = "SELECT count(*) FROM pg_buffercache WHERE isdirty"
            assert session.execute(dirty).fetchone() == (0,)
        assert session.execute("SELECT pg_current_wal_insert_lsn()").fetchone() == before


def test_the_freeze_is_complete(build, sessions):
    _, ours = sessions
    ages = "SELECT relname, age(relfrozenxid) FROM pg_class WHERE relname LIKE 'pgbench%' AND relkind = 'r'"
    assert all(age < 40 for _, age in ours.execute(ages).fetchall())
    unfrozen = "SELECT count(*) FROM pgbench_accounts WHERE xmin::text::bigint <> 2 AND age(xmin) < 0"
    assert ours.execute(unfrozen).fetchone() == (0,)
    if "pg_visibility" not in build.extensions:
        return
    ours.execute("CREATE EXTENSION IF NOT EXISTS pg_visibility")
    for table in TABLES:
        pages = ours.execute(f"SELECT pg_relation_size('{table}') / 8192").fetchone()[0]
        visible, frozen = ours.execute(f"SELECT * FROM pg_visibility_map_summary('{table}')").fetchone()
        assert (visible, frozen) == (pages, pages), table
        assert ours.execute(f"SELECT count(*) FROM pg_check_frozen('{table}')").fetchone() == (0,)
        assert ours.execute(f"SELECT count(*) FROM pg_check_visible('{table}')").fetchone() == (0,)


def test_visibility_map_of_the_accounts_is_pgbench_s(build, sessions):
    if "pg_visibility" not in build.extensions:
        pytest.skip("this build has no pg_visibility; relallvisible is compared for every table all the same")
    summaries = []
    for session in sessions:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_visibility")
        map_hash = (
            "SELECT count(*), sum(hashtextextended(blkno || '/' || all_visible || '/' || all_frozen, 0)) "
            "FROM pg_visibility_map('pgbench_accounts')"
        )
        summaries.append(session.execute(map_hash).fetchone())
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize(
    "sql", [COLUMNS, RELATIONS, CONSTRAINTS, INDEXES], ids=["columns", "relations", "constraints", "indexes"]
)
def test_definitions_and_sizes_are_the_same(sessions, sql):
    theirs, ours = both(sessions, sql)
    assert ours == theirs
    assert theirs


def test_statistics_are_the_same(sessions):
    theirs, ours = both(sessions, STATISTICS)
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    for left, right in zip(theirs, ours, strict=True):
        # ANALYZE takes a random sample once a table has more than 30 000 rows.
        assert right[2:4] == left[2:4]
        assert right[4] == pytest.approx(left[4], rel=0.05)
        assert right[5] == pytest.approx(left[5], abs=0.01) if left[5] is not None else right[5] is None
    correlation = {row[:2]: row[5] for row in ours}
    assert correlation["pgbench_accounts", "aid"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_holds_the_same(sessions, table):
    theirs, _ = sessions
    names = theirs.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        (table,),
    ).fetchall()
    # The place (ctid) is hashed with each value: the order counts as well.
    hashes = ", ".join(
        f"count({name}), sum(hashtextextended(ctid::text || coalesce({name}::text || '|', 'null'), 1))"
        for (name,) in names
    )
    lengths = ", ".join(f"max(pg_column_size({name}))" for (name,) in names)
    theirs_row, ours_row = both(sessions, f"SELECT count(*), {hashes}, {lengths} FROM {table}")
    assert ours_row == theirs_row


def test_the_rows_are_what_pgbench_s_source_says(pair, sessions):
    scale, (_, ours) = pair[0], sessions
    wrong = (
        "SELECT count(*) FROM pgbench_accounts WHERE bid <> (aid - 1) / 100000 + 1 OR abalance <> 0 "
        "OR filler IS NULL OR octet_length(filler) <> 84 OR filler <> ''"
    )
    assert ours.execute(wrong).fetchone() == (0,)
    span = "SELECT count(*), min(aid), max(aid), count(DISTINCT bid) FROM pgbench_accounts"
    assert ours.execute(span).fetchone() == (scale * 100_000, 1, scale * 100_000, scale)
    right = "count(*) FILTER (WHERE bid = (tid - 1) / 10 + 1 AND tbalance = 0)"
    tellers = f"SELECT count(*), {right}, count(filler) FROM pgbench_tellers"
    assert ours.execute(tellers).fetchone() == (scale * 10, scale * 10, 0)
    assert ours.execute("SELECT count(*), count(filler) FROM pgbench_branches").fetchone() == (scale, 0)
    assert ours.execute("SELECT count(*) FROM pgbench_history").fetchone() == (0,)


def test_made_with_the_options_that_were_asked_for(sessions):
    values = tuple(
        [session.execute("SELECT current_setting(%s)", (name,)).fetchone()[0] for name in MADE_WITH]
        for session in sessions
    )
    assert values[0] == values[1] == ["UTF8", "on", "16MB", "8192"]


def test_other_options_reach_the_cluster(build):
    spec = DatasetSpec(scale=1, checksums=False, encoding="SQL_ASCII", wal_segment_mb=4)
    with own_home():
        snapshot = snapshots.ensure(build, spec, (), lambda *_: None)
        with Server(build, snapshot.path, SETTINGS) as server, control(server) as session:
            values = {
                name: session.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]
                for name in MADE_WITH
            }
    assert (values["server_encoding"], values["data_checksums"]) == ("SQL_ASCII", "off")
    assert parse_number(values["wal_segment_size"], "MB") == 4


def test_the_facts_are_the_server_s(pair, sessions):
    _, _, snapshot = pair
    _, ours = sessions
    for name, fact in snapshot.facts["relations"].items():
        row = ours.execute("SELECT relpages, pg_relation_size(oid) FROM pg_class WHERE relname = %s", (name,))
        assert row.fetchone() == (fact["pages"], fact["bytes"])
    assert set(TABLES) <= set(snapshot.facts["relations"])
    assert snapshot.bytes > snapshot.facts["relations"]["pgbench_accounts"]["bytes"]
