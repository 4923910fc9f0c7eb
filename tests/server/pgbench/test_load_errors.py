"""Errors by SQLSTATE of pgbench's and sysbench's loads, and what is left of a run whose server dies."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.native.load import run_load
from pgassay.native.process import StatementError
from pgassay.report import schema

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
DUPLICATE = "\\set key random(1, 2)\nINSERT INTO taken VALUES (:key);\n"
# Each locks both rows, half of them the other way round.
DEADLOCK = """\\set first :client_id % 2 + 1
BEGIN;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = :first;
\\sleep 3 ms
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 3 - :first;
COMMIT;
"""


@pytest.fixture
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        with server.query_connection() as connection:
            connection.execute("CREATE TABLE taken (key int PRIMARY KEY)")
            connection.execute("INSERT INTO taken VALUES (1), (2)")
            connection.execute("ALTER SYSTEM SET deadlock_timeout = '10ms'")
            connection.execute("SELECT pg_reload_conf()")
        yield server


def started(server: NativeTestServer, folder: Path, *words: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PGASSAY")}
    environment |= {"PGHOST": str(server.folder), "PGPORT": str(server.port), "PGUSER": "postgres"}
    return subprocess.Popen(
        [sys.executable, "-m", "pgassay.cli.main", *words],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_pgbench_tells_each_sqlstate_with_its_first_message(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(DUPLICATE)
    words = ("pgbench", "-n", "-c", "2", "-t", "5", "-f", "x.sql", "--continue-on-error")
    run = started(server, tmp_path, *words, "postgres")
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    said = 'duplicate key value violates unique constraint "taken_pkey"'
    assert f"errors with SQLSTATE 23505: 10, the first: {said}" in output.splitlines()
    run = started(server, tmp_path, *words, "--json", "postgres")
    document = json.loads(run.communicate(timeout=60)[0])
    jsonschema.validate(document, json.loads(schema.PGBENCH.text()))
    assert document["errors"] == {"23505": 10} and "duplicate key" in document["error_examples"]["23505"]
    clean = started(server, tmp_path, "pgbench", "-n", "-t", "2", "-S", "--json", "postgres")
    assert "errors" not in json.loads(clean.communicate(timeout=60)[0])


@pytest.mark.parametrize(
    "words",
    [pytest.param((), id="report", marks=pytest.mark.slow), pytest.param(("--json",), id="json")],
)
def test_pgbench_s_partial_result_says_that_the_server_died(
    server: NativeTestServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = started(server, tmp_path, "pgbench", "-n", "-c", "4", "-T", "30", "-S", *words, "postgres")
    _wait_for_a_load(server, run, 4)
    _end(server)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 2 and "the above results are incomplete" in errors
    if words:
        document = json.loads(output)
        lost, done = document["errors"], document["counts"]["transactions"]
    else:
        lines = [line for line in output.splitlines() if line.startswith("errors with SQLSTATE")]
        lost = {line.split()[3].rstrip(":"): int(line.split()[4].rstrip(",")) for line in lines}
        done = 1 if "number of transactions actually processed: 0" not in output else 0
    # What a server says at its end, or that no error message.
    assert set(lost) <= {"57P01", "57P02", "08006"} and sum(lost.values()) == 4
    assert done > 0


@pytest.mark.parametrize(
    "words",
    [pytest.param((), id="report"), pytest.param(("--json",), id="json", marks=pytest.mark.slow)],
)
def test_sysbench_s_partial_result_says_that_the_server_died(
    server: NativeTestServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    place = (f"--pgsql-host={server.folder}", f"--pgsql-port={server.port}", "--pgsql-user=postgres")
    place += ("--pgsql-db=postgres", "--table-size=500", "--threads=3")
    made = started(server, tmp_path, "sysbench", "oltp_point_select", "prepare", *place)
    assert made.wait(60) == 0
    run = started(server, tmp_path, "sysbench", "oltp_point_select", "run", "--time=30", *place, *words)
    _wait_for_a_load(server, run, 3)
    _end(server)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1 and errors.startswith("FATAL: "), errors
    if words:
        document = json.loads(output)
        jsonschema.validate(document, json.loads(schema.SYSBENCH.text()))
        assert document["events"] > 0 and document["ended_by"] in errors
        assert document["elapsed_s"] < 20 and document["tps"] > 0
    else:
        assert "    transactions:" in output and "ended early: " in output
        assert output.count("ignored errors:                      0") == 1


def test_a_load_counts_deadlocks_by_sqlstate(server: NativeTestServer) -> None:
    record = run_load(
        {
            "connect": server.parameters(),
            "scripts": [{"name": "lock.sql", "text": DEADLOCK, "weight": 1}],
            "variables": {},
            "scale": 2,
            "clients": 4,
            "threads": 1,
            "protocol": "simple",
            "duration_s": 1.5,
            "warmup_s": 0.2,
            "seed": 1,
        }
    )
    assert record["errors"] > 0
    assert list(record["states"]) == ["40P01"]
    assert record["states"]["40P01"] == {"count": record["errors"], "example": "deadlock detected"}


@pytest.mark.parametrize("script", ["select-only", pytest.param("scripts", marks=pytest.mark.slow)])
def test_clients_pause_between_their_transactions(server: NativeTestServer, script: str) -> None:
    """Ten clients that pause for 50 ms: two hundred transactions a second less what they take."""
    text = "\\sleep 1 ms\nSELECT 1;\n"
    source = (
        {"scripts": [{"name": "x", "text": text, "weight": 1}]} if script == "scripts" else {"script": script}
    )
    spec = {"connect": server.parameters(), **source, "scale": 2, "clients": 10, "threads": 2}
    spec |= {"protocol": "simple", "duration_s": 3.0, "warmup_s": 0.3, "seed": 3}
    began = time.monotonic()
    record = run_load({**spec, "think_s": 0.05})
    rate, mean_s = record["transactions"] / 3.0, record["latency_ms"]["mean"] / 1e3
    assert rate * (0.05 + mean_s) == pytest.approx(10, rel=0.2)
    assert record["client_idle_s"] > 1.0
    # A pause that would outlast the interval ends with it.
    with pytest.raises(StatementError, match="no transaction ended"):
        run_load({**spec, "think_s": 1000.0, "duration_s": 0.3})
    assert time.monotonic() - began < 20
    with pytest.raises(StatementError, match="pauses and a pace"):
        run_load({**spec, "think_s": 0.05, "pace": {"arrivals": "poisson", "rates": [[0.0, 10.0]]}})


def _wait_for_a_load(server: NativeTestServer, run: "subprocess.Popen[str]", clients: int) -> None:
    """Until all clients are at work, and some of their transactions have ended."""
    working = (
        "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ 'accounts|sbtest'"
    )
    whole_tool.wait_for(lambda: server.query(working)[0] >= clients, "sessions of the load", process=run)
    time.sleep(1.5)


def _end(server: NativeTestServer) -> None:
    server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "immediate", "stop")
