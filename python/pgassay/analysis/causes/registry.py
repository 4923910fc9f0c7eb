"""The table of rules: a new cause is one file and one line here."""

from pgassay.analysis.causes.base import Rule
from pgassay.analysis.causes.rules import (
    autovacuum,
    bloat,
    burst_credits,
    client,
    connections,
    device_independent_reads,
    device_limit,
    io_workers,
    locks,
    memory_cap,
    missing_index,
    network,
    processors,
    spill,
    throttle,
    wal,
    write_waits,
)
from pgassay.model.cause import UNKNOWN

_UNKNOWN_NEXT = "Check where the time went, and the statements that were seen most often."
# Of limits that explain equally much the first is named, and faults are told in this order.
RULES: tuple[Rule, ...] = (
    processors.CPU_QUOTA,
    processors.ALL_CORES,
    burst_credits.ENDED,
    device_limit.THROUGHPUT,
    device_limit.IOPS,
    io_workers.TOO_FEW,
    device_limit.LATENCY,
    device_independent_reads.CACHED,
    processors.BACKEND_CORE,
    client.POOLER,
    client.CLIENT,
    client.OFFERED,
    network.NETWORK,
    locks.ROWS,
    locks.OBJECTS,
    locks.LIGHT,
    wal.FSYNC,
    wal.STANDBY,
    write_waits.BACKEND_WRITES,
    write_waits.FILE_EXTENSION,
    write_waits.TRANSACTION_STATUS,
    write_waits.WAL_INSERTION,
    write_waits.CHECKPOINT_WAIT,
    processors.NOISE,
    io_workers.TOO_MANY,
    missing_index.DISCARDING,
    bloat.HELD,
    bloat.BLOAT,
    autovacuum.AUTOVACUUM,
    connections.CONNECTIONS,
    device_independent_reads.NO_AIO,
    spill.SPILL,
    wal.CHECKPOINT,
    memory_cap.MEMORY,
    throttle.CHANGE,
)


def rule_of(cause: str) -> Rule | None:
    """The rule of this name; None for UNKNOWN, and for a name that another version wrote."""
    return next((rule for rule in RULES if rule.cause == cause), None)


def next_step(cause: str) -> str:
    """Where to look next on a running server."""
    rule = rule_of(cause)
    return rule.next_step if rule is not None else _UNKNOWN_NEXT


def cause_names() -> tuple[str, ...]:
    """Every name that `Cause.cause` can have."""
    return (*(rule.cause for rule in RULES), UNKNOWN)
