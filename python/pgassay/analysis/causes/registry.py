"""The table of rules: a new cause is one file and one line here. Of limits that explain equally much the
first is named."""

from pgassay.analysis.causes import (
    client,
    io_workers,
    locks,
    memory,
    processors,
    reading,
    spill,
    storage,
    throttle,
    wal,
)
from pgassay.analysis.causes.base import Rule

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
    locks.ROWS,
    locks.LIGHT,
    wal.FSYNC,
    processors.NOISE,
    reading.NO_AIO,
    spill.SPILL,
    wal.CHECKPOINT,
    memory.MEMORY,
    throttle.CHANGE,
)
