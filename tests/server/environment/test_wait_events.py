"""Every wait event that a server knows is in a group: none vanishes from the accounts."""

from collections.abc import Iterator

import pytest

from pgassay.analysis.accounts.wait_groups import READS, TEMPORARY, WAL, group_of
from pgassay.environment.builds.registry import resolve
from pgassay.errors import UsageError
from source_servers import SourceServer, source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(
    params=[pytest.param("17", marks=pytest.mark.slow), "18", pytest.param("19", marks=pytest.mark.slow)],
    scope="module",
)
def server(request: pytest.FixtureRequest) -> Iterator[SourceServer]:
    try:
        build = resolve(request.param)
    except UsageError:
        pytest.skip(f"no PostgreSQL {request.param} at hand")
    with source_server(build, {"shared_preload_libraries": ""}) as server:
        yield server


def test_every_event_has_a_group(server: SourceServer) -> None:
    events = server.rows("SELECT type, name FROM pg_wait_events")
    assert len(events) > 200
    assert not [(kind, name) for kind, name in events if not group_of(kind, name)]


def test_the_names_that_are_known_are_the_server_s(server: SourceServer) -> None:
    """A name that no version spells so would count nothing."""
    names = {name for (name,) in server.rows("SELECT name FROM pg_wait_events")}
    for known in (READS, TEMPORARY, WAL):
        assert known & names
    assert {
        "DataFileWrite",
        "DataFileExtend",
        "SlruRead",
        "WALInsert",
        "CheckpointDone",
        "SpinDelay",
    } <= names
