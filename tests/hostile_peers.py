"""Peers that are no PostgreSQL server, or a bad one, for the tests of the native binary."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

READY = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"
HOSTILE = {
    "nothing": b"",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "random": bytes(range(256)) * 8,
    "zeros": b"\0" * 1000,
    "cut short": b"R\0\0\0\x0c\0\0",
    "short length": b"R\0\0\0\x01",
    "huge length": b"R\x7f\xff\xff\xff" + b"x" * 100_000,
    "unknown authentication": b"R\0\0\0\x08\0\0\0\x63",
    "truncated error": b"E\0\0\0\x08SFAT",
    "ready without authentication": b"Z\0\0\0\x05I",
    "scram with too many rounds": b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
}


@contextmanager
def fake_server(folder: Path, *answers: bytes) -> Iterator[dict[str, Any]]:
    """Answers the first things that are said with these bytes, then closes the connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / ".s.PGSQL.1"))
        listener.listen()

        def answer_all(peer: socket.socket) -> None:
            with peer, suppress(OSError):
                for answer in answers:
                    peer.recv(65536)
                    peer.sendall(answer)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    threading.Thread(target=answer_all, args=(peer,), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield {"host": str(folder), "port": 1, "user": "u", "dbname": "d", "password": "hidden-word"}
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
