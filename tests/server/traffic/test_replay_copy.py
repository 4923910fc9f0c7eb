"""A COPY whose outcome is another one than in the capture: its session goes on as it did then."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from native_servers import NativeTestServer, started_server
from pgassay.model.traffic.replay_result import ReplayResult
from pgassay.traffic import manifest
from pgassay.traffic.replaying import ReplayRequest, replay
from server.traffic.captures import proxied, sql

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
COPY = b"COPY numbers FROM STDIN"
# Far less than a session that hangs would take.
SOON_S = 10.0


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        for database in ("has_table", "has_none"):
            sql(found, f"CREATE DATABASE {database}")
        sql(found, "CREATE TABLE numbers (n int)", "has_table")
        yield found


def copied(client: psycopg.Connection[tuple[object, ...]], *, is_extended: bool) -> bool:
    """Copies two rows, where the server lets it; the extended protocol has a Sync behind the COPY itself."""
    native = client.pgconn
    begun = native.exec_params(COPY, None) if is_extended else native.exec_(COPY)
    if begun.status != pq.ExecStatus.COPY_IN:
        return False
    native.put_copy_data(b"1\n2\n")
    native.put_copy_end()
    while (result := native.get_result()) is not None:
        assert result.status == pq.ExecStatus.COMMAND_OK
    return True


def captured(server: NativeTestServer, database: str, folder: Path) -> bool:
    """What a client does that copies by both protocols, with statements between; whether it was let."""
    with proxied(server.parameters(), folder) as proxy, proxy.connect(dbname=database) as client:
        came = []
        for is_extended in (False, True):
            client.execute("SELECT 1")
            came.append(copied(client, is_extended=is_extended))
            client.execute("SELECT 1, %s", ("a",))
            client.execute("SELECT count(*) FROM pg_class WHERE relname = 'pg_class'")
    manifest.write(folder, manifest.begun("proxy", 0, None, {}, []))
    assert came[0] == came[1]
    return came[0]


def played(server: NativeTestServer, database: str, folder: Path) -> ReplayResult:
    return replay(
        ReplayRequest(
            folder=folder,
            connection=f"host={server.folder} port={server.port} user=postgres dbname={database}",
            speed=None,
            allow_writes=database,
        ),
        lambda _: None,
        lambda _: None,
    )


@pytest.mark.parametrize(("then", "now"), [("has_none", "has_table"), ("has_table", "has_none")])
def test_a_copy_that_is_refused_once_and_taken_once_costs_no_other_statement(
    server: NativeTestServer, tmp_path: Path, then: str, now: str
) -> None:
    assert captured(server, then, tmp_path / "c") is (then == "has_table")
    result = played(server, now, tmp_path / "c")
    assert result.seconds < SOON_S
    assert (result.replayed, result.sessions_lost) == (8, 0)
    assert {each.text: each.diverged for each in result.families if each.diverged} == {COPY.decode(): 2}
    # What it would have copied is not there: the capture has no data, or there is no table.
    assert sql(server, "SELECT count(*) FROM numbers", "has_table") == [(4 if then == "has_table" else 0,)]
