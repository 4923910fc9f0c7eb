"""sysbench's tables against the real thing: `sysbench oltp_read_only prepare` on the same build."""

import subprocess
from collections import Counter

import numpy as np
import pytest

from pgassay.environment.datasets import make_dataset, sysbench_data
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import identity
from pgassay.environment.server.sessions import control
from pgassay.model.arm import DatasetSpec
from server_helpers import best_build, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

SETTINGS = {"shared_buffers": "64MB", "max_connections": "20", "autovacuum": "off"}
TABLES = ("sbtest1", "sbtest2")
ROWS = 25_000
SPEC = DatasetSpec(kind="sysbench", tables=2, table_size=ROWS)
COLUMNS = """
SELECT attrelid::regclass::text, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attstorage,
       pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attnum > 0 AND attrelid::regclass::text ~ '^sbtest[0-9]+$' ORDER BY 1, 2"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid::regclass::text LIKE 'sbtest%' ORDER BY 1, 2"""
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
SEQUENCES = """
SELECT sequencename, data_type, last_value, pg_get_serial_sequence(replace(sequencename, '_id_seq', ''), 'id')
FROM pg_sequences ORDER BY 1"""
RELATIONS = """
SELECT relname, relkind, relpersistence, relnatts, reloptions, reltuples
FROM pg_class WHERE relname ~ '^(sbtest|k_)' ORDER BY relname"""
SIZES = (
    "SELECT relname, relpages FROM pg_class WHERE relname ~ '^(sbtest[0-9]+(_pkey)?|k_[0-9]+)$' ORDER BY 1"
)


@pytest.fixture(scope="module")
def sessions(require):
    """Control connections: to what sysbench left, vacuumed afterwards, and to what pgassay made."""
    require("server", "sysbench")
    build = best_build()
    with own_home() as home:
        real = empty_cluster(build, home / "data" / "real")
        ours = home / "data" / "ours"
        make_dataset(build, ours, SPEC, lambda *_: None)
        with (
            Server(build, real, SETTINGS) as first,
            Server(build, ours, SETTINGS) as second,
            control(first) as theirs,
            control(second) as mine,
        ):
            options = [f"--pgsql-host={first.socket_directory}", "--pgsql-user=postgres"]
            options += ["--pgsql-db=postgres", "--tables=2", f"--table_size={ROWS}", "--rand-type=uniform"]
            subprocess.run(
                ["sysbench", "oltp_read_only", "--db-driver=pgsql", *options, "prepare"],
                check=True,
                capture_output=True,
                **identity(),
            )
            theirs.execute("VACUUM (FREEZE, ANALYZE)")
            yield theirs, mine


@pytest.mark.parametrize(
    "query",
    [COLUMNS, CONSTRAINTS, INDEXES, SEQUENCES, RELATIONS],
    ids=["columns", "constraints", "indexes", "sequences", "relations"],
)
def test_definitions_are_the_same(sessions, query):
    theirs, ours = (session.execute(query).fetchall() for session in sessions)
    assert ours == theirs
    assert theirs


def test_sizes_are_the_same(sessions):
    """The heap to the page; indexes, built here after the load and there with it, within a tenth."""
    theirs, ours = (dict(session.execute(SIZES).fetchall()) for session in sessions)
    for name, pages in theirs.items():
        assert ours[name] == pytest.approx(pages, rel=0 if name in TABLES else 0.1), name
    assert len(theirs) == 6


@pytest.mark.parametrize("table", [TABLES[0], pytest.param(TABLES[1], marks=pytest.mark.slow)])
def test_every_row_has_sysbench_s_shape(sessions, table):
    right = (
        "SELECT count(*) FILTER (WHERE c ~ '^(\\d{11}-){9}\\d{11} ?$' AND pad ~ '^(\\d{11}-){4}\\d{11} ?$' "
        "AND octet_length(c) = 120 AND octet_length(pad) = 60 AND k BETWEEN 1 AND %s), "
        f"min(id), max(id), count(DISTINCT c), count(DISTINCT pad), max(pg_column_size(c)) FROM {table}"
    )
    theirs, ours = (session.execute(right, (ROWS,)).fetchone() for session in sessions)
    assert ours == theirs == (ROWS, 1, ROWS, ROWS, ROWS, 121)


def test_the_columns_are_distributed_alike(sessions):
    """k: as many different values as uniform draws give, the mean in the middle; c: all digits alike."""
    query = "SELECT count(DISTINCT k)::int, avg(k)::float8, stddev(k)::float8 FROM sbtest1"
    theirs, ours = (session.execute(query).fetchone() for session in sessions)
    # 1 - 1/e of the values are met; five standard deviations of each figure.
    assert ours[0] == pytest.approx(theirs[0], rel=0.02)
    assert ours[1] == pytest.approx(ROWS / 2, rel=0.02)
    assert ours[2] == pytest.approx(theirs[2], rel=0.02)
    digits = "SELECT string_agg(translate(c || pad, '- ', ''), '') FROM sbtest2 WHERE id <= 5000"
    (text,) = sessions[1].execute(digits).fetchone()
    assert len(text) == 5000 * 165
    assert all(abs(count - 82_500) < 6 * 273 for count in Counter(text).values())


def test_tables_differ_and_are_the_same_each_time(sessions):
    query = "SELECT md5(string_agg(k || c || pad, '' ORDER BY id)) FROM {}"
    first, second = (sessions[1].execute(query.format(table)).fetchone() for table in TABLES)
    assert first != second
    again = np.concatenate(list(sysbench_data.row_blocks(1, ROWS, "uniform")))
    (k, c) = sessions[1].execute("SELECT k, rtrim(c) FROM sbtest1 WHERE id = 20001").fetchone()
    assert (again["k"][20_000], again["c"][20_000].tobytes().decode()) == (k, c)


def test_first_reads_change_nothing(sessions):
    _, session = sessions
    before = session.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    for table in TABLES:
        for statement in (f"SELECT * FROM {table}", f"SELECT c FROM {table} WHERE id BETWEEN 1 AND 100"):
            plan = session.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}").fetchone()
            assert plan[0][0]["Plan"]["Shared Dirtied Blocks"] == 0
    assert session.execute("SELECT pg_current_wal_insert_lsn()").fetchone() == before


def test_special_draws_are_distributed_as_sysbench_s(require, tmp_path):
    """The share of draws in each of eight parts of the table, ours and the real one's."""
    require("sysbench")
    script = tmp_path / "draws.lua"
    script.write_text(
        "function event() for i = 1, 40000 do print('drawn ' .. sysbench.rand.default(1, 100000)) end end"
    )
    command = ["sysbench", str(script), "--events=1", "--time=0", "--rand-type=special", "run"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    theirs = np.array([int(line.split()[1]) for line in output.splitlines() if line.startswith("drawn ")])
    ours = sysbench_data.draw(np.random.default_rng(5), 40_000, 100_000, "special")
    edges = [1, 30_000, 45_000, 49_500, 49_700, 49_900, 50_200, 50_550, 100_001]
    shares = [np.histogram(draws, edges)[0] / 40_000 for draws in (theirs, ours)]
    assert len(theirs) == 40_000
    # A share of a half has a standard deviation of 0.35 % between two samples of this size; five of them.
    assert np.abs(shares[0] - shares[1]).max() < 0.0175
    assert shares[1][4:7].sum() > 0.7
