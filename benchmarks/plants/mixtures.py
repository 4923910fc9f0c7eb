"""Two causes in one server: both are named, and lifting one gains what its own prediction says."""

from dataclasses import replace

from plants.base import Plant
from plants.reading import COLD, IMAGE, no_aio, scan, throughput
from plants.working import SORT, cpu_quota
from plants.writing import NO_SYNC, WAL_MESSAGE, counting, row_locks


def quota_and_spill(work_mem: str) -> Plant:
    """A capped server that sorts in files."""
    return replace(
        cpu_quota(0.25),
        magnitude=f"0.25 processors, work_mem={work_mem}",
        workload=SORT,
        settings={"work_mem": work_mem},
        also=frozenset({"temp-spill"}),
    )


def throughput_and_spill(mb_s: int) -> Plant:
    """A slow device, and a sort of what it delivers in files."""
    plant = throughput(mb_s, 0)
    return replace(
        plant,
        magnitude=f"{mb_s} MB/s, work_mem=64kB",
        workload=SORT,
        settings={"work_mem": "64kB"},
        also=frozenset({"temp-spill"}),
    )


def iops_and_no_aio(reads_s: int) -> Plant:
    """Methods are compared on a device of few requests, by an index scan that can't use them."""
    return replace(
        no_aio(reads_s),
        cause="storage-iops",
        also=frozenset({"no-aio"}),
        decoy={"options": (*COLD, "--storage", f"{IMAGE},read_iops=500000"), "workload": scan(0.2)},
    )


def row_locks_and_checkpoint(clients: int) -> Plant:
    """A hot row, and checkpoints that the amount of WAL asks for."""
    plant = row_locks(clients)
    held = [(name, counting(rows, 0.004, 0.012)) for name, rows in (("hot.sql", 1), ("spread.sql", 1000))]
    return replace(
        plant,
        magnitude=f"{clients} connections, max_wal_size=32MB",
        settings={**NO_SYNC, "max_wal_size": "32MB"},
        files={name: text.replace("RETURN NULL", f"{WAL_MESSAGE} RETURN NULL") for name, text in held},
        also=frozenset({"checkpoint"}),
    )


PLANTS = (
    quota_and_spill("64kB"),
    throughput_and_spill(20),
    iops_and_no_aio(150),
    row_locks_and_checkpoint(16),
)
