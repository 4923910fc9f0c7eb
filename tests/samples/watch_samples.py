"""Intervals of `pgassay watch` as tests need them."""

from typing import Any

from pgassay.analysis.descriptive.iostat import iostat
from pgassay.model.running_server.watch import (
    AioHandles,
    ArmEstimate,
    CommandProgress,
    Connections,
    DeviceRates,
    ExperimentState,
    HostUse,
    RunningTrial,
    ServerSample,
    ThreadUse,
    Throughput,
    Wait,
    WaitingStatement,
    WatchSample,
)

HOSTILE = "\x1b[2J\x07größe\n\u202e"
LOCK = Wait(
    kind="backend", state="active", event_type="Lock", event="transactionid", scheduler="asleep", threads=4.0
)
RUNNING = Wait(kind="backend", state="active", event_type="", event="", scheduler="running", threads=1.0)
WORKER = Wait(
    kind="io worker", state="", event_type="IO", event="DataFileRead", scheduler="device", threads=2.0
)
VACUUM = CommandProgress(
    pid=99, command="VACUUM", database="shop", relation="accounts", autovacuum=True,
    phase="vacuuming indexes", done=1, total=4, passes=1, dead_rows=1000,
    dead_rows_bytes=float(16 << 20), dead_rows_bytes_max=float(64 << 20), delay_ms=2500.0,
)  # fmt: skip
COUNTERS = {
    **dict.fromkeys(("reads", "reads_merged", "read_bytes", "read_ms", "writes", "writes_merged"), 0.0),
    **dict.fromkeys(("write_bytes", "write_ms", "in_flight", "in_flight_ms", "weighted_ms", "discards"), 0.0),
    **dict.fromkeys(("discards_merged", "discard_bytes", "discard_ms", "flushes", "flush_ms"), 0.0),
}


def server(**changes: Any) -> ServerSample:
    """A server at work, with everything seen."""
    usual: dict[str, Any] = {
        "name": "localhost:5432/shop",
        "version": "18.4",
        "pid": 4711,
        "connections": Connections(by_state={"active": 5.0, "idle": 2.0}, limit=100),
        "waits": (LOCK, WORKER, RUNNING),
        "threads": (
            ThreadUse(kind="backend", threads=7, cpu=0.75, queue=0.25, read_bytes_s=1e6, write_bytes_s=None),
            ThreadUse(kind="autovacuum", threads=0, cpu=0.0, queue=0.0, read_bytes_s=0.0, write_bytes_s=0.0),
            ThreadUse(kind="io worker", threads=3, cpu=0.5, queue=0.0, read_bytes_s=None, write_bytes_s=None),
        ),
        "throughput": Throughput(
            transactions_s=1234.0, rollbacks_s=0.0, tuples_read_s=5e6, tuples_written_s=None,
            blocks_hit_s=9000.0, blocks_read_s=1000.0, hit_share=0.9, temp_bytes_s=0.0,
            wal_bytes_s=3 * 1024.0**2, deadlocks=1.0, checkpoints=1.0,
        ),
        "aios": (AioHandles(state="SUBMITTED", operation="readv", handles=3, bytes=1 << 20),),
        "statements": (
            WaitingStatement(
                query_id=7, query="UPDATE hot SET n = n + 1", active=4.0, waiting=4.0,
                event="Lock:transactionid",
            ),
        ),
    }  # fmt: skip
    return ServerSample(**(usual | changes))


def experiment(**changes: Any) -> ExperimentState:
    """An experiment that runs."""
    usual: dict[str, Any] = {
        "folder": "/results/one",
        "title": "io_method on full-scan",
        "stopped": "running",
        "is_running": True,
        "blocks": 2,
        "blocks_max": 20,
        "arms": 3,
        "margin": 0.03,
        "trials": {"ok": 7, "failed": 1},
        "trial": RunningTrial(
            number=7, attempt=2, block=2, position=1, arm_id="arm-002", elapsed_s=4.0, expected_s=9.0
        ),
        "time_left_s": 500.0,
        "estimates": (
            ArmEstimate(
                name="io_method=worker", stratum="clients=8", ratio=1.2, interval=(1.1, 1.3),
                verdict="faster", withheld=False,
            ),
        ),
        "report": None,
    }  # fmt: skip
    return ExperimentState(**(usual | changes))


def sample(second: int = 0, **changes: Any) -> WatchSample:
    """The interval that ends at `second`."""
    before, after = COUNTERS, COUNTERS | {"reads": 100.0, "read_bytes": 819200.0, "in_flight_ms": 500.0}
    usual: dict[str, Any] = {
        "time": f"2026-01-01T00:00:{second:02d}.000Z",
        "clock_ns": second * 1_000_000_000,
        "interval_s": 1.0,
        "experiment": None,
        "server": server(),
        "device": DeviceRates(name="vda", iostat=iostat(before, after, 1.0)),
        "host": HostUse(
            processors=2,
            cpu={"user": 0.5, "system": 0.25, "iowait": 0.05, "idle": 0.1, "steal": 0.1},
            pressure={"cpu_some": 0.4, "io_some": 0.2, "memory_some": 0.0},
            memory={"dirty_bytes": 1e6, "available_bytes": 1e9},
        ),
        "missing": (),
    }
    return WatchSample(**(usual | changes))
