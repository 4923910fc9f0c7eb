"""Indexes that are hidden on a private copy are as if they were not there, and whole when they are shown."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.environment.server.index_visibility import show_all_but, show_indexes

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WHOLE = ("public.item_b", "public.item_c", "public.part_a")


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as running:
        with running.query_connection() as session:
            session.autocommit = True
            session.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
            session.execute("CREATE TABLE item (a int PRIMARY KEY, b int, c int)")
            session.execute("INSERT INTO item SELECT i, i, i FROM generate_series(1, 20000) i")
            session.execute("CREATE INDEX item_b ON item (b)")
            session.execute("CREATE INDEX item_c ON item (c)")
            session.execute("CREATE TABLE part (a int, b int) PARTITION BY RANGE (b)")
            session.execute("CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10000)")
            session.execute("CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10000) TO (20001)")
            session.execute("INSERT INTO part SELECT i, i FROM generate_series(1, 20000) i")
            session.execute("CREATE INDEX part_a ON part (a)")
            session.execute("VACUUM ANALYZE")
        yield running


@pytest.fixture
def session(server: NativeTestServer) -> Iterator[psycopg.Connection[Any]]:
    with server.query_connection() as made:
        made.autocommit = True
        yield made
        show_indexes(made, WHOLE, shown=True)


def plan(session: psycopg.Connection[Any], sql: str) -> str:
    return "\n".join(row[0] for row in session.execute(f"EXPLAIN (COSTS OFF) {sql}".encode()))


def test_a_hidden_index_is_in_no_plan_of_any_session_and_comes_back_at_once(
    server: NativeTestServer, session: psycopg.Connection[Any]
) -> None:
    with server.query_connection() as other:
        other.autocommit = True
        by_b, by_c = "SELECT * FROM item WHERE b = 7", "SELECT * FROM item WHERE c = 7"
        assert "item_b" in plan(other, by_b) and "item_c" in plan(other, by_c)
        show_indexes(session, ["public.item_b"], shown=False)
        assert "Seq Scan" in plan(other, by_b) and "item_c" in plan(other, by_c)
        show_all_but(session, WHOLE, ["public.item_c"])
        assert "item_b" in plan(other, by_b) and "Seq Scan" in plan(other, by_c)
        show_all_but(session, WHOLE, [])
        assert "item_c" in plan(other, by_c)


def test_the_parts_of_a_partitioned_index_go_with_it(session: psycopg.Connection[Any]) -> None:
    query = "SELECT * FROM part WHERE a = 7"
    assert plan(session, query).count("Seq Scan") == 0
    show_indexes(session, ["public.part_a"], shown=False)
    assert plan(session, query).count("Seq Scan") == 2
    show_indexes(session, ["public.part_a"], shown=True)
    assert plan(session, query).count("Seq Scan") == 0


def test_what_is_written_and_rolled_back_meanwhile_leaves_the_index_whole(
    session: psycopg.Connection[Any],
) -> None:
    show_indexes(session, ["public.item_b"], shown=False)
    for sql in ("UPDATE item SET b = -b", "INSERT INTO item VALUES (-1, -1, -1)", "DELETE FROM item"):
        with session.transaction(force_rollback=True):
            session.execute(sql.encode())
    # No write maintained it: the tuples that were rolled back are in no index entry of it.
    show_indexes(session, ["public.item_b"], shown=True)
    session.execute("SELECT bt_index_check('item_b', true)")
    session.execute("SET enable_seqscan = off")
    rows = session.execute("SELECT count(*), sum(b) FROM item WHERE b > 0").fetchone()
    assert rows == (20000, 20000 * 20001 // 2)
    assert session.execute("SELECT a FROM item WHERE b = 4711").fetchall() == [(4711,)]


def test_a_write_does_not_maintain_what_is_hidden(session: psycopg.Connection[Any]) -> None:
    def wal_bytes_of_update() -> int:
        with session.transaction(force_rollback=True):
            row = session.execute("EXPLAIN (ANALYZE, WAL, FORMAT JSON) UPDATE item SET a = -a").fetchone()
        return int(row[0][0]["Plan"]["WAL Records"]) if row else 0

    session.execute("VACUUM item")
    with_both = wal_bytes_of_update()
    show_indexes(session, ["public.item_b", "public.item_c"], shown=False)
    session.execute("VACUUM (INDEX_CLEANUP off) item")
    assert wal_bytes_of_update() < with_both


def test_a_name_that_no_index_has_is_refused(session: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error):
        show_indexes(session, ["public.nothing"], shown=False)


def test_a_session_that_only_reads_as_another_role_switches_too(
    server: NativeTestServer, session: psycopg.Connection[Any]
) -> None:
    """Its arm may set default_transaction_read_only or role."""
    session.execute("DO $$ BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    with server.query_connection() as other:
        other.autocommit = True
        other.execute("SET default_transaction_read_only = on")
        other.execute("SET ROLE reader")
        show_all_but(other, WHOLE, ["public.item_b"])
        assert "Seq Scan" in plan(session, "SELECT * FROM item WHERE b = 7")
        show_all_but(other, WHOLE, [])
        assert "item_b" in plan(session, "SELECT * FROM item WHERE b = 7")
        assert other.execute("SHOW role").fetchone() == ("reader",)
