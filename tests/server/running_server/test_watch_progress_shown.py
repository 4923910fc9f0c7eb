"""`pgassay watch` of a real server in which commands are held in the middle of their work."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import jsonschema
import psycopg
import pytest

import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.report import schema

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


_HELD = """
CREATE TABLE held AS SELECT i FROM generate_series(1, 100) i;
CREATE FUNCTION held_up(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE
    AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN i; END'"""


def test_commands_that_tell_how_far_they_are_are_shown(server: NativeTestServer) -> None:
    """A VACUUM that sleeps after each page, and a CREATE INDEX that waits for a lock in its first row."""
    dsn = f"host={server.folder} port={server.port} user=postgres dbname=postgres"
    with (
        server.query_connection() as holder,
        server.query_connection() as building,
        server.query_connection() as vacuuming,
    ):
        holder.execute(_HELD)
        for slow in ("vacuum_cost_delay = 100", "vacuum_cost_limit = 1", "track_cost_delay_timing = on"):
            vacuuming.execute(f"SET {slow}".encode())
        holder.execute("SELECT pg_advisory_lock(4711)")
        indexed = threading.Thread(target=building.execute, args=("CREATE INDEX ON held (held_up(i))",))
        vacuumed = threading.Thread(
            target=_until_cancelled, args=(vacuuming, "VACUUM (DISABLE_PAGE_SKIPPING) pgbench_accounts")
        )
        indexed.start()
        vacuumed.start()
        try:
            while holder.execute("SELECT count(*) FROM pg_stat_progress_create_index").fetchone() == (0,):
                time.sleep(0.01)
            while holder.execute(
                "SELECT count(*) FROM pg_stat_progress_vacuum WHERE heap_blks_scanned > 0"
            ).fetchone() == (0,):
                time.sleep(0.01)
            finished = whole_tool.run("watch", dsn, "--seconds", "0.5", "--json")
            plain = whole_tool.run("watch", dsn, "--seconds", "0.5").stdout
        finally:
            vacuuming.cancel()
            holder.execute("SELECT pg_advisory_unlock(4711)")
            indexed.join()
            vacuumed.join()
            holder.execute("DROP TABLE held; DROP FUNCTION held_up")
    document = json.loads(finished.stdout.splitlines()[-1])
    jsonschema.validate(document, schema.WATCH.schema(), cls=jsonschema.Draft202012Validator)
    found = {each["command"]: each for each in document["server"]["progress"]}
    assert set(found) == {"VACUUM", "CREATE INDEX"}
    vacuum, index = found["VACUUM"], found["CREATE INDEX"]
    assert (vacuum["relation"], vacuum["phase"]) == ("pgbench_accounts", "scanning heap")
    assert 0 < vacuum["done"] < vacuum["total"]
    assert vacuum["dead_rows_bytes_max"] > 0
    assert vacuum["delay_ms"] is not None
    assert (index["relation"], index["autovacuum"]) == ("held", False)
    assert "building index" in index["phase"]
    assert "VACUUM pgbench_accounts: scanning heap" in plain


def _until_cancelled(session: psycopg.Connection[Any], command: str) -> None:
    with suppress(psycopg.errors.QueryCanceled):
        session.execute(command)
