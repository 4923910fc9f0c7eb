"""`--from`: a replay that begins in the middle finds its sessions as their clients had set them up."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.model.traffic.replay_result import ReplayResult
from pgassay.traffic import manifest
from pgassay.traffic.events import events
from pgassay.traffic.replaying import ReplayRequest, replay
from pgassay.traffic.statement_executions import statements
from server.traffic.captures import proxied

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
COPY = "CREATE TABLE notes (id bigserial PRIMARY KEY, text text)"


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        with found.query_connection() as session:
            session.execute(COPY)
        yield found


@pytest.fixture(scope="module")
def captured(server: NativeTestServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("part") / "c"
    with proxied(server.parameters(), folder) as proxy:
        gone = proxy.connect()
        gone.execute("INSERT INTO notes (text) VALUES ('of a session that ended')")
        gone.close()
        with proxy.connect(prepare_threshold=0) as client, proxy.connect(autocommit=False) as busy:
            client.execute("SET search_path = pg_catalog, public")
            client.execute("SET work_mem = '4MB'")
            client.execute("SET LOCAL work_mem = '1MB'")
            client.execute("PREPARE one AS SELECT 1")
            for number in range(3):
                client.execute("INSERT INTO notes (text) VALUES (%s)", (f"early {number}",))
            busy.execute("INSERT INTO notes (text) VALUES ('begun before')")
            time.sleep(0.3)
            for number in range(3):
                client.execute("INSERT INTO notes (text) VALUES (%s)", (f"late {number}",))
            client.execute("SELECT current_setting('work_mem'), current_setting('search_path')")
            client.execute("EXECUTE one")
            busy.execute("INSERT INTO notes (text) VALUES ('still the same transaction')")
            busy.commit()
            busy.execute("INSERT INTO notes (text) VALUES ('of its next')")
            busy.commit()
        proxy.end()
    manifest.write(folder, manifest.begun("proxy", 0, None, {}, []))
    return folder


def middle_s(folder: Path) -> float:
    """A time in the pause."""
    found = [each.start_ns for each in statements(events(folder)) if each.text.startswith("INSERT")]
    pauses = [(after - before, before) for before, after in pairwise(found)]
    return (max(pauses)[1] + 0.15e9) / 1e9


def played(server: NativeTestServer, folder: Path, **changes: Any) -> ReplayResult:
    with server.query_connection() as session:
        session.execute("TRUNCATE notes RESTART IDENTITY")
        session.execute("INSERT INTO notes (text) SELECT 'then' FROM generate_series(1, 5)")
    request = ReplayRequest(
        folder=folder,
        connection=f"host={server.folder} port={server.port} user=postgres dbname=postgres",
        allow_writes="postgres",
        **changes,
    )
    return replay(request, lambda _: None, lambda _: None)


@pytest.mark.parametrize("speed", [1.0, None])
def test_what_was_set_up_before_is_there_and_what_was_written_before_is_not_written(
    server: NativeTestServer, captured: Path, speed: float | None
) -> None:
    result = played(server, captured, from_s=middle_s(captured), speed=speed)
    assert [(each.text, each.example) for each in result.families if each.diverged] == []
    assert (result.sessions, result.sessions_lost, result.other_values) == (2, 0, 0)
    with server.query_connection() as session:
        texts = [
            str(row[0]) for row in session.execute("SELECT text FROM notes WHERE text <> 'then' ORDER BY 1")
        ]
    assert texts == ["late 0", "late 1", "late 2", "of its next"]
    assert result.seconds_captured < 0.5
    families = {each.text: each.calls for each in result.families}
    assert families["INSERT INTO notes (text) VALUES ($1)"] == 3 and families["EXECUTE one"] == 1
    assert families["SET search_path = pg_catalog, public"] == 1 and "SET LOCAL work_mem = ?" not in families


def test_until_cuts_the_rest(server: NativeTestServer, captured: Path) -> None:
    middle = middle_s(captured)
    before = played(server, captured, until_s=middle, speed=None)
    after = played(server, captured, from_s=middle, speed=None)
    whole = played(server, captured, speed=None)
    assert before.statements + after.statements > whole.statements - 4
    assert after.statements < whole.statements
