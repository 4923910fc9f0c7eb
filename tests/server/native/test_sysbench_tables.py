"""How sysbench's tables are made: with the sessions that there are, and without waiting for the disk."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.native.process import StatementError
from pgassay.native.sysbench_commands import make_tables

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
INDEXES = (
    "select array_agg(indexname::text order by indexname) from pg_indexes where tablename like 'sbtest%'"
)
UNFLUSHED = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn())::int"


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        # What nobody waits for stays in memory for a while.
        with server.query_connection() as connection:
            connection.execute("alter system set wal_writer_delay = '10s'")
            connection.execute("alter system set wal_writer_flush_after = '1GB'")
            connection.execute("select pg_reload_conf()")
        yield server


@pytest.fixture(autouse=True)
def no_tables(server: NativeTestServer) -> Iterator[None]:
    yield
    with server.query_connection() as connection:
        connection.execute("drop table if exists sbtest1, sbtest2, sbtest3")


def made(server: NativeTestServer, tables: int, jobs: int, **changes: Any) -> list[tuple[int, str]]:
    steps: list[tuple[int, str]] = []
    spec = {"connect": server.parameters(**changes), "tables": tables, "jobs": jobs}
    spec |= {"table_size": 500, "seed": 1}
    make_tables(spec, lambda number, step: steps.append((number, step)))
    return steps


def test_all_is_on_the_server_s_disk_when_it_is_said_to_be_made(server: NativeTestServer) -> None:
    steps = made(server, 3, 2)
    assert sorted(steps) == sorted((n, step) for n in (1, 2, 3) for step in ("create", "insert", "index"))
    # What the server itself logs meanwhile is no kilobyte; the indexes of the last table are more.
    assert server.query(UNFLUSHED)[0] < 1000
    assert server.query(INDEXES)[0] == [f"{name}{n}{end}" for name, end in _NAMES for n in (1, 2, 3)]


_NAMES = (("k_", ""), ("sbtest", "_pkey"))


def test_only_the_last_commit_waits(server: NativeTestServer) -> None:
    """By a role whose own setting waits for nothing, nothing is waited for."""
    with server.query_connection() as connection:
        connection.execute("create role hasty superuser login; alter role hasty set synchronous_commit = off")
        connection.execute("checkpoint")
    made(server, 1, 1, user="hasty")
    assert server.query(UNFLUSHED)[0] > 50_000


def test_a_server_without_room_for_more_sessions_builds_indexes_one_after_another(
    server: NativeTestServer,
) -> None:
    with ExitStack() as held:
        with suppress(psycopg.OperationalError):
            while True:
                last = held.enter_context(server.query_connection())
        # A superuser's own last one: the loader has this session alone, whatever it would like.
        last.close()
        steps = made(server, 2, 2)
    assert [step for _, step in steps] == ["create", "insert", "index"] * 2
    assert server.query(INDEXES)[0] == [f"{name}{n}{end}" for name, end in _NAMES for n in (1, 2)]


def test_an_index_that_can_t_be_built_is_told(server: NativeTestServer) -> None:
    with server.query_connection() as connection:
        connection.execute("create table k_1 (a int)")
        try:
            with pytest.raises(StatementError, match='relation "k_1" already exists'):
                made(server, 1, 1)
        finally:
            connection.execute("drop table k_1")
