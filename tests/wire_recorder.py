"""A proxy of Unix sockets that keeps what each client sent, and reads it as messages of the protocol."""

import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from native_servers import NativeTestServer

PORT = 5499


@dataclass(frozen=True)
class Parse:
    """A statement to be prepared: its name, its text, the type of each parameter (0: not said)."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    """An execution: formats and values of the parameters, and formats of the results (0 text, 1 binary)."""

    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Other:
    """Any other message: its letter and its body."""

    tag: str
    body: bytes


Message = Parse | Bind | Other


@dataclass
class Recorder:
    """The proxy's socket folder, and the bytes of each connection in the order they were made."""

    folder: Path
    sent: list[bytearray] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def messages(self) -> list[list[Message]]:
        """What each connection sent after its start-up message, once all of them have ended."""
        # A client that is gone may have sent what is not read here yet.
        for thread in list(self.threads):
            thread.join(10)
        return [list(_messages(bytes(stream))) for stream in self.sent]


@contextmanager
def recording_of(server: NativeTestServer) -> Iterator[Recorder]:
    """`recording` before this server, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-wire-", dir="/tmp"))
    try:
        with recording(folder, server.folder / f".s.PGSQL.{server.port}") as recorder:
            yield recorder
    finally:
        shutil.rmtree(folder)


@contextmanager
def recording(folder: Path, server_socket: Path) -> Iterator[Recorder]:
    """Listen in `folder` at PORT and pass everything on to the server's socket, both ways."""
    recorder = Recorder(folder)

    def copy(source: socket.socket, target: socket.socket, kept: bytearray | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(server_socket))
                recorder.sent.append(bytearray())
                for source, target, kept in ((client, server, recorder.sent[-1]), (server, client, None)):
                    recorder.threads.append(threading.Thread(target=copy, args=(source, target, kept)))
                    recorder.threads[-1].start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        listener.listen()
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield recorder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(10)
            for thread in recorder.threads:
                thread.join(10)
    (folder / f".s.PGSQL.{PORT}").unlink()


def _messages(stream: bytes) -> Iterator[Message]:
    position = struct.unpack_from(">I", stream)[0]
    while position < len(stream):
        tag = chr(stream[position])
        (length,) = struct.unpack_from(">I", stream, position + 1)
        body = stream[position + 5 : position + 1 + length]
        position += 1 + length
        yield {"P": _parse, "B": _bind}.get(tag, lambda body, tag=tag: Other(tag, body))(body)


def _parse(body: bytes) -> Parse:
    name, sql, rest = body.split(b"\0", 2)
    (count,) = struct.unpack_from(">H", rest)
    return Parse(name.decode(), sql.decode(), struct.unpack_from(f">{count}I", rest, 2))


def _bind(body: bytes) -> Bind:
    _, statement, rest = body.split(b"\0", 2)
    formats, position = _shorts(rest, 0)
    (count,) = struct.unpack_from(">H", rest, position)
    position += 2
    values = []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", rest, position)
        values.append(rest[position + 4 : position + 4 + length])
        position += 4 + length
    return Bind(statement.decode(), formats, tuple(values), _shorts(rest, position)[0])


def _shorts(body: bytes, position: int) -> tuple[tuple[int, ...], int]:
    (count,) = struct.unpack_from(">H", body, position)
    return struct.unpack_from(f">{count}H", body, position + 2), position + 2 + 2 * count
