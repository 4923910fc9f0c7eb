"""`pgassay-native` as libpq's users limit a connection: connect_timeout, keepalives*, sslnegotiation.

The peers are sockets that listen here: what the kernel and the first bytes say needs no PostgreSQL.
"""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession

# The times are those of clocks that go on however busy the machine is.
pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SSL_REQUEST = bytes.fromhex("0000000804d2162f")
HANDSHAKE = 0x16
# Of /proc/net/tcp: the timer that asks a silent peer whether it is still there.
KEEPALIVE = "02"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def parameters(listener: socket.socket, **changes: Any) -> dict[str, Any]:
    usual = {"host": "127.0.0.1", "port": listener.getsockname()[1], "user": "me", "dbname": "shop"}
    return usual | {"connect_timeout": 2} | changes


def refusal(listener: socket.socket, **changes: Any) -> str:
    with SqlSession() as session, pytest.raises(StatementError) as refused:
        session.connect(parameters(listener, **changes))
    return str(refused.value)


def first_bytes(listener: socket.socket, **changes: Any) -> bytes:
    """What a server reads first; it answers nothing."""
    found: list[bytes] = []

    def accept() -> None:
        accepted, _ = listener.accept()
        with accepted:
            found.append(accepted.recv(8))

    thread = threading.Thread(target=accept)
    thread.start()
    refusal(listener, **changes)
    thread.join()
    return found[0]


def timer(listener: socket.socket, **changes: Any) -> tuple[str, float]:
    """Which timer the client's socket has while it waits for an answer, and in how many seconds it ends."""
    found: list[str] = []
    port = f"{listener.getsockname()[1]:04X}"

    def look() -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(8)
            # What was sent is acknowledged a little later; until then the timer is that of sending again.
            for _ in range(100):
                lines = Path("/proc/net/tcp").read_text().splitlines()
                (line,) = [each for each in lines if each.split()[2].endswith(f":{port}")][:1] or [""]
                found.append(line.split()[5] if line else "")
                if found[-1][:2] != "01":
                    break
                time.sleep(0.01)

    thread = threading.Thread(target=look)
    thread.start()
    refusal(listener, **changes)
    thread.join()
    kind, ticks = found[-1].split(":")
    return kind, int(ticks, 16) / 100


def test_a_silent_server_is_given_up_after_the_time_that_was_typed(listener: socket.socket) -> None:
    assert "did not answer within 2 s" in refusal(listener)
    assert "did not answer within 1 s" in refusal(listener, connect_timeout=1)


def test_a_silent_peer_is_asked_as_the_system_is_set(listener: socket.socket) -> None:
    idle_s = int(Path("/proc/sys/net/ipv4/tcp_keepalive_time").read_text())
    kind, ends_s = timer(listener)
    assert kind == KEEPALIVE and idle_s - 60 < ends_s <= idle_s + 1


def test_a_silent_peer_is_asked_after_the_time_that_was_typed(listener: socket.socket) -> None:
    kind, ends_s = timer(listener, keepalives_idle=77, keepalives_interval=5, keepalives_count=3)
    assert kind == KEEPALIVE and 17 < ends_s <= 78


def test_a_silent_peer_is_not_asked(listener: socket.socket) -> None:
    assert timer(listener, keepalives=0, keepalives_idle=77)[0] != KEEPALIVE


def test_tls_is_asked_for_or_begins_at_once(listener: socket.socket) -> None:
    assert first_bytes(listener, sslmode="require") == SSL_REQUEST
    assert first_bytes(listener, sslmode="require", sslnegotiation="direct")[0] == HANDSHAKE
