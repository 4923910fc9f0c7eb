"""What the load generator can do at most on a machine, against a server that answers at once."""

from pgassay.model.base import Frozen


class ClientCeiling(Frozen):
    """One load. Times of the client per transaction in microseconds, latencies in milliseconds.

    `busy`: the share of its threads' time in which they had something to do. `memory_bytes`: the most that
    the process held, None where the system does not tell.
    """

    clients: int
    threads: int
    transactions_per_s: float
    cpu_us: float
    busy: float
    latency_p50_ms: float
    latency_p99_ms: float
    own_delay_p99_ms: float
    memory_bytes: int | None = None
