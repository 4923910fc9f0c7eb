"""The standbys that a server knows: connected ones and those of slots, and nobody else who reads its WAL."""

import time
from typing import Any

import psycopg
import pytest

from pgassay.trial.snapshots.vacuum_state import read_holders
from pgassay.tune.facts.read import read_facts
from pgassay.tune.source.origin import holder_of
from server_helpers import best_build
from source_servers import SourceServer, source_server, standby_of

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def test_standbys_are_those_that_are_connected_or_have_a_slot() -> None:
    with source_server(best_build(), {"wal_level": "logical"}) as primary:
        primary.execute("SELECT pg_create_physical_replication_slot('spare')")
        primary.execute("SELECT pg_create_logical_replication_slot('changes', 'pgoutput')")
        with primary.connection() as session:
            assert read_facts(session).standbys == ("of slot spare",)
        with standby_of(primary), primary.connection() as session:
            assert read_facts(session).standbys == ("of slot spare", "reports")


def read_long(report: "psycopg.Connection[Any]", primary: SourceServer, held: str) -> None:
    """A query of the standby that stays open, until its primary has heard of it: then `held` finds a row."""
    report.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    report.execute("SELECT count(*) FROM orders")
    ends = time.monotonic() + 60
    while not primary.rows(held):
        assert time.monotonic() < ends
        time.sleep(0.1)


def test_a_query_of_a_standby_holds_the_dead_rows_of_its_primary() -> None:
    """By its slot and hot_standby_feedback: VACUUM on the source does not do what it does on a copy."""
    feedback = {
        "primary_slot_name": "spare", "hot_standby_feedback": "on", "wal_receiver_status_interval": "1s",
    }  # fmt: skip
    with source_server(best_build()) as primary:
        primary.execute("SELECT pg_create_physical_replication_slot('spare')")
        primary.execute("CREATE TABLE orders AS SELECT 1 AS id")
        with primary.connection() as session:
            assert holder_of(read_holders(session)) == ""
        with standby_of(primary, **feedback) as standby, standby.connection() as report:
            read_long(report, primary, "SELECT FROM pg_replication_slots WHERE xmin IS NOT NULL")
            primary.execute("UPDATE orders SET id = 2")
            with primary.connection() as session:
                assert holder_of(read_holders(session)) == "replication slot spare"


@pytest.mark.slow
def test_without_a_slot_it_is_the_standby_itself_that_holds_them() -> None:
    """Its walsender has the feedback: no session that could be ended, nor a slot that could be dropped."""
    feedback = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"}
    with source_server(best_build()) as primary:
        primary.execute("CREATE TABLE orders AS SELECT 1 AS id")
        with standby_of(primary, **feedback) as standby, standby.connection() as report:
            read_long(report, primary, "SELECT FROM pg_stat_replication WHERE backend_xmin IS NOT NULL")
            primary.execute("UPDATE orders SET id = 2")
            with primary.connection() as session:
                (holder,) = read_holders(session)
            assert (holder.kind, holder.transactions) == ("standby", 1)
            assert holder.name.endswith("(reports)")
