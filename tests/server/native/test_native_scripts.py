"""Scripts in pgbench's language give what the real pgbench gives, value for value, on one server."""

from collections.abc import Iterator
from typing import Any

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.native.load import LoadRecord, run_load
from pgassay.native.process import StatementError

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
CLIENTS = 3
TRANSACTIONS = 100
DRAWS = """
\\set a random(1, 1000000)
\\set b random_exponential(1, 1000000, 3.5)
\\set c random_gaussian(1, 1000000, 2.5)
\\set d random_zipfian(1, 1000000, 1.07)
\\set e hash(:a)
\\set f hash_fnv1a(:b, 17)
\\set g permute(:a, 1000, :random_seed)
\\set h permute(:b, 1000000)
\\set i sqrt(:a) + ln(:b) * exp(:c / 1000000.0) - pow(:d, 0.5)
\\set j case when :a % 2 = 0 then :a / 3 else -:b end
\\set k :a & 255 | (:b # 77) << 3
\\set l random(-9223372036854775806, 0)
\\if :a > 500000
\\set m 1
\\elif :a > 250000
\\set m 2
\\else
\\set m 3
\\endif
\\set n int(double(:a) / 7) + greatest(1, :m) - least(4, :m, 2)
INSERT INTO draws VALUES (WHICH, :client_id, :a, :b, :c, :d, :e, :f, :g, :h, :i, :j, :k, :l, :m, :n,
  :default_seed);
"""
COLUMNS = "script, a, b, c, d, e, f, g, h, i, j, k, l, m, n, default_seed"
ROWS = """
SELECT array_agg(row ORDER BY place) FROM (
  SELECT client, row_number() OVER (PARTITION BY client ORDER BY place) AS place, row({columns})::text AS row
  FROM draws) AS each WHERE place <= {most} GROUP BY client ORDER BY client"""


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        with server.query_connection() as connection:
            connection.execute(
                "CREATE TABLE draws (script int, client int, a bigint, b bigint, c bigint, d bigint, "
                "e bigint, f bigint, g bigint, h bigint, i float8, j bigint, k bigint, l bigint, m int, "
                "n bigint, default_seed bigint, place bigserial)"
            )
            connection.execute("CREATE TABLE kept (value text)")
        yield server


def run(server: NativeTestServer, *texts: str, **changes: Any) -> LoadRecord:
    scripts = [
        {"name": f"{place}.sql", "text": text, "weight": weight}
        for place, (text, weight) in enumerate(zip(texts, (3, 1), strict=False), start=1)
    ]
    usual = {
        "connect": server.parameters(),
        "scripts": scripts,
        "clients": CLIENTS,
        "threads": CLIENTS,
        "protocol": "simple",
        "duration_s": 0.5,
        "seed": 5432,
    }
    return run_load(usual | changes)


def rows(server: NativeTestServer, most: int) -> list[list[str]]:
    with server.query_connection() as connection:
        found = connection.execute(ROWS.format(columns=COLUMNS, most=most).encode()).fetchall()
        connection.execute("TRUNCATE draws")
    return [row[0] for row in found]


def empty(server: NativeTestServer) -> None:
    with server.query_connection() as connection:
        connection.execute("TRUNCATE kept")


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_every_value_is_the_one_that_pgbench_draws(server: NativeTestServer, protocol: str) -> None:
    texts = [DRAWS.replace("WHICH", which) for which in ("1", "2")]
    files = [server.folder / f"{which}.sql" for which in ("1", "2")]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    connection = ("-h", str(server.folder), "-p", str(server.port), "-U", "postgres")
    load = ("-n", "-c", str(CLIENTS), "-j", str(CLIENTS), "-t", str(TRANSACTIONS), "-M", protocol)
    weighted = ("-f", f"{files[0]}@3", "-f", f"{files[1]}@1")
    server.run("pgbench", *connection, *load, "--random-seed=5432", *weighted, "postgres")
    theirs = rows(server, TRANSACTIONS)
    # As many as they have, however slow the machine: another half second until there are.
    record = run(server, *texts, protocol=protocol, duration_s=3.0)
    assert record["errors"] == 0
    ours = rows(server, TRANSACTIONS)
    assert [len(client) for client in theirs] == [TRANSACTIONS] * CLIENTS
    assert all(len(client) >= 20 for client in ours)
    assert ours == [client[: len(mine)] for client, mine in zip(theirs, ours, strict=True)]
    assert {row.split(",")[0] for client in ours for row in client} == {"(1", "(2"}


KEEPING = """
SELECT 7 AS one, NULL AS nothing \\gset p_
SELECT 1 AS first\\; SELECT 2 AS second \\aset
SELECT 3 AS never WHERE false \\aset
\\setshell number echo 41
\\set sum :p_one + :first + :second + :number
\\sleep 100 us
INSERT INTO kept VALUES (':sum' || ':p_nothing' || ':undefined_one');
"""


def test_rows_and_shell_commands_give_variables(server: NativeTestServer) -> None:
    empty(server)
    record = run(server, KEEPING)
    assert record["transactions"] > 0
    assert server.query("SELECT array_agg(DISTINCT value) FROM kept")[0] == ["51:undefined_one"]


@pytest.mark.parametrize("protocol", ["extended", "prepared"])
def test_a_pipeline_sends_all_and_waits_once(server: NativeTestServer, protocol: str) -> None:
    empty(server)
    statements = "INSERT INTO kept VALUES ('a');\nSELECT 1;\n" * 20
    script = f"\\startpipeline\n{statements}\\syncpipeline\n{statements}\\endpipeline\nSELECT 2;\n"
    record = run(server, script, protocol=protocol)
    whole = record["transactions"] + record["warmup_transactions"] + record["late_transactions"]
    assert server.query("SELECT count(*) FROM kept")[0] == 40 * whole > 0


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT 1;\n\\set x 1 / 0\n", r'1\.sql:2 ".set x 1 / 0": division by zero'),
        ("SELECT 1 AS a WHERE false \\gset", "expected one row, got 0"),
        ("SELECT generate_series(1, 2) AS a \\gset", "expected one row, got 2"),
        ("BEGIN;", "end of script reached without completing the last transaction"),
        ("\\startpipeline\nSELECT 1;", "cannot use pipeline mode with the simple query protocol"),
        ("\\set x :nobody", 'undefined variable "nobody"'),
        ("\\shell exit 3", "failed"),
        ("SELECT nothing;", "column .nothing. does not exist"),
        ("\\set x 1 +", "1.sql:1: syntax error at column 11 in command .set."),
    ],
)
def test_what_fails_is_named_with_its_place(server: NativeTestServer, script: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        run(server, script)


def test_a_script_that_asks_the_server_nothing_leaves_the_others_their_turn(server: NativeTestServer) -> None:
    empty(server)
    idle = "\\if :client_id = 0\nINSERT INTO kept VALUES ('asked');\n\\endif\n"
    record = run(server, idle, clients=2, threads=1)
    assert record["transactions"] > server.query("SELECT count(*) FROM kept")[0] > 1


def test_serialisation_failures_are_counted_and_rolled_back(server: NativeTestServer) -> None:
    script = (
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT sum(abalance) FROM pgbench_accounts WHERE aid < 10;\n"
        "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1 + :client_id;\nCOMMIT;\n"
    )
    record = run(server, script, protocol="prepared")
    assert record["errors"] > 0
    assert record["transactions"] > 0


def test_files_of_a_real_drawer_run(server: NativeTestServer) -> None:
    """pgbench's own built-in scripts, as it shows them, run as files."""
    shown = server.run("pgbench", "--show-script=tpcb-like")
    script = shown[shown.index("\\set") :]
    before = server.query("SELECT count(*) FROM pgbench_history")[0]
    record = run(server, script, protocol="prepared", scale=1)
    whole = record["transactions"] + record["warmup_transactions"] + record["late_transactions"]
    assert server.query("SELECT count(*) FROM pgbench_history")[0] - before == whole > 0
