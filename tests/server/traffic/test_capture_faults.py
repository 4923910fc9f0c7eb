"""A proxy among clients that die, hostile ones, kill -9, and a disk that does not follow or is full."""

import random
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from hostile_peers import HOSTILE, fake_server
from native_servers import NativeTestServer, started_server
from pgassay.native.load import run_load
from pgassay.native.null_server import null_server
from pgassay.native.process import NativeProcess
from pgassay.traffic.blocks import files
from pgassay.traffic.events import END, events
from pgassay.traffic.summary import summarise
from server.traffic.captures import Proxy, messages, of, proxied

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
STARTUP = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0"
GROWTH_BYTES_MAX = 32 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        yield found


def raw_client(proxy: Proxy) -> socket.socket:
    """A client that speaks bytes: started up and ready."""
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
    client.sendall(struct.pack("!i", len(STARTUP) + 4) + STARTUP)
    read_until(client, b"Z\0\0\0\x05I")
    return client


def read_until(client: socket.socket, ending: bytes) -> bytes:
    found = b""
    while not found.endswith(ending):
        part = client.recv(65536)
        assert part, found
        found += part
    return found


def is_closed(client: socket.socket) -> bool:
    """Reads until the other side has closed; whatever it says before is no matter."""
    with suppress(ConnectionError):
        while client.recv(65536):
            pass
    return True


def test_what_was_written_before_a_kill_is_whole(server: NativeTestServer, tmp_path: Path) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        client = proxy.connect()
        sent = 0
        deadline = time.monotonic() + 120
        while sum(1 for file in files(proxy.folder) for _ in file.blocks()) < 2:
            assert time.monotonic() < deadline, "no block was written"
            client.execute(f"SELECT {sent}")
            sent += 1
        proxy.kill()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    found = [each.text for each in messages(proxy.folder) if each.text]
    assert 0 < len(found) <= sent
    assert found == [f"SELECT {number}" for number in range(len(found))]
    summary = summarise(proxy.folder)
    assert not summary.is_finished and summary.sessions == 1
    assert any("cut off" in note for note in summary.notes)


def test_a_file_that_was_cut_within_a_block_gives_the_blocks_before(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        with proxy.connect() as client:
            for number in range(20_000):
                client.execute(f"SELECT {number}, {'1, ' * 10} 2")
        proxy.end()
    path = files(proxy.folder)[0].path
    whole = list(events(proxy.folder))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    part = list(events(proxy.folder))
    assert 0 < len(part) < len(whole) and part == whole[: len(part)]


def test_a_client_that_dies_and_a_server_that_ends_a_session_are_told_apart(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        dying = raw_client(proxy)
        dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        dying.close()
        with proxy.connect() as client:
            row = client.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            server.query(f"SELECT pg_terminate_backend({row[0]}, 60000)")
            with pytest.raises(psycopg.errors.AdminShutdown):
                client.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="no_such_database"):
            proxy.connect(dbname="no_such_database")
        with proxy.connect() as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        proxy.end()
    ends = {session: of(proxy.folder, session, END)[0] for session in range(1, 5)}
    assert ends[1].reason == "client lost"
    assert ends[2].reason in ("server closed", "terminated")
    assert (ends[3].reason, ends[3].sqlstate) == ("refused", "3D000")
    assert ends[4].reason == "terminated"


HOSTILE_FIRST = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\0\0\x03",
    b"\0\0\0\x07\0\x03\0",
    b"\0\0\0\x08\0\x02\0\0",
    b"\x7f\xff\xff\xff\0\x03\0\0",
    b"\xff\xff\xff\xff\0\x03\0\0",
    b"\0\0\0\x0d\0\x03\0\0user\0",
    b"\x16\x03\x01\x02\0",
    struct.pack("!iI", 8, 80877103) + b"more than the request",
)
HOSTILE_LATER = (
    b"Q\0\0\0\x03",
    b"Q\xff\xff\xff\xff",
    b"Q\x80\0\0\0",
    b"P\x7f\xff\xff\xff",
    b"S\0\0\xff\xff",
    b"!\0\0\0\x04",
    b"R\0\0\0\x08\0\0\0\0",
    b"\0" * 64,
)


def test_what_is_no_message_closes_the_connection_and_takes_no_memory(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        raw_client(proxy).close()
        before = proxy.memory_bytes()
        for hostile in HOSTILE_FIRST:
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
                client.sendall(hostile)
                assert is_closed(client), hostile
        for hostile in HOSTILE_LATER:
            with raw_client(proxy) as client:
                client.sendall(hostile)
                assert is_closed(client), hostile
        # What is claimed and never sent is not waited for in memory.
        idle = [raw_client(proxy) for _ in range(20)]
        for client in idle:
            client.sendall(b"d\x3f\xff\xff\xff" + b"x" * 1000)
        with proxy.connect() as good:
            assert good.execute("SELECT 1").fetchone() == (1,)
        assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
        for client in idle:
            client.close()
        totals = proxy.end()
    assert totals["bad_messages"] >= len(HOSTILE_FIRST) - 1 + len(HOSTILE_LATER)


def test_random_bytes_never_end_the_proxy(server: NativeTestServer, tmp_path: Path) -> None:
    drawn = random.Random(37)
    with proxied(server.parameters(), tmp_path / "c") as proxy:
        for _ in range(150):
            kinds = b"QPBDESHCdcfFX"
            content = b""
            for _ in range(drawn.randrange(1, 6)):
                body = drawn.randbytes(drawn.randrange(0, 40))
                length = drawn.choice((len(body) + 4, drawn.randrange(0, 60), drawn.randrange(0, 2**32)))
                content += bytes([drawn.choice(kinds)]) + struct.pack("!I", length) + body
            with raw_client(proxy) as client, suppress(OSError):
                client.sendall(content)
                client.shutdown(socket.SHUT_WR)
                is_closed(client)
        with proxy.connect() as good:
            assert good.execute("SELECT 1").fetchone() == (1,)
        proxy.end()
    # Every record can be read, whatever was sent.
    assert summarise(proxy.folder).sessions == 151


def test_sessions_leave_the_capture_whole_where_the_disk_does_not_follow(
    server: NativeTestServer, tmp_path: Path
) -> None:
    with proxied(server.parameters(), tmp_path / "c", queue_bytes=1) as proxy:
        for _ in range(3):
            with proxy.connect() as client:
                assert client.execute("SELECT 1").fetchone() == (1,)
        totals = proxy.end()
    assert (totals["sessions"], totals["dropped"]) == (3, 3)
    assert list(events(proxy.folder)) == []
    assert summarise(proxy.folder).is_finished


def test_a_full_disk_ends_the_capture_and_no_traffic(
    server: NativeTestServer, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("loop")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=True)
    try:
        with proxied(server.parameters(), disk / "c") as proxy:
            with proxy.connect() as client:
                for _ in range(300):
                    value = random.Random(1).randbytes(4000)
                    assert client.execute("SELECT length(%b)", (value,)).fetchone() == (4000,)
                deadline = time.monotonic() + 120
                while proxy.progress()["failure"] is None:
                    assert time.monotonic() < deadline
                    # What is told comes once a second: a disk's fill between two times.
                    for _ in range(20):
                        client.execute("SELECT %b::bytea", (random.randbytes(40_000),))
            totals = proxy.end()
        assert "No space" in totals["failure"]
        assert summarise(proxy.folder).sessions <= 1
    finally:
        subprocess.run(["umount", disk], check=True)


def test_thousands_of_sessions_are_carried_in_little_memory_and_played(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="pgassay-null-") as folder,
        null_server(Path(folder)) as server,
        proxied(dict(server.parameters), tmp_path / "c") as proxy,
    ):
        before = proxy.memory_bytes()
        record = run_load(
            {
                "connect": {"host": "127.0.0.1", "port": proxy.port, "user": "u", "dbname": "d"},
                "script": "select-only",
                "scale": 1,
                "clients": 5000,
                "threads": 1,
                "protocol": "prepared",
                "duration_s": 1.0,
                "warmup_s": 0.2,
                "seed": 1,
            }
        )
        assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
        totals = proxy.end()
        player = NativeProcess("replay")
        document = {"connect": dict(server.parameters), "folder": str(tmp_path / "c"), "speed": None}
        player.send(document | {"writes": False, "databases": {"d": "postgres"}})
        while "ended" not in (line := player.receive()):
            pass
        player.end()
    assert totals["sessions"] == 5000
    assert totals["statements"] >= record["transactions"] > 5000
    assert (line["ended"]["replayed"], line["ended"]["sessions_lost"]) == (totals["statements"], 0)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_peer_that_is_no_server_ends_its_client_and_not_the_proxy(tmp_path: Path, name: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="pgassay-fake-") as folder,
        fake_server(Path(folder), HOSTILE[name]) as peer,
        proxied(peer, tmp_path / "c") as proxy,
    ):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
                client.sendall(struct.pack("!i", len(STARTUP) + 4) + STARTUP)
                assert is_closed(client)
        assert proxy.memory_bytes() < 2 * GROWTH_BYTES_MAX
        totals = proxy.end()
    assert totals["sessions"] == 3
    assert summarise(proxy.folder).sessions == 3
