"""The table of rules: a new cause is one file and one line here. Of limits that explain equally much the
first is named."""

from pgassay.analysis.causes.base import Rule
from pgassay.analysis.causes.rules import (
    bloat,
    client,
    connections,
    discarding,
    io_workers,
    locks,
    memory,
    network,
    processors,
    reading,
    spill,
    storage,
    throttle,
    vacuuming,
    wal,
)

RULES: tuple[Rule, ...] = (
    processors.CPU_QUOTA,
    processors.ALL_CORES,
    storage.THROUGHPUT,
    storage.IOPS,
    io_workers.TOO_FEW,
    storage.LATENCY,
    reading.CACHED,
    processors.BACKEND_CORE,
    client.CLIENT,
    network.NETWORK,
    locks.ROWS,
    locks.LIGHT,
    wal.FSYNC,
    processors.NOISE,
    io_workers.TOO_MANY,
    discarding.DISCARDING,
    bloat.HELD,
    bloat.BLOAT,
    vacuuming.AUTOVACUUM,
    connections.CONNECTIONS,
    reading.NO_AIO,
    spill.SPILL,
    wal.CHECKPOINT,
    memory.MEMORY,
    throttle.CHANGE,
)
