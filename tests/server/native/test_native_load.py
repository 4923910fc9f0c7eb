"""`pgassay-native load` against a real server: counts, invariants, protocols, errors."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hdrh.histogram import HdrHistogram

import whole_tool
from native_servers import PASSWORD, SCALE, NativeTestServer, started_server
from pgassay.native.binary import binary
from pgassay.native.load import run_load
from pgassay.native.process import StatementError

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
PER_TRANSACTION = {"select-only": 1, "simple-update": 5, "tpcb": 7}


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


def spec(server: NativeTestServer, connect: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    usual = {
        "connect": server.parameters(**(connect or {})),
        "script": "select-only",
        "scale": SCALE,
        "clients": 3,
        "threads": 2,
        "protocol": "prepared",
        "duration_s": 0.4,
        "warmup_s": 0.3,
        "seed": 7,
    }
    return usual | changes


def everything(record: dict[str, Any]) -> int:
    """All transactions that the server committed for a load."""
    return record["warmup_transactions"] + record["transactions"] + record["late_transactions"]


def commits_of_the_other_database(server: NativeTestServer) -> int:
    """xact_commit of the database "postgres", asked from outside it, once nobody is in it any more."""
    with psycopg.connect(**server.parameters(dbname="template1"), autocommit=True) as connection:
        deadline = time.monotonic() + 60
        while True:
            row = connection.execute(
                "select xact_commit, (select count(*) from pg_stat_activity a where a.datname = d.datname)"
                " from pg_stat_database d where datname = 'postgres'"
            ).fetchone()
            assert row is not None and time.monotonic() < deadline
            if row[1] == 0:
                return row[0]
            time.sleep(0.05)


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
@pytest.mark.parametrize("script", sorted(PER_TRANSACTION))
def test_what_is_counted_is_what_the_server_committed(
    server: NativeTestServer, script: str, protocol: str
) -> None:
    before = commits_of_the_other_database(server)
    record = run_load(spec(server, script=script, protocol=protocol))
    # Opening a session is a transaction in the server's books, and so is the batch that prepares.
    own = 3 * (2 if protocol == "prepared" else 1)
    assert commits_of_the_other_database(server) - before == everything(record) + own
    assert record["transactions"] > 0 and record["errors"] == 0


def test_the_invariants_of_tpcb_hold(server: NativeTestServer) -> None:
    with server.query_connection() as connection:
        connection.execute("truncate pgbench_history")
        connection.execute("update pgbench_accounts set abalance = 0 where abalance <> 0")
        connection.execute("update pgbench_tellers set tbalance = 0")
        connection.execute("update pgbench_branches set bbalance = 0")
    record = run_load(spec(server, script="tpcb", clients=8))
    history, deltas = server.query("select count(*), sum(delta) from pgbench_history")
    assert history == everything(record)
    sums = server.query(
        "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches),"
        " (select sum(tbalance) from pgbench_tellers)"
    )
    assert sums == (deltas, deltas, deltas)
    assert deltas != 0


def test_the_record_is_consistent(server: NativeTestServer) -> None:
    seconds: list[dict[str, Any]] = []
    before_ns = time.monotonic_ns()
    record = run_load(spec(server, duration_s=2.5, warmup_s=1.0), on_progress=seconds.append)
    assert before_ns < record["start_ns"] < record["end_ns"] < time.monotonic_ns()
    assert record["elapsed_s"] == (record["end_ns"] - record["start_ns"]) / 1e9 == 2.5
    assert len(record["per_second"]) == 3
    assert sum(record["per_second"]) == record["transactions"]
    assert [(second["second"], second["warmup"]) for second in seconds] == [(1, True), (2, False), (3, False)]
    assert 0 < sum(second["transactions"] for second in seconds) <= everything(record)
    # Two threads; their processor time is read a moment after the interval's ends.
    assert 0 < record["client_cpu_s"] < 2 * 1.1 * record["elapsed_s"]
    # In a closed loop every client is in a transaction all the time (Little's law). What began before the
    # interval or ended after it is a small part, unless the machine stands still just then.
    latency = record["latency_ms"]
    assert 0.5 < latency["mean"] * record["transactions"] / (3 * 2500) < 1.5
    order = [latency[key] for key in ("min", "p50", "p90", "p95", "p99", "p99.9", "max")]
    assert order == sorted(order) and order[0] > 0
    by_second = record["per_second_latency_ms"]
    assert len(by_second["mean"]) == len(by_second["p99"]) == 3
    pairs = zip(record["per_second"], by_second["mean"], strict=True)
    total = sum(count * (mean or 0.0) for count, mean in pairs)
    # What ended after the interval counts among the latencies, and in no second of it.
    whole = latency["mean"] * (record["transactions"] + record["late_transactions"])
    assert 0 <= whole - total * (1 - 1e-9) <= record["late_transactions"] * latency["max"] + 1e-6 * whole
    assert max(value or 0.0 for value in by_second["p99"]) <= 1.02 * latency["max"]


def test_the_histogram_is_read_by_others(server: NativeTestServer) -> None:
    record = run_load(spec(server))
    histogram = HdrHistogram.decode(record["histogram"])
    assert histogram.get_total_count() == record["transactions"] + record["late_transactions"]
    latency = record["latency_ms"]
    # The two libraries round the rank differently: a neighbour, so the values beside it are the bounds.
    for name, percentile in (("p50", 50), ("p90", 90)):
        low, high = (
            histogram.get_value_at_percentile(percentile + off) / 1000
            for off in (-100 / record["transactions"] - 0.1, 100 / record["transactions"] + 0.1)
        )
        assert 0.998 * low - 0.001 <= latency[name] <= 1.002 * high + 0.001
    assert histogram.get_mean_value() == pytest.approx(latency["mean"] * 1000, rel=2e-3, abs=1)


def test_the_statements_are_those_of_pgbench_value_for_value(server: NativeTestServer) -> None:
    """One client, one seed: the server logs the same statements, values and order from both."""
    options = "-c log_statement=all -c log_duration=off"
    for protocol in ("simple", "prepared"):
        name = f"ours {protocol}"
        changes = {"protocol": protocol, "clients": 1, "seed": 4711, "duration_s": 0.5, "warmup_s": 0.0}
        run_load(spec(server, {"application_name": name, "options": options}, script="tpcb", **changes))
        environment = {"PGOPTIONS": options, "PGAPPNAME": f"theirs {protocol}", "PATH": "/usr/bin:/bin"}
        command = [server.bin / "pgbench", "-n", "-M", protocol, "-t", "20", "--random-seed", "4711"]
        where = ["-h", str(server.folder), "-p", str(server.port), "-U", "postgres", "postgres"]
        subprocess.run([*command, *where], env=environment, check=True, capture_output=True)
        ours, theirs = (statements(server.logged(f"{who} {protocol}")) for who in ("ours", "theirs"))
        expected = [text for text in theirs if "count(*)" not in text and "pg_catalog" not in text]
        assert len(expected) >= 20 * 7
        begin = expected.index("BEGIN;")
        # A slow machine may get less than twenty done in the time.
        length = min(20 * 7, len(ours))
        assert length >= 7
        assert ours[:length] == expected[begin : begin + length]


def statements(lines: list[str]) -> list[str]:
    """Logged statements without the names they were prepared under, each with its parameters."""
    found = []
    for line in lines:
        statement = re.match(r"LOG:  (?:statement|execute [^:]+): (.*)", line)
        parameters = re.match(r"DETAIL:  [Pp]arameters: (.*)", line)
        if statement:
            found.append(statement[1])
        elif parameters:
            found[-1] += f" | {parameters[1]}"
    return found


def test_prepared_and_simple_differ_in_the_log(server: NativeTestServer) -> None:
    for protocol in ("prepared", "simple"):
        connect = {"application_name": f"log {protocol}", "options": "-c log_statement=all"}
        run_load(spec(server, connect, protocol=protocol, duration_s=0.1, warmup_s=0, clients=1))
    prepared, simple = server.logged("log prepared"), server.logged("log simple")
    assert any(re.match(r"LOG:  execute pgassay_0: SELECT abalance .* aid = \$1;", line) for line in prepared)
    assert any(re.match(r"LOG:  statement: SELECT abalance .* aid = \d+;", line) for line in simple)
    assert not any("execute" in line for line in simple) and not any(
        "statement:" in line for line in prepared
    )


def test_serialization_failures_are_counted_and_the_client_goes_on(server: NativeTestServer) -> None:
    with server.query_connection() as connection:
        connection.execute("truncate pgbench_history")
    options = "-c default_transaction_isolation=serializable"
    record = run_load(spec(server, {"options": options}, script="tpcb", clients=6, duration_s=0.5))
    assert record["errors"] > 0
    assert record["transactions"] > 0
    assert server.query("select count(*) from pgbench_history") == (everything(record),)


def test_scram_over_tcp(server: NativeTestServer) -> None:
    tcp = {"host": "127.0.0.1", "user": "by_scram", "password": PASSWORD}
    assert run_load(spec(server, tcp))["transactions"] > 0
    with pytest.raises(
        StatementError, match=r"client 0 could not connect.*password authentication failed"
    ) as caught:
        run_load(spec(server, tcp | {"password": "wrong"}, threads=1))
    assert caught.value.sqlstate == "28P01"
    assert "wrong" not in str(caught.value)


def test_a_statement_that_fails_is_named(server: NativeTestServer) -> None:
    with pytest.raises(StatementError, match=r"failed while preparing.*pgbench_accounts") as caught:
        run_load(spec(server, {"dbname": "template1"}))
    assert caught.value.sqlstate == "42P01"
    with pytest.raises(StatementError, match=r'in the statement "SELECT abalance .*pgbench_accounts'):
        run_load(spec(server, {"dbname": "template1"}, protocol="simple"))


def test_a_statement_that_fails_in_the_middle_ends_the_load(server: NativeTestServer) -> None:
    def rename(_: dict[str, Any]) -> None:
        server.run(
            *("psql", "-h", str(server.folder), "-p", str(server.port), "-U", "postgres", "postgres"),
            *("-c", "alter table pgbench_history rename to elsewhere"),
        )

    try:
        with pytest.raises(StatementError, match=r"INSERT INTO pgbench_history.*does not exist") as caught:
            run_load(spec(server, script="simple-update", duration_s=300.0), on_progress=rename)
    finally:
        with server.query_connection() as connection:
            connection.execute("alter table if exists elsewhere rename to pgbench_history")
    assert caught.value.sqlstate == "42P01"


@pytest.mark.parametrize("connections", [{}, {"reconnects": True}, {"pool": 1000}])
def test_too_many_connections(server: NativeTestServer, connections: dict[str, Any]) -> None:
    """A thousand where the server has room for thirty: all that were open are given back."""
    changes = {"clients": 1000, "threads": 2, "connections": connections}
    with pytest.raises(StatementError, match=r"could not connect.*too many clients") as caught:
        run_load(spec(server, {"application_name": "thousand"}, **changes))
    assert caught.value.sqlstate == "53300"
    left = "select count(*) from pg_stat_activity where application_name = 'thousand'"
    whole_tool.wait_for(lambda: server.query(left) == (0,), "connections that the load gave back")


def test_more_threads_than_clients(server: NativeTestServer) -> None:
    assert run_load(spec(server, clients=1, threads=4))["transactions"] > 0


def test_closing_standard_input_aborts(server: NativeTestServer) -> None:
    process = subprocess.Popen([binary(), "load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(spec(server, duration_s=600.0, warmup_s=0.0)).encode() + b"\n")
    process.stdin.flush()
    assert "progress" in json.loads(process.stdout.readline())
    process.stdin.close()
    assert process.wait(60) == 130
    process.stdout.close()


def test_a_callback_that_raises_ends_the_load(server: NativeTestServer) -> None:
    def stop(_: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    connect = {"application_name": "interrupted"}
    with pytest.raises(KeyboardInterrupt):
        run_load(spec(server, connect, duration_s=600.0), on_progress=stop)
    count = "select count(*) from pg_stat_activity where application_name = 'interrupted'"
    deadline = time.monotonic() + 60
    while server.query(count) != (0,):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_clients_that_wait_for_a_lock_do_not_hide_the_end(server: NativeTestServer) -> None:
    """A transaction that outlasts the interval is waited for, and counted as late."""
    with server.query_connection() as connection:
        connection.execute("begin; lock table pgbench_history in access exclusive mode")
        release = threading.Thread(target=commit_after_the_interval, args=(server, connection, 0.5))
        release.start()
        # Preparing would already wait for the lock.
        changes = {"script": "tpcb", "clients": 2, "duration_s": 0.5, "warmup_s": 0.0, "protocol": "simple"}
        with pytest.raises(StatementError, match="no transaction ended within the measured interval"):
            run_load(spec(server, **changes))
        release.join()


def commit_after_the_interval(
    server: NativeTestServer, holder: "psycopg.Connection[Any]", duration_s: float
) -> None:
    """Let go of the lock once a client has waited for it longer than the interval, which began before."""
    waiting = "select count(*) from pg_locks where not granted"
    deadline = time.monotonic() + 60
    while server.query(waiting) == (0,) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(duration_s + 0.1)
    holder.execute("commit")


def test_a_server_that_dies_is_one_clear_error(server: NativeTestServer) -> None:
    def stop(_: dict[str, Any]) -> None:
        server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "immediate", "stop")

    try:
        with pytest.raises(StatementError, match=r"client \d+ failed in the statement .*(lost|terminating)"):
            run_load(spec(server, duration_s=600.0), on_progress=stop)
    finally:
        server.start_again()
