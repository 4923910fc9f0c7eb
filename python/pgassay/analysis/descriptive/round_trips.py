"""How often the work of a trial waits for an answer to come over a network, and for how long."""

from dataclasses import dataclass

from pgassay.model.arm import Arm
from pgassay.model.trial import TrialRecord
from pgassay.model.workload import WorkloadSpec
from pgassay.workloads.sysbench import calls_of, has_transaction

# A `SELECT 1` within one machine takes about 0.05 ms, which is the server's own work and no network.
ROUND_TRIP_MIN_MS = 0.2
# BEGIN and END beside the statements (src/bin/pgbench/pgbench.c, builtin_script).
_TRIPS_OF_LOAD = {"select-only": 1, "simple-update": 5, "tpcb": 7}


@dataclass(frozen=True)
class RoundTrips:
    """`count` of them, over all connections, of `each_s` seconds."""

    count: float
    each_s: float

    @property
    def seconds(self) -> float:
        """The time of all of them together."""
        return self.count * self.each_s


def round_trips(workload: WorkloadSpec) -> int:
    """How many times a unit of work waits for an answer: each of its statements once."""
    load = workload.load
    if load is None:
        return len(workload.statements)
    options = load.of_sysbench
    if options is None:
        return _TRIPS_OF_LOAD.get(load.script, len(workload.statements))
    if options.series:
        return 1  # Most of the series have one statement.
    return sum(calls_of(options).values()) + (2 if has_transaction(options) else 0)


def round_trip_ms(record: TrialRecord) -> float | None:
    """One round trip as it was measured before a trial; None where it was not."""
    trip_ms = record.facts.server.round_trip_ms
    return None if trip_ms is None else float(trip_ms)


def trips_of_trial(record: TrialRecord, arm: Arm) -> RoundTrips | None:
    """All round trips of a trial; None where one was not measured, or is as short as without a network."""
    each_ms = round_trip_ms(record)
    if each_ms is None or each_ms < ROUND_TRIP_MIN_MS:
        return None
    if record.is_mix:
        return RoundTrips(float(sum(statement.at_once for statement in record.statements)), each_ms / 1e3)
    units = record.load.transactions if record.load is not None else 1
    return RoundTrips(float(units * round_trips(arm.spec.workload)), each_ms / 1e3)
