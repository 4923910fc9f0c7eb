"""Measures the load generator alone, against a server that answers every query at once."""

import tempfile
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.client_ceiling import ClientCeiling
from pgassay.native.load import LoadProgress, run_load
from pgassay.native.null_server import null_server
from pgassay.trial.measure.load import load_document_of
from pgassay.workloads.load import with_clients
from pgassay.workloads.registry import parse_workload

_WARMUP_S = 0.5
_SEED = 1


def measure(workload: str, clients: int, seconds: float) -> ClientCeiling:
    """Run this workload with so many clients for so long.

    Raises UsageError for a workload that is no load, or whose answers it needs: an empty result has no rows.
    """
    spec = parse_workload(workload)
    if spec.load is None:
        raise UsageError(
            f"{workload} runs its statements one by one: write a load, as --workload select-only"
        )
    load = with_clients(spec.load, clients)
    load = load.model_copy(update={"duration_s": seconds, "warmup_s": _WARMUP_S})
    memory: list[int] = []

    with tempfile.TemporaryDirectory(prefix="pgassay-null-") as folder, null_server(Path(folder)) as server:
        document = load_document_of(server.parameters, load, scale=1, seed=_SEED)

        def look(pid: int, _progress: LoadProgress) -> None:
            found = _most_memory_bytes(pid)
            if found is not None:
                memory.append(found)

        record = run_load(document, on_progress_of=look)
    whole_s = record["threads"] * record["elapsed_s"]
    done = max(record["transactions"], 1)
    return ClientCeiling(
        clients=clients,
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
