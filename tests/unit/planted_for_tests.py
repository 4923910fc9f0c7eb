"""What is planted for each cause in unit tests, and what makes it harmless: (planted, harmless)."""

from typing import Any

from cause_samples import (
    ELAPSED_S,
    FLOW,
    FULL_POOLER,
    LIMIT,
    account,
    arm,
    checkpoints,
    item,
    load_arm,
    load_record,
    paced_record,
    record,
)
from pgassay.analysis.causes.evidence import DeviceFlow, Processors
from pgassay.analysis.causes.volume_evidence import BurstEnd
from pgassay.analysis.descriptive.round_trips import RoundTrips
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import StatementObservation
from write_side_samples import WRITE_SIDE


def temporary(bytes_written: float) -> dict[str, Any]:
    return {"counters": {"pg_stat_database": [{"temp_bytes": bytes_written, "temp_files": 3.0}]}}


SCAN = StatementObservation(
    name="scan", elapsed_s=10, rows=1, cold=True, aio=False, device_read_bytes=10**8, device_read_requests=9
)
IO_FACTOR = {"io_method": "worker"}
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # The planted figures, and what of them made harmless.
    "storage-throughput": (
        {"read_s": 9.0, "cpu_s": 0.5, "device": FLOW, "ceiling": LIMIT},
        {"ceiling": ArmCeiling(read_mb_s=500.0, read_iops=1000)},
    ),
    "storage-iops": (
        {
            "read_s": 9.0,
            "cpu_s": 0.5,
            "device": DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, 0.4),
            "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=100),
        },
        {"ceiling": ArmCeiling(read_mb_s=500.0, read_iops=5000)},
    ),
    "storage-latency": (
        {
            "read_s": 8.0,
            "cpu_s": 1.0,
            "device": DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, 7.8),
            "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=5000),
        },
        {"device": DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, 0.1)},
    ),
    "burst-credits": (
        {
            "read_s": 8.0,
            "cpu_s": 1.0,
            "device": DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, 7.8),
            "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=5000),
            "burst_ends": (BurstEnd("gp2,size=40GiB", 3.0, "operations", 2500.0, 120.0, 7.0, 120.0),),
        },
        # They ended near the end, when little was left to do.
        {"burst_ends": (BurstEnd("gp2,size=40GiB", 9.0, "operations", 2500.0, 120.0, 1.0, 120.0),)},
    ),
    "backend-core": ({"cpu_s": 9.5}, {"cpu_s": 2.0}),
    "all-cores": (
        {"cpu_s": 18.0, "runnable_s": 40.0, "client_s": 20.0, "total_s": 80.0},
        {"processors": Processors(64.0, 640.0, 19.0, 0.0)},
    ),
    "cpu-quota": (
        {
            "cpu_s": 2.5,
            "runnable_s": 7.4,
            "arm": arm(cpus=0.25),
            "group": {"nr_periods": 100.0, "nr_throttled": 98.0, "throttled_s": 7.3},
        },
        {"group": {"nr_periods": 100.0, "nr_throttled": 0.0, "throttled_s": 0.0}},
    ),
    "cached": (
        {"cpu_s": 9.5, "bytes_read": 1e9, "bytes_hit": 1e6, "arm": arm(IO_FACTOR)},
        {"device": DeviceFlow(9e8, 90.0, 900.0, ELAPSED_S, 0.1)},
    ),
    "row-locks": (
        {"row_lock_s": 50.0, "cpu_s": 8.0, "total_s": 80.0, "arm": load_arm(), "record": load_record()},
        {"row_lock_s": 1.0},
    ),
    "lwlocks": (
        {"lwlock_s": 40.0, "lwlocks": {"LockManager": 39.0, "WALInsert": 1.0}, "total_s": 80.0},
        {"lwlock_s": 1.0},
    ),
    "object-locks": (
        {"lock_s": 40.0, "locks": {"relation": 39.0, "advisory": 1.0}, "total_s": 80.0},
        {"lock_s": 1.0, "locks": {"relation": 1.0}},
    ),
    "synchronous-replication": (
        {"standby_s": 60.0, "total_s": 80.0, "record": load_record()},
        {"standby_s": 1.0},
    ),
    **WRITE_SIDE,
    "wal-fsync": ({"wal_s": 60.0, "total_s": 80.0, "record": load_record()}, {"wal_s": 1.0}),
    "client-bound": (
        {"client_s": 60.0, "cpu_s": 5.0, "total_s": 80.0, "arm": load_arm(), "record": load_record()},
        {"client_s": 20.0},
    ),
    "offered-load": (
        {"client_s": 60.0, "cpu_s": 5.0, "total_s": 80.0, "arm": load_arm(), "record": paced_record(0)},
        {"record": paced_record(500)},
    ),
    "pooler-core": FULL_POOLER,
    "network": (
        {
            "network_s": 60.0,
            "client_s": 5.0,
            "total_s": 80.0,
            "over_network": True,
            "trips": RoundTrips(6000, 0.01),
            "arm": load_arm(),
            "record": load_record(),
        },
        {"trips": RoundTrips(6000, 0.0001)},
    ),
    "too-few-io-workers": (
        {
            "read_s": 9.0,
            "cpu_s": 0.5,
            "device": FLOW,
            "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=9000),
            "accounts": {
                "backend": account("backend"),
                "io worker": account("io worker", item("wait", 29.5, "IO:DataFileRead"), threads=3),
            },
        },
        {
            "accounts": {
                "backend": account("backend"),
                "io worker": account("io worker", item("wait", 25.0, "Activity:IoWorkerMain"), threads=3),
            }
        },
    ),
}
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "noise": (
        {"cpu_s": 3.0, "runnable_s": 7.0, "processors": Processors(2.0, 20.0, 3.0, 16.5)},
        {"processors": Processors(2.0, 20.0, 3.0, 0.1)},
    ),
    "temp-spill": (
        {"temporary_s": 2.0, "temporary_cpu_s": 1.0, "record": record(**temporary(4e8))},
        {"record": record(**temporary(1e4))},
    ),
    "checkpoint": (
        {"arm": load_arm(), "record": load_record(**checkpoints(4.0))},
        {"record": load_record(**checkpoints(1.0))},
    ),
    "memory": (
        {
            "read_s": 8.0,
            "device": FLOW,
            "arm": arm(memory_bytes=64 << 20),
            "group": {"workingset_refault_file": 30_000.0},
        },
        {"group": {"workingset_refault_file": 0.0}},
    ),
    "too-many-io-workers": (
        {
            "cpu_s": 12.0,
            "runnable_s": 28.0,
            "total_s": 40.0,
            "processors": Processors(2.0, 20.0, 19.0, 0.5),
            "accounts": {
                "backend": account("backend", threads=4),
                "io worker": account("io worker", item("cpu", 7.0), item("runnable", 90.0), threads=32),
            },
        },
        {
            "accounts": {
                "backend": account("backend", threads=4),
                "io worker": account("io worker", item("cpu", 7.0), item("runnable", 30.0), threads=32),
            },
        },
    ),
    "connections": (
        {
            "cpu_s": 5.0,
            "sessions_opened": 500.0,
            "connect_s": 0.004,
            "record": load_record(counters={"pg_stat_database": [{"xact_commit": 510.0}]}),
            "arm": load_arm(),
        },
        {"record": load_record(counters={"pg_stat_database": [{"xact_commit": 9000.0}]})},
    ),
    "no-aio": (
        {"read_s": 8.0, "arm": arm(IO_FACTOR), "record": record(statements=(SCAN,))},
        {"record": record(statements=(SCAN.model_copy(update={"aio": True}),))},
    ),
}
