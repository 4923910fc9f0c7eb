"""Connections of a load that are shared, grow old, are idle in a transaction, or lost, on a real server."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hdrh.histogram import HdrHistogram

from native_servers import SCALE, NativeTestServer, started_server
from pgassay.native.load import run_load
from pgassay.native.process import StatementError

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


def spec(server: NativeTestServer, name: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "connect": server.parameters(application_name=name),
        "script": "tpcb",
        "scale": SCALE,
        "clients": 12,
        "threads": 2,
        "protocol": "prepared",
        "duration_s": 1.0,
        "warmup_s": 0.2,
        "seed": 7,
    }
    return usual | changes


def sessions(server: NativeTestServer, name: str, state: str = "%") -> int:
    query = "select count(*) from pg_stat_activity where application_name = %s and state like %s"
    with server.query_connection() as connection:
        row = connection.execute(query, (name, state)).fetchone()
    assert row is not None
    return int(row[0])


def everything(record: Any) -> int:
    return int(record["warmup_transactions"] + record["transactions"] + record["late_transactions"])


@pytest.mark.parametrize(
    "protocol", ["prepared", *(pytest.param(name, marks=pytest.mark.slow) for name in ("extended", "simple"))]
)
def test_clients_share_a_pool_and_their_waits_are_told(server: NativeTestServer, protocol: str) -> None:
    with server.query_connection() as connection:
        connection.execute("truncate pgbench_history")
    seen: list[int] = []
    record = run_load(
        spec(server, f"pool {protocol}", protocol=protocol, connections={"pool": 3}, duration_s=2.5),
        on_progress=lambda _: seen.append(sessions(server, f"pool {protocol}")),
    )
    assert seen and set(seen) == {3}
    assert server.query("select count(*) from pgbench_history") == (everything(record),)
    held = record["connections"]
    assert held is not None and held["opened"] == held["lost"] == held["abandoned"] == 0
    # Four clients for each connection: three quarters of a latency are a wait for one.
    latency, wait = record["latency_ms"]["mean"], held["wait_ms"]["mean"]
    assert 0.5 * latency < wait < latency
    found = HdrHistogram.decode(held["wait_histogram"])
    assert found.get_total_count() == record["transactions"] + record["late_transactions"]
    # Little's law holds with the waits in the latencies.
    assert 0.5 < record["transactions"] / record["elapsed_s"] * latency / 1e3 / 12 < 1.5


def test_scripts_share_what_is_prepared_with_their_connection(server: NativeTestServer) -> None:
    text = (
        "\\set aid random(1, 1000)\nBEGIN;\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;\n"
    )
    scripts = [{"name": "a.sql", "text": text}, {"name": "b.sql", "text": "SELECT :client_id;"}]
    changes = {"script": None, "scripts": scripts, "connections": {"pool": 2, "lifetime_s": 0.2}}
    record = run_load(spec(server, "scripts", clients=5, **changes))
    assert record["errors"] == 0 and record["transactions"] > 100
    assert record["connections"] is not None and record["connections"]["opened"] >= 1
    by_place = {(each["script"], each["line"]): each for each in record["statements"]}
    assert set(by_place) == {("a.sql", 2), ("a.sql", 3), ("a.sql", 4), ("b.sql", 1)}
    assert (
        by_place["a.sql", 3]["count"] == by_place["a.sql", 4]["count"] == record["kinds"][0]["transactions"]
    )
    assert by_place["a.sql", 3]["text"].startswith("SELECT abalance")


def test_connections_are_closed_after_their_lifetime(server: NativeTestServer) -> None:
    record = run_load(spec(server, "old", clients=4, connections={"lifetime_s": 0.25}, duration_s=2.0))
    held = record["connections"]
    # Eight generations of four, less what a busy machine takes.
    assert held is not None and 12 <= held["opened"] <= 40
    assert held["opening_ms"]["mean"] > 0 and held["lost"] == 0
    each = run_load(spec(server, "each", clients=2, connections={"lifetime_s": 0.0}, script="select-only"))
    held = each["connections"]
    assert held is not None
    assert abs(held["opened"] - each["transactions"]) <= 4
    assert held["wait_ms"]["p50"] > each["latency_ms"]["p50"] / 2


def test_a_transaction_lies_idle_before_its_end(server: NativeTestServer) -> None:
    seen: list[int] = []
    record = run_load(
        spec(server, "idle", clients=4, threads=1, idle_in_transaction_s=0.05, duration_s=3.0, warmup_s=0.0),
        on_progress=lambda _: seen.append(sessions(server, "idle", "idle in transaction")),
    )
    assert max(seen) >= 1
    # Accounts are locked meanwhile; a pause is in no latency of its own transaction.
    statements = {each["text"]: each for each in record["statements"]}
    assert statements["END;"]["latency_ms"]["p50"] < 20
    assert record["transactions"] < 4 * 3 / 0.05 * 1.3
    script = "BEGIN;\nSELECT 1;\nCOMMIT;\n"
    changes = {"script": None, "scripts": [{"name": "s.sql", "text": script}], "clients": 1, "threads": 1}
    of_script = run_load(spec(server, "idle", idle_in_transaction_s=0.02, **changes))
    assert 10 < of_script["transactions"] < 120
    assert of_script["latency_ms"]["p50"] < 10


def kill(server: NativeTestServer, name: str) -> None:
    with server.query_connection() as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", (name,)
        )


def test_clients_reconnect_after_their_sessions_were_ended(server: NativeTestServer) -> None:
    done: list[int] = []

    def once(told: Any) -> None:
        if told["second"] == 1:
            kill(server, "ended")
        done.append(told["transactions"])

    for pool in ({}, {"pool": 4}):
        done.clear()
        connections = {"reconnects": True, **pool}
        record = run_load(
            spec(server, "ended", connections=connections, duration_s=3.0, warmup_s=0.0), on_progress=once
        )
        held = record["connections"]
        assert held is not None and held["lost"] == pool.get("pool", 12)
        assert 0 < record["states"]["57P01"]["count"] <= held["lost"]
        assert record["errors"] == sum(each["count"] for each in record["states"].values())
        assert done[-1] > 0 and held["abandoned"] == 0


def test_an_outage_is_measured_and_told(server: NativeTestServer) -> None:
    data = ("-D", str(server.folder / "data"), "-w", "-l", str(server.log))

    def restart() -> None:
        server.run("pg_ctl", *data, "-m", "immediate", "stop")
        time.sleep(1.0)
        server.run("pg_ctl", *data, "start")

    threads: list[threading.Thread] = []

    def begin(told: Any) -> None:
        if told["second"] == 1:
            threads.append(threading.Thread(target=restart))
            threads[0].start()

    record = run_load(
        spec(server, "outage", connections={"reconnects": True}, duration_s=6.0, warmup_s=0.0),
        on_progress=begin,
    )
    threads[0].join()
    held = record["connections"]
    assert held is not None and held["lost"] >= 12
    (outage,) = held["outages"]
    assert outage["is_over"] and 0.5 < outage["from_s"] < 3 and 1.0 <= outage["length_s"] < 5
    assert {"08001"} <= set(held["refused"]) <= {"08001", "57P03"}
    assert set(record["states"]) <= {"57P01", "57P02", "08006"} and record["errors"] > 0
    # The transactions that wanted a connection meanwhile have that in their latencies.
    assert record["latency_ms"]["max"] / 1e3 > outage["length_s"] - 0.6
    # An outage of less than two seconds may leave each second a part.
    assert min(record["per_second"]) < max(record["per_second"]) / 2


def test_without_reconnecting_the_end_says_what_was_measured(server: NativeTestServer) -> None:
    def once(told: Any) -> None:
        if told["second"] == 2:
            kill(server, "lost")

    with pytest.raises(
        StatementError, match=r"[\d,]+ transactions had ended .*measured until then"
    ) as caught:
        run_load(spec(server, "lost", duration_s=60.0, warmup_s=0.0), on_progress=once)
    # A client that was sending may meet the closed socket before the server's last words.
    assert caught.value.sqlstate in ("57P01", None)
    with pytest.raises(StatementError, match="the warm-up was not over"):
        run_load(spec(server, "lost", duration_s=5.0, warmup_s=60.0), on_progress=once)


def test_a_password_that_became_wrong_ends_the_load(server: NativeTestServer) -> None:
    with psycopg.connect(**server.parameters(dbname="postgres"), autocommit=True) as connection:
        connection.execute("create role passing superuser login")
        try:
            connect = server.parameters(user="passing", application_name="passing")

            def rename(told: Any) -> None:
                if told["second"] == 1:
                    connection.execute("alter role passing rename to passed")
                    kill(server, "passing")

            connections = {"reconnects": True}
            with pytest.raises(StatementError, match="could not be opened again"):
                run_load(
                    spec(server, "", connect=connect, connections=connections, duration_s=30.0, warmup_s=0.0),
                    on_progress=rename,
                )
        finally:
            connection.execute("drop role if exists passing; drop role if exists passed")


def test_seconds_are_told_with_percentiles_and_queues(server: NativeTestServer) -> None:
    told: list[Any] = []
    pace = {"rates": [[0, 3_000_000.0]], "drain_s": 0.0}
    run_load(spec(server, "live", pace=pace, duration_s=4.0), on_progress=told.append)
    # A thread that gets no processor in time says it a second later.
    assert max(each["queue"] for each in told) >= 100_000
    seen = [each for each in told if each["p50_ms"] is not None]
    assert seen and all(0 < each["p50_ms"] <= each["p99_ms"] for each in seen)
