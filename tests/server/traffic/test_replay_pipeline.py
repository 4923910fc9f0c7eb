"""A session that sends pipelines beside others that write the same rows: none keeps the other waiting."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.traffic import manifest
from pgassay.traffic.replaying import ReplayRequest, replay
from pgassay.traffic.summary import summarise
from server.traffic.captures import Proxy, proxied, sql

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
ROWS = 20
SESSIONS = 6
ROUNDS = 300
UPDATE = "UPDATE stock SET n = n + 1 WHERE id = %s"
STOCK = f"CREATE TABLE stock AS SELECT i AS id, 0 AS n FROM generate_series(1, {ROWS}) i"


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        for database in ("shop", "copy"):
            sql(found, f"CREATE DATABASE {database}")
            sql(found, STOCK, database)
        yield found


def updating(proxy: Proxy, seed: int, *, is_pipelined: bool) -> None:
    """One session; rows are taken in their order, so that no two sessions wait for each other."""
    drawn = random.Random(seed)
    with proxy.connect(dbname="shop") as client:
        for _ in range(ROUNDS):
            rows = sorted(drawn.sample(range(1, ROWS + 1), 5))
            if is_pipelined:
                with client.pipeline():
                    for row in rows:
                        client.execute(UPDATE, (row,))
                    client.execute("SELECT count(*) FROM stock")
            else:
                for row in rows:
                    client.execute(UPDATE, (row,))


@pytest.mark.parametrize("speed", [1.0, None])
def test_no_step_of_a_pipeline_waits_while_it_keeps_others_waiting(
    server: NativeTestServer, tmp_path: Path, speed: float | None
) -> None:
    folder = tmp_path / "c"
    with proxied(server.parameters(), folder) as proxy:
        threads = [
            threading.Thread(target=updating, args=(proxy, seed), kwargs={"is_pipelined": seed == 0})
            for seed in range(SESSIONS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        proxy.end()
    manifest.write(folder, manifest.begun("proxy", 0, None, {}, []))
    sql(server, "UPDATE stock SET n = 0", "copy")
    request = ReplayRequest(
        folder=folder,
        connection=f"host={server.folder} port={server.port} user=postgres dbname=copy",
        allow_writes="copy",
        speed=speed,
    )
    result = replay(request, lambda _: None, lambda _: None)
    told = {each.text: each.seconds for each in summarise(folder).families}
    assert told == {each.text: pytest.approx(each.seconds_captured, abs=1e-6) for each in result.families}
    assert (result.reordered, result.diverged, result.sessions_lost) == (0, 0, 0)
    assert sql(server, "SELECT sum(n) FROM stock", "copy") == [(SESSIONS * ROUNDS * 5,)]
