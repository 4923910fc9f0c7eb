"""What the proxy passes on and records, with a real client and a real server."""

import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.traffic.events import BEGIN, CANCEL, END, ResultRows, events
from pgassay.traffic.statement_executions import statements
from server.traffic.captures import answers, messages, of, proxied

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
LONG_KEYS_SINCE = 180000


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        yield found


def tags(found: list[Any]) -> str:
    return "".join(each.tag for each in found)


def test_messages_of_the_extended_protocol_are_kept_as_they_were(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        with proxy.connect(application_name="an app", options="-c work_mem=5MB") as client:
            assert client.execute("SHOW work_mem").fetchone() == ("5MB",)
            query = "SELECT %b::int4 + 1, %s::text"
            assert client.execute(query, (41, None), prepare=True).fetchone() == (42, None)
        totals = proxy.end()
    assert (totals["sessions"], totals["statements"], totals["dropped"]) == (1, 2, 0)
    begin = of(proxy.folder, 1, BEGIN)[0].begin
    assert begin is not None
    assert begin.parameters["application_name"] == "an app"
    assert begin.parameters["options"] == "-c work_mem=5MB"
    found = messages(proxy.folder)
    assert tags(found) == "QPSBDESX" or tags(found) == "QPBDESX"
    parse = next(each for each in found if each.tag == "P")
    assert parse.text == "SELECT $1::int4 + 1, $2::text"
    # Two declared types at the end, the first as psycopg dumps small numbers.
    assert struct.unpack("!h", parse.body[-10:-8]) == (2,)
    bind = next(each for each in found if each.tag == "B")
    # The first value is binary, the second null.
    assert struct.pack("!hhhhi", 2, 1, 0, 2, 2) + struct.pack("!hi", 41, -1) in bind.body
    complete = [each for each in answers(proxy.folder) if each.tag == "C"]
    assert [each.content for each in complete] == [b"SHOW", b"SELECT"]
    row = struct.pack("!hi", 2, 2) + b"42" + struct.pack("!i", -1)
    assert complete[1].rows == ResultRows(1, len(row), zlib.crc32(row))
    assert (complete[1].affected, of(proxy.folder, 1, END)[0].reason) == (1, "terminated")


def test_a_pipeline_with_an_error_is_paired_with_its_answers(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy, proxy.connect() as client:
        with pytest.raises(psycopg.errors.DivisionByZero), client.pipeline():
            for number in (1, 0, 2):
                client.execute("SELECT 10 / %s::int", (number,))
        assert client.execute("SELECT 7").fetchone() == (7,)
        client.close()
        proxy.end()
    done = [each for each in statements(events(proxy.folder)) if each.protocol != "sync"]
    assert [each.sqlstate for each in done] == ["", "22012", ""]
    assert [each.rows for each in done] == [1, 0, 1]
    assert done[-1].text == "SELECT 7"
    assert all(each.end_ns is not None and 0 <= each.busy_ns <= each.end_ns for each in done)


def test_copy_goes_both_ways_and_its_data_are_kept_unless_told(
    server: NativeTestServer, tmp_path: Path
) -> None:
    def work(client: psycopg.Connection[Any], name: str) -> None:
        client.execute(f"CREATE TEMPORARY TABLE {name} (v text)")
        with client.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for number in range(1000):
                copy.write_row((f"secret {number}",))
        with client.cursor().copy(f"COPY {name} TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 1000

    for keeps, name in ((True, "kept"), (False, "measured")):
        folder = tmp_path / name
        with proxied(server.parameters(), folder, copy_data=keeps) as proxy, proxy.connect() as client:
            work(client, name)
            client.close()
            proxy.end()
        data = [each for each in messages(folder) if each.tag == "d"]
        rows = [each.rows.number for each in answers(folder) if each.content == b"COPY"]
        assert rows == [0, 1000]
        expected = "".join(f"secret {number}\n" for number in range(1000)).encode()
        if keeps:
            assert b"".join(each.body for each in data) == expected
        else:
            assert sum(each.left_out_bytes or 0 for each in data) == len(expected)
            assert not any(each.body for each in data)


def test_values_that_the_server_makes_are_kept_and_other_rows_are_not(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy, proxy.connect() as client:
        client.execute("CREATE TEMPORARY TABLE made (id serial, v int)")
        client.execute("INSERT INTO made (v) SELECT generate_series(1, 3) RETURNING id")
        client.execute("INSERT INTO made (v) VALUES (%s) RETURNING id", (4,))
        client.execute("SELECT v FROM made")
        client.execute("SELECT nextval('made_id_seq')")
        client.close()
        proxy.end()
    rows = [each.content[6:] for each in answers(proxy.folder) if each.tag == "D"]
    assert rows == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("protocol", ["3.0", "3.2"])
def test_a_request_to_cancel_reaches_the_server_and_names_its_session(
    server: NativeTestServer, tmp_path: Path, protocol: str
) -> None:
    if protocol == "3.2" and psycopg.pq.version() < LONG_KEYS_SINCE:
        pytest.skip("libpq is older than 18, which brought longer keys")
    changes = {"max_protocol_version": protocol} if protocol == "3.2" else {}
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        with proxy.connect() as first, proxy.connect(**changes) as client:
            first.execute("SELECT 1")
            running = threading.Event()

            def cancel() -> None:
                running.wait()
                watched = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                while server.query(watched) == (0,):
                    time.sleep(0.01)
                client.cancel_safe()

            thread = threading.Thread(target=cancel)
            thread.start()
            running.set()
            with pytest.raises(psycopg.errors.QueryCanceled):
                client.execute("SELECT pg_sleep(300)")
            thread.join()
        proxy.end()
    cancels = [event.session for event in events(proxy.folder) if event.kind == CANCEL]
    assert cancels == [2]
    begin = of(proxy.folder, 2, BEGIN)[0].begin
    assert begin is not None and begin.protocol == (196610 if protocol == "3.2" else 196608)
    assert [each.content for each in answers(proxy.folder, 2) if each.tag == "E"] == [b"57014"]


def test_only_the_chosen_sessions_are_recorded_and_passwords_never(
    server: NativeTestServer, tmp_path: Path
) -> None:
    changes = {"users": ["postgres"], "databases": ["postgres"]}
    with proxied(server.parameters(), tmp_path / "c", **changes) as proxy:
        with proxy.connect(dbname="template1") as client:
            client.execute("SELECT 'not this one'")
        with proxy.connect() as client:
            client.execute("CREATE ROLE somebody PASSWORD 'hunter2'")
            client.execute("DROP ROLE somebody")
        totals = proxy.end()
    assert (totals["sessions"], totals["not_selected"]) == (1, 1)
    texts = [each.text for each in messages(proxy.folder) if each.text]
    assert texts == ["CREATE ROLE somebody PASSWORD '***'", "DROP ROLE somebody"]
    assert (proxy.folder.stat().st_mode & 0o777, *modes(proxy.folder)) == (0o700, 0o600)


def modes(folder: Path) -> list[int]:
    return [path.stat().st_mode & 0o777 for path in folder.iterdir()]


@pytest.mark.parametrize("size", [100 << 20, pytest.param(200 << 20, marks=pytest.mark.slow)])
def test_rows_and_parameters_of_many_megabytes_pass_in_bounded_memory(
    server: NativeTestServer, tmp_path: Path, size: int
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy, proxy.connect() as client:
        client.execute("SELECT 1")
        before = proxy.memory_bytes()
        row = client.execute(f"SELECT repeat('x', {size})").fetchone()
        assert row is not None and len(row[0]) == size
        assert proxy.memory_bytes() - before < 50 << 20
        value = b"y" * size
        row = client.execute("SELECT length(%b::bytea)", (value,)).fetchone()
        assert row == (size,)
        client.close()
        proxy.end()
    bind = [each for each in messages(proxy.folder) if each.tag == "B"][-1]
    assert value in bind.body
