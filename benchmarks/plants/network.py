"""A plant between client and server: a server of the bench's own, behind a proxy that takes its time."""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

from _own_server import own_server
from pgassay.environment.builds.registry import resolve
from plants.base import Outside, Plant

_STATEMENTS = 40
_OWN_S = 0.01
_SETTINGS = "-c listen_addresses='' -c fsync=off -c shared_buffers=32MB"


def network(round_trip_ms: int) -> Plant:
    """Statements that wait for a round trip each; beside it the same way without the delay."""
    statements = (f"-- name: s{number}\nSELECT pg_sleep({_OWN_S});\n" for number in range(_STATEMENTS))
    return Plant(
        "network",
        f"round trips of {round_trip_ms} ms",
        "server=FAR,NEAR",
        "".join(statements),
        outside=_behind_proxies(round_trip_ms / 1e3),
        is_remote=True,
        own_s=_STATEMENTS * _OWN_S,
    )


def _behind_proxies(round_trip_s: float) -> Outside:
    @contextmanager
    def run(_home: Path) -> Iterator[Mapping[str, str]]:
        programs = Path(resolve("18").bin_directory)
        with own_server(programs, _SETTINGS) as folder, ExitStack() as stack:
            ports = [stack.enter_context(_proxy(folder, one_way_s)) for one_way_s in (round_trip_s / 2, 0.0)]
            place = "host=127.0.0.1 port={} dbname=postgres user=postgres sslmode=disable"
            yield {name: place.format(port) for name, port in zip(("FAR", "NEAR"), ports, strict=True)}

    return run


@contextmanager
def _proxy(folder: Path, one_way_s: float) -> Iterator[int]:
    """A port whose bytes reach the server, and come back from it, each so much later."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(folder / ".s.PGSQL.5432"))
                for source, target in ((near, far), (far, near)):
                    _forward(source, target, one_way_s)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        # A thread that waits in accept() does not see that its socket was closed.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _forward(source: socket.socket, target: socket.socket, one_way_s: float) -> None:
    """Two threads: one takes each chunk and notes when it is due, the other sends it then."""
    chunks: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def take() -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = source.recv(1 << 16)
            except OSError:
                chunk = b""
            chunks.put((time.monotonic() + one_way_s, chunk))

    def send() -> None:
        with suppress(OSError):
            while True:
                due, chunk = chunks.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not chunk:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(chunk)

    for step in (take, send):
        threading.Thread(target=step, daemon=True).start()


PLANTS = (network(10), network(20))
