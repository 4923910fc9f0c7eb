"""A server that answers every query at once with an empty result, so that what is measured is the client."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgassay.model.workload import ClientCeiling, LoadSpec
from pgassay.native.load import LoadProgress, load_document, run_load
from pgassay.native.process import NativeProcess

PORT = 5432
_SEED = 1


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


def measure_client(load: LoadSpec) -> ClientCeiling:
    """Run a load against one: what the load generator can do at most here.

    Raises StatementError for a load that needs rows: an empty result has none.
    """
    memory: list[int] = []

    with tempfile.TemporaryDirectory(prefix="pgassay-null-") as folder, null_server(Path(folder)) as server:
        document = load_document(server.parameters, load, scale=1, seed=_SEED)

        def look(pid: int, _progress: LoadProgress) -> None:
            found = _most_memory_bytes(pid)
            if found is not None:
                memory.append(found)

        record = run_load(document, on_progress_of=look)
    whole_s = record["threads"] * record["elapsed_s"]
    done = max(record["transactions"], 1)
    return ClientCeiling(
        clients=load.clients,
        threads=record["threads"],
        transactions_per_s=record["transactions"] / record["elapsed_s"],
        cpu_us=record["client_cpu_s"] / done * 1e6,
        busy=max(0.0, min(1 - record["client_idle_s"] / whole_s, record["client_cpu_s"] / whole_s)),
        latency_p50_ms=record["latency_ms"]["p50"],
        latency_p99_ms=record["latency_ms"]["p99"],
        own_delay_p99_ms=record["own_delay_ms"]["p99"],
        memory_bytes=max(memory, default=None),
    )


def _most_memory_bytes(pid: int) -> int | None:
    """VmHWM of a process (proc(5)): the most memory that it held so far."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024
    return None
