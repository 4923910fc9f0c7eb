"""What the pooler in front of the server did so far, and the time of its one thread."""

import time
from dataclasses import astuple, fields

from pgassay.environment.server.pooler import Pooler, PoolerCounts, version
from pgassay.model.workload import PoolerUse


class PoolerSampler:
    """Cumulative counts of PgBouncer, and how many connections it has and keeps waiting at the moment."""

    name = "pooler"
    version = 1
    columns: tuple[str, ...] = tuple(field.name for field in fields(PoolerCounts))

    def __init__(self, pooler: Pooler) -> None:
        self._pooler = pooler
        self._seen: list[tuple[int, PoolerCounts]] = []

    def available(self) -> bool:
        """Whether there is a pooler, which there is."""
        return True

    def sample(self) -> tuple[float, ...]:
        counts = self._pooler.counts()
        self._seen.append((time.monotonic_ns(), counts))
        return astuple(counts)

    def use_between(self, begins_ns: int, ends_ns: int) -> PoolerUse | None:
        """What it did in the measured interval, in straight lines between samples; None without samples."""
        from numpy import interp

        if not self._seen:
            return None
        clocks = [clock for clock, _ in self._seen]

        def moved(name: str) -> float:
            values = [float(getattr(counts, name)) for _, counts in self._seen]
            before, after = interp([begins_ns, ends_ns], clocks, values)
            return float(after - before)

        inside = [counts for clock, counts in self._seen if begins_ns <= clock <= ends_ns]
        return PoolerUse(
            version=version(),
            size=self._pooler.size,
            elapsed_s=(ends_ns - begins_ns) / 1e9,
            cpu_s=moved("cpu_s"),
            waited_s=moved("waited_s"),
            transactions=round(moved("transactions")),
            client_wait_s=moved("client_wait_s"),
            server_connections_max=max((round(each.server_connections) for each in inside), default=0),
            waiting_clients_max=max((round(each.waiting_clients) for each in inside), default=0),
        )
