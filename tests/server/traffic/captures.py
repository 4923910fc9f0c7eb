"""What the tests of captures share: a proxy that runs, what it captured, and databases."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from native_servers import NativeTestServer
from pgassay.native.process import NativeProcess
from pgassay.traffic.events import ANSWERS, MESSAGES, Answer, CaptureEvent, Message, events


class Proxy:
    """A proxy that stands before a server and captures into a folder."""

    def __init__(self, connect: dict[str, Any], folder: Path, **changes: Any) -> None:
        self.folder = folder
        self._process = NativeProcess("capture")
        document = {"listen": "127.0.0.1:0", "connect": connect, "folder": str(folder), **changes}
        self._process.send(document)
        self.listen: str = self._process.receive()["ready"]["listen"]
        self.port = int(self.listen.rpartition(":")[2])
        self.totals: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, **changes: Any) -> psycopg.Connection[Any]:
        """A client's connection through it."""
        usual: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "postgres",
            "dbname": "postgres",
        }
        return psycopg.connect(**(usual | {"autocommit": True} | changes))

    def progress(self) -> dict[str, Any]:
        """Waits for the numbers of the next second."""
        found: dict[str, Any] = self._process.receive()["progress"]
        return found

    def end(self) -> dict[str, Any]:
        """End the capture; the last numbers."""
        if not self.totals:
            self.totals = self._process.last_words()[-1]["ended"]
            self._process.end()
        return self.totals

    def kill(self) -> None:
        """End it as `kill -9` does."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.kill()
        self.totals = {"killed": True}

    def memory_bytes(self) -> int:
        """What it holds in memory now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def proxied(connect: dict[str, Any], folder: Path, **changes: Any) -> Iterator[Proxy]:
    """A proxy until the block is left."""
    proxy = Proxy(connect, folder, **changes)
    try:
        yield proxy
    finally:
        proxy.end()


def messages(folder: Path, session: int = 1) -> list[Message]:
    """What a session's client sent."""
    return [each for event in of(folder, session, MESSAGES) for each in event.messages]


def answers(folder: Path, session: int = 1) -> list[Answer]:
    """What the server answered to it."""
    return [each for event in of(folder, session, ANSWERS) for each in event.answers]


def of(folder: Path, session: int, kind: int) -> list[CaptureEvent]:
    """The events of a session."""
    return [event for event in events(folder) if (event.session, event.kind) == (session, kind)]


def sql(server: NativeTestServer, text: str, database: str = "postgres") -> list[Any]:
    with psycopg.connect(
        host=str(server.folder), port=server.port, user="postgres", dbname=database, autocommit=True
    ) as connection:
        found = connection.execute(text)  # type: ignore[call-overload]
        return list(found.fetchall()) if found.description else []


def renew(server: NativeTestServer, name: str, template: str) -> None:
    sql(server, f"DROP DATABASE IF EXISTS {name}")
    sql(server, f"CREATE DATABASE {name} TEMPLATE {template}")
