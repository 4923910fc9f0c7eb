"""The standbys that a server knows: connected ones and those of slots, and nobody else who reads its WAL."""

import pytest

from pgassay.tune.facts.read import read_facts
from server_helpers import best_build
from source_servers import source_server, standby_of

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def test_standbys_are_those_that_are_connected_or_have_a_slot() -> None:
    with source_server(best_build(), {"wal_level": "logical"}) as primary:
        primary.execute("SELECT pg_create_physical_replication_slot('spare')")
        primary.execute("SELECT pg_create_logical_replication_slot('changes', 'pgoutput')")
        with primary.connection() as session:
            assert read_facts(session).standbys == ("of slot spare",)
        with standby_of(primary), primary.connection() as session:
            assert read_facts(session).standbys == ("of slot spare", "reports")
