"""A server that answers every query at once with an empty result, so that what is measured is the client."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgassay.native.process import NativeProcess

PORT = 5432


@dataclass(frozen=True)
class NullServer:
    """One that runs: the folder of its socket, and its process."""

    folder: Path
    pid: int

    @property
    def parameters(self) -> dict[str, object]:
        """How the native binary connects to it."""
        return {"host": str(self.folder), "port": PORT, "user": "postgres", "dbname": "postgres"}


@contextmanager
def null_server(folder: Path) -> Iterator[NullServer]:
    """One whose socket lies in this folder, until the block is left.

    Raises StatementError where the socket can't be made, UsageError without a native binary of this version.
    """
    process = NativeProcess("null-server")
    try:
        process.send({"socket": str(folder / f".s.PGSQL.{PORT}")})
        process.receive()
        yield NullServer(folder, process.pid)
    finally:
        process.end()
