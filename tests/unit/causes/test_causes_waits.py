"""Which wait counts as what: a parallel query's own, reads, locks of every type, standbys."""

import pytest

from cause_samples import account, evidence, item
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes.rank import trial_causes


def test_a_leader_that_waits_for_its_workers_is_explained_by_them() -> None:
    leader = account("backend", item("wait", 9.0, "IPC:ExecuteGather"), item("cpu", 1.0))
    worker = account("parallel worker", item("wait", 8.0, "IO:DataFileRead"), item("cpu", 2.0))
    idle = account("checkpointer", item("wait", 10.0, "Activity:CheckpointerMain"))
    times = work_times([leader, worker, idle])
    assert times.total_s == pytest.approx(11.0)
    assert times.read_s == pytest.approx(8.0)
    assert times.cpu_s == pytest.approx(3.0)


def test_only_parallel_query_s_own_waits_are_a_leader_s() -> None:
    """All other events of class IPC are waits of the work itself."""
    waits = {"SyncRep": 2.0, "BufferIo": 1.0, "ProcArrayGroupUpdate": 0.5, "CheckpointDone": 0.25}
    backend = account(
        "backend",
        *(item("wait", seconds, f"IPC:{event}") for event, seconds in waits.items()),
        item("wait", 3.0, "IPC:HashBuildHashInner"),
    )
    times = work_times([backend])
    assert times.total_s == pytest.approx(7.0)
    assert (times.standby_s, times.read_s, times.lwlock_s) == (2.0, 1.0, 0.5)
    assert times.lwlocks == {"ProcArrayGroupUpdate": 0.5}


def test_every_type_of_lock_counts_and_is_named() -> None:
    types = ("relation", "extend", "frozenid", "page", "virtualxid", "spectoken", "object", "userlock")
    waits = [item("wait", 0.5, f"Lock:{name}") for name in (*types, "applytransaction")]
    backend = account("backend", *waits, item("wait", 2.0, "Lock:advisory"), item("wait", 1.0, "Lock:tuple"))
    times = work_times([backend])
    assert (times.lock_s, times.row_lock_s) == (6.5, 1.0)
    limit = trial_causes(evidence(lock_s=times.lock_s, locks=times.locks)).limit
    assert limit is not None
    rule, found = limit
    assert rule.cause == "object-locks"
    assert found.figures["most_waited_for"] == "advisory"
    assert {f"{each}_s" for each in types} <= set(found.figures)
    assert "application takes this lock itself" in found.remedy


def test_copying_within_a_wait_event_is_processor_time() -> None:
    times = work_times(
        [
            account(
                "backend",
                item("cpu", 6.0, "IO:DataFileRead", "running"),
                item("wait", 3.0, "IO:DataFileRead"),
            )
        ]
    )
    assert (times.cpu_s, times.cpu_in_reads_s, times.read_s) == (6.0, 6.0, 3.0)
