"""Whatever its clients do, `pgassay-native null-server` goes on, stays small, and answers the others."""

import random
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

import whole_tool
from hostile_peers import HOSTILE
from pgassay.native.null_server import PORT, NullServer, null_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
STARTUP = struct.pack("!II", 17, 3 << 16) + b"user\0u\0\0\0"
QUERY = b"Q\0\0\0\x0dSELECT 1\0"
PREPARED = (
    b"P\0\0\0\x0fa\0SELECT\0\0\0D\0\0\0\x07Sa\0B\0\0\0\x0d\0a\0\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"
)
SSL_REQUEST = struct.pack("!II", 8, 80877103)
CANCEL = struct.pack("!IIII", 16, 80877102, 1, 2)
CONVERSATIONS = [
    STARTUP + QUERY * 3,
    STARTUP + PREPARED + QUERY,
    SSL_REQUEST + STARTUP + PREPARED * 4,
    CANCEL,
    *HOSTILE.values(),
    *(STARTUP + said for said in HOSTILE.values()),
]
FLOOD = QUERY * 4000
GROWTH_BYTES_MAX = 16 << 20


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NullServer]:
    with null_server(tmp_path_factory.mktemp("n")) as server:
        yield server


def called(server: NullServer) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(60)
    caller.connect(f"{server.folder}/.s.PGSQL.{PORT}")
    return caller


def assert_serves(server: NullServer) -> None:
    place = {"host": str(server.folder), "port": PORT, "user": "u", "dbname": "d"}
    with psycopg.connect(**place, autocommit=True, connect_timeout=60) as connection:
        assert connection.execute("SELECT 1").rowcount == 0


def memory_bytes(server: NullServer) -> int:
    pages = Path(f"/proc/{server.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def sockets(server: NullServer) -> int:
    return len([*Path(f"/proc/{server.pid}/fd").iterdir()])


def mutated(draw: random.Random) -> bytes:
    said = bytearray(draw.choice(CONVERSATIONS))
    for _ in range(draw.randrange(4)):
        place = draw.randrange(len(said) or 1)
        match draw.randrange(3):
            case 0:
                said[place : place + 1] = draw.randbytes(1)
            case 1:
                del said[place:]
            case _:
                said[place:place] = draw.randbytes(draw.randrange(40))
    return bytes(said)


def test_mutated_conversations_leave_nothing_behind(server: NullServer) -> None:
    # Counted before the first caller, whose connection the server may close a moment after it has gone.
    before = sockets(server)
    assert_serves(server)
    draw, memory = random.Random(36), memory_bytes(server)
    for _ in range(1500):
        said = mutated(draw)
        cut = draw.randrange(len(said) + 1)
        with called(server) as caller, suppress(OSError):
            caller.sendall(said[:cut])
            if draw.random() < 0.5:
                caller.setblocking(False)
                caller.recv(1 << 16)
            caller.sendall(said[cut:])
            if draw.random() < 0.3:
                caller.shutdown(socket.SHUT_WR)
    assert_serves(server)
    whole_tool.wait_for(lambda: sockets(server) == before, "connections that were closed", 60)
    assert memory_bytes(server) - memory < GROWTH_BYTES_MAX


def test_one_that_sends_without_a_pause_lets_others_be_served(server: NullServer) -> None:
    stop = threading.Event()

    def read(caller: socket.socket) -> None:
        with suppress(OSError):
            while caller.recv(1 << 20):
                pass

    def send(caller: socket.socket) -> None:
        with suppress(OSError):
            while not stop.is_set():
                caller.sendall(FLOOD)

    with ExitStack() as stack:
        callers = [stack.enter_context(called(server)) for _ in range(4)]
        threads = []
        for caller in callers:
            caller.sendall(STARTUP)
            threads += [threading.Thread(target=work, args=(caller,)) for work in (read, send)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                assert_serves(server)
        finally:
            stop.set()
            for caller in callers:
                caller.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(60)


def test_those_that_never_read_are_waited_for_in_little_memory(server: NullServer) -> None:
    assert_serves(server)
    memory = memory_bytes(server)
    with ExitStack() as stack:
        for _ in range(20):
            caller = stack.enter_context(called(server))
            caller.sendall(STARTUP)
            caller.settimeout(0.05)
            with suppress(TimeoutError):
                while True:
                    caller.sendall(FLOOD)
        assert_serves(server)
        assert memory_bytes(server) - memory < GROWTH_BYTES_MAX
    whole_tool.wait_for(lambda: sockets(server) < 20, "connections that were closed", 60)


def test_a_message_of_any_size_is_read_in_little_memory(server: NullServer) -> None:
    assert_serves(server)
    memory, megabytes = memory_bytes(server), 12
    with ExitStack() as stack:
        callers = [stack.enter_context(called(server)) for _ in range(10)]
        for caller in callers:
            caller.sendall(STARTUP + b"Q" + struct.pack("!I", 4 + (megabytes << 20)))
        for _ in range(megabytes - 1):
            for caller in callers:
                caller.sendall(b"x" * (1 << 20))
        assert memory_bytes(server) - memory < GROWTH_BYTES_MAX
        for caller in callers:
            caller.sendall(b" " * (1 << 20))
            answer = b""
            while b"SELECT 0" not in answer:
                answer += caller.recv(1 << 16)
    # Longer than a server takes.
    with called(server) as caller:
        caller.sendall(STARTUP + b"Q\x7f\xff\xff\xff")
        while caller.recv(1 << 16):
            pass


def test_slow_ones_are_answered_byte_by_byte(server: NullServer) -> None:
    with called(server) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        said = SSL_REQUEST + STARTUP + PREPARED + QUERY + b"X\0\0\0\x04"
        for place in range(len(said)):
            caller.sendall(said[place : place + 1])
        answer = b""
        while got := caller.recv(7):
            answer += got
    assert answer.startswith(b"NR\0\0\0\x08\0\0\0\0") and answer.count(b"Z\0\0\0\x05I") == 3
    assert answer.count(b"SELECT 0\0") == 2


def test_more_than_it_has_descriptors_for_wait_their_turn(server: NullServer) -> None:
    assert_serves(server)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (32, 32))
    with ExitStack() as first:
        callers = [called(server) for _ in range(60)]
        for caller in callers:
            first.enter_context(caller)
            caller.sendall(STARTUP)
        whole_tool.wait_for(lambda: sockets(server) == 32, "no descriptor that is free", 60)
        served = 0
        for caller in callers:
            answer = b""
            while b"Z\0\0\0\x05I" not in answer:
                answer += (got := caller.recv(1 << 16))
                assert got
            served += 1
            caller.close()
        assert served == 60
    assert_serves(server)
