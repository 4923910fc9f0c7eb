"""A capture played against a copy: what comes out is what came out, and what doesn't is said."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest

import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.environment.remote.local_server import NotLocal
from pgassay.errors import UsageError
from pgassay.model.traffic.replay_result import ReplayResult
from pgassay.report.schema import REPLAY
from pgassay.running_server import open_server
from pgassay.running_server.server_profile import profiled_server
from pgassay.traffic import manifest
from pgassay.traffic.replaying import ReplayRequest, ReplayStart, replay
from pgassay.traffic.tables import Touch, words_of
from server.traffic.captures import Proxy, proxied, renew, sql

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
BALANCES = """
SELECT sum(abalance), (SELECT sum(bbalance) FROM pgbench_branches), (SELECT count(*) FROM pgbench_history),
       md5(string_agg(aid || ':' || abalance, ',' ORDER BY aid))
FROM pgbench_accounts
"""
SHOP = """
CREATE TABLE customers (id bigserial PRIMARY KEY, email text UNIQUE NOT NULL, name text);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers, status text);
CREATE TABLE lines (id bigserial PRIMARY KEY, order_id bigint NOT NULL REFERENCES orders, quantity int);
CREATE VIEW waiting AS SELECT * FROM orders WHERE status = 'new';
CREATE FUNCTION close_order(number bigint) RETURNS void LANGUAGE sql AS
    $$ UPDATE orders SET status = 'closed' WHERE id = number $$;
INSERT INTO customers (email) SELECT 'c' || i || '@x' FROM generate_series(1, 1000) i;
INSERT INTO orders (customer_id, status) SELECT 1 + i % 1000, 'done' FROM generate_series(1, 2000) i;
"""
TOTALS = """
SELECT (SELECT string_agg(status || n, ',' ORDER BY status)
        FROM (SELECT status, count(*) AS n FROM orders GROUP BY 1) s),
       (SELECT sum(quantity) FROM lines), (SELECT count(*) FROM customers),
       (SELECT count(*) FROM lines l JOIN orders o ON o.id = l.order_id WHERE o.status = 'paid')
"""


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        yield found


def describe(folder: Path) -> None:
    """What the command writes beside the proxy's files."""
    manifest.write(folder, manifest.begun("proxy", 0, None, {}, []))


def ignored(_: object) -> None:
    pass


def played(server: NativeTestServer, folder: Path, database: str, **changes: Any) -> ReplayResult:
    request = ReplayRequest(
        folder=folder,
        connection=f"host={server.folder} port={server.port} user=postgres dbname={database}",
        **({"allow_writes": database} | changes),
    )
    return replay(request, ignored, ignored)


def pgbench(server: NativeTestServer, proxy: Proxy, database: str, *words: str) -> None:
    command = [server.bin / "pgbench", "-n", "-h", "127.0.0.1", "-p", str(proxy.port), "-U", "postgres"]
    subprocess.run([*command, *words, database], check=True, capture_output=True)


@pytest.fixture(scope="module")
def tpcb(server: NativeTestServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of tpcb by eight sessions on two branches, whose rows all of them want."""
    folder = tmp_path_factory.mktemp("tpcb") / "c"
    renew(server, "bank", "postgres")
    with proxied(server.parameters(), folder) as proxy:
        pgbench(server, proxy, "bank", "-c", "8", "-j", "2", "-t", "60", "-M", "prepared")
        proxy.end()
    describe(folder)
    return folder


@pytest.mark.parametrize("speed", [1.0, None])
def test_sessions_that_want_the_same_rows_come_out_as_they_did(
    server: NativeTestServer, tpcb: Path, speed: float | None
) -> None:
    renew(server, "copy", "postgres")
    result = played(server, tpcb, "copy", speed=speed)
    assert (result.diverged, result.lacking, result.sessions_lost) == (0, 0, 0)
    assert result.replayed == result.statements > 8 * 60 * 7
    assert sql(server, BALANCES, "copy") == sql(server, BALANCES, "bank")
    assert sum(each.calls for each in result.families) == result.statements


def test_another_copy_than_the_capture_s_is_not_valid(server: NativeTestServer, tpcb: Path) -> None:
    renew(server, "copy", "postgres")
    sql(server, "DELETE FROM pgbench_accounts WHERE aid % 2 = 0", "copy")
    result = played(server, tpcb, "copy", speed=None)
    assert not result.is_valid
    assert result.diverged_share > result.bound
    worst = max(result.families, key=lambda each: each.diverged)
    assert worst.example is not None
    assert (worst.example.captured, worst.example.now) in (("UPDATE 1", "UPDATE 0"), ("SELECT 1", "SELECT 0"))


def shop_session(proxy: Proxy, seed: int, made: list[int], lock: threading.Lock) -> None:
    """One of an application's sessions; orders are made by one and paid by another."""
    with proxy.connect(dbname="shop", autocommit=False, prepare_threshold=2) as client:
        for turn in range(60):
            if turn % 3 == 0:
                with client.transaction():
                    email = f"s{seed}-{turn}@y"
                    text = "INSERT INTO customers (email) VALUES (%s) RETURNING id"
                    customer = client.execute(text, (email,)).fetchone()
                    assert customer is not None
                    number = customer[0] if turn % 2 else 1 + (seed * 97 + turn) % 1000
                    text = "INSERT INTO orders (customer_id, status) VALUES (%s, 'new') RETURNING id"
                    order = client.execute(text, (number,)).fetchone()
                    assert order is not None
                    line = "INSERT INTO lines (order_id, quantity) VALUES (%s, %s)"
                    client.execute(line, (order[0], turn % 5))
                    client.execute("SAVEPOINT a")
                    client.execute(line, (order[0], 100))
                    client.execute("ROLLBACK TO a")
                with lock:
                    made.append(order[0])
            elif turn % 3 == 1:
                with lock:
                    paid = made.pop(0) if made else None
                if paid is not None:
                    with client.transaction():
                        text = "SELECT status FROM waiting WHERE id = %s"
                        assert client.execute(text, (paid,)).fetchone() == ("new",)
                        client.execute(f"UPDATE orders SET status = 'paid' WHERE id = {paid}")
            else:
                with client.transaction():
                    client.execute("SELECT pg_advisory_xact_lock(%s)", (turn % 2,))
                    client.execute("SELECT close_order(%s)", (1 + turn,))
                    with client.cursor().copy("COPY lines (order_id, quantity) FROM STDIN") as copy:
                        copy.write_row((1 + turn, 7))


def test_keys_that_one_session_makes_and_another_uses_are_the_new_ones(
    server: NativeTestServer, tmp_path: Path
) -> None:
    sql(server, "DROP DATABASE IF EXISTS shop")
    sql(server, "CREATE DATABASE shop")
    for statement in SHOP.split(";\n"):
        if statement.strip():
            sql(server, statement, "shop")
    renew(server, "shop_before", "shop")
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        made: list[int] = []
        lock = threading.Lock()
        sessions = [
            threading.Thread(target=shop_session, args=(proxy, seed, made, lock)) for seed in range(6)
        ]
        for session in sessions:
            session.start()
        for session in sessions:
            session.join()
        proxy.end()
    describe(tmp_path / "c")
    renew(server, "copy", "shop_before")
    # All keys become others, as where a rolled-back transaction is missing.
    sql(server, "SELECT setval('orders_id_seq', 15000), setval('customers_id_seq', 17000)", "copy")
    result = played(server, tmp_path / "c", "copy", speed=None)
    came = [(each.text, each.example) for each in result.families if each.diverged]
    assert came == []
    assert result.replaced > 100
    assert sql(server, TOTALS, "copy") == sql(server, TOTALS, "shop")
    assert sql(server, "SELECT min(id) > 15000 FROM orders WHERE id > 2000", "copy") == [(True,)]


def test_writes_need_their_database_named(server: NativeTestServer, tpcb: Path) -> None:
    with pytest.raises(UsageError, match=r"may write .* --allow-writes postgres"):
        played(server, tpcb, "postgres", allow_writes=None)
    with pytest.raises(UsageError, match="names another database than postgres"):
        played(server, tpcb, "postgres", allow_writes="shop")
    assert sql(server, "SELECT count(*) FROM pgbench_history") == [(0,)]


def test_what_there_is_not_is_refused(server: NativeTestServer, tpcb: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no sessions in it, but in bank"):
        played(server, tpcb, "copy", databases=("shop",))
    with pytest.raises(UsageError, match="no sessions of nobody"):
        played(server, tpcb, "copy", users=("nobody",))
    with pytest.raises(UsageError, match="capture"):
        played(server, tmp_path, "copy")


def test_a_server_that_goes_away_ends_the_replay_with_what_was_played(
    server: NativeTestServer, tpcb: Path
) -> None:
    renew(server, "copy", "postgres")
    sql(server, "ALTER DATABASE copy CONNECTION LIMIT 4")
    sql(server, "DROP ROLE IF EXISTS plain")
    sql(server, "CREATE ROLE plain LOGIN")
    sql(server, "GRANT ALL ON ALL TABLES IN SCHEMA public TO plain", "copy")
    request = ReplayRequest(
        folder=tpcb,
        connection=f"host={server.folder} port={server.port} user=plain dbname=copy",
        allow_writes="copy",
    )
    result = replay(request, ignored, ignored)
    assert not result.is_valid
    assert result.sessions_lost >= 4
    assert any("too many connections" in why for why in result.failures)
    assert result.replayed + result.diverged >= result.statements


def test_the_command_prints_the_document(server: NativeTestServer, tpcb: Path) -> None:
    renew(server, "copy", "postgres")
    dsn = f"host={server.folder} port={server.port} user=postgres dbname=copy"
    command = [sys.executable, "-m", "pgassay.cli.main", "replay", str(tpcb), dsn]
    command += ["--allow-writes", "copy", "--speed", "4"]
    finished = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert finished.returncode in (0, 3), finished.stderr
    document = json.loads(finished.stdout)
    assert document["statements"] == document["replayed"]
    assert {"text", "calls", "diverged", "seconds_captured", "seconds"} <= set(document["families"][0])
    assert document["player"]["cpu_s"] > 0
    assert "Ctrl-C ends the replay" in finished.stderr
    refused = subprocess.run([*command, "fast"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2


def test_a_copy_that_nobody_analysed_is_told_before_it_is_played(
    server: NativeTestServer, tpcb: Path
) -> None:
    renew(server, "copy", "postgres")
    before: list[ReplayStart] = []
    sql(server, "CREATE TABLE heap (n int); ALTER TABLE heap SET (autovacuum_enabled = off)", "copy")
    sql(server, "INSERT INTO heap SELECT generate_series(1, 100)", "copy")
    connection = f"host={server.folder} port={server.port} user=postgres dbname=copy"
    request = ReplayRequest(tpcb, connection, speed=None, allow_writes="copy")
    result = replay(request, before.append, ignored)
    note = next(each for each in result.notes if "never analysed" in each)
    assert "heap" in note and "run ANALYZE on the copy" in note
    assert note in before[0].notes
    sql(server, "ANALYZE", "copy")
    assert not any("analysed" in each for each in replay(request, ignored, ignored).notes)


def test_words_stand_for_the_tables_behind_them(server: NativeTestServer) -> None:
    renew(server, "words", "template1")
    for statement in SHOP.split(";\n"):
        if statement.strip():
            sql(server, statement, "words")
    with psycopg.connect(
        host=str(server.folder), port=server.port, user="postgres", dbname="words"
    ) as connection:
        found, end = words_of(connection, 10)
    (orders,) = found["orders"].reads
    (customers,) = found["customers"].reads
    assert found["waiting"] == Touch(reads={orders}, is_numbered=True)
    # A sequence stands for the table that has it.
    assert found["orders_id_seq"] == Touch(reads={orders})
    assert found["orders"].refers == {customers}
    assert found["close_order"].writes == {orders}
    # Three tables, and the advisory locks.
    assert end == 14


def test_perf_samples_the_server_meanwhile(
    server: NativeTestServer, tpcb: Path, require: Callable[..., None], tmp_path: Path
) -> None:
    require("perf")
    renew(server, "copy", "postgres")
    dsn = f"host={server.folder} port={server.port} user=postgres dbname=copy"
    page = tmp_path / "replay.html"
    words = ("replay", tpcb, dsn, "--allow-writes", "copy", "--speed", "max", "--profile")
    finished = whole_tool.run(*words, "--json", "--html", page)
    assert finished.returncode in (0, 3), finished.stderr
    document = json.loads(finished.stdout)
    jsonschema.validate(document, REPLAY.schema(), cls=jsonschema.Draft202012Validator)
    found = document["profile"]
    assert found["unit"] == "statement" and found["samples"] > 0
    # All time per statement is what the server took for it, in both places.
    assert found["us"] == pytest.approx(
        found["samples"] / found["rate_hz"] / document["replayed"] * 1e6, rel=1e-6
    )
    assert sum(each["share"] for each in found["functions"]) <= 1.001
    assert "PortalRun" in {each["name"] for each in found["callers"]}
    assert 'class="flame' in page.read_text("utf-8")
    shown = whole_tool.run(*words, "--databases", "bank")
    assert "CPU time of the server's processes: " in " ".join(shown.stdout.split())


def test_where_sessions_wait_is_in_the_profile(
    server: NativeTestServer, require: Callable[..., None]
) -> None:
    require("perf")
    dsn = f"host={server.folder} port={server.port} user=postgres dbname=postgres"
    profiled = profiled_server(dsn)
    with profiled.sampled() as samples, psycopg.connect(dsn, autocommit=True) as session:
        for _ in range(200):
            session.execute("SELECT pg_sleep(0.002)")
    found, _ = samples.profile(200, "statement")
    if not profiled.has_waits:
        assert not found.waiting
        assert any(note.startswith("waiting is not known by function") for note in found.notes)
        return
    (sleeping,) = [each for each in found.waiting if each.name == "pg_sleep"]
    # One wait in 13 is noted and stands for all.
    assert sleeping.share > 0.5 and sleeping.us > 1000
    assert "secure_read" not in {each.name for each in found.waiting}


def test_a_server_elsewhere_is_not_profiled(
    server: NativeTestServer, require: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes are not to be seen under the numbers that it says."""
    require("perf")
    elsewhere = NotLocal("it runs on another machine, in a container, or hidden from this account")
    monkeypatch.setattr(open_server, "server_of", lambda *_, **__: elsewhere)
    with pytest.raises(UsageError, match="run pgassay where the server runs, or leave --profile out"):
        profiled_server(f"host={server.folder} port={server.port} user=postgres dbname=postgres")
