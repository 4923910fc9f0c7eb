"""Which wait counts as what: a parallel query's own, reads, locks of every type, standbys."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import report_examples as examples
from cause_samples import ELAPSED_S, S, account, evidence, item, load_arm, load_record
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes.evidence import DeviceFlow
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.causes.sampler_files import requests
from pgassay.analysis.causes.trial_evidence import evidence_of_trial
from pgassay.model.arm import RemoteServer
from pgassay.model.experiment import ArmCeiling
from pgassay.model.storage import StorageSpec
from pgassay.record.columns import to_parquet


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
    types = ("relation", "frozenid", "page", "virtualxid", "spectoken", "object", "userlock")
    waits = [item("wait", 0.5, f"Lock:{name}") for name in (*types, "applytransaction")]
    backend = account("backend", *waits, item("wait", 2.0, "Lock:advisory"), item("wait", 1.0, "Lock:tuple"))
    times = work_times([backend])
    assert (times.lock_s, times.row_lock_s) == (6.0, 1.0)
    limit = trial_causes(evidence(lock_s=times.lock_s, locks=times.locks)).limit
    assert limit is not None
    rule, found = limit
    assert rule.cause == "object-locks"
    assert found.figures["most_waited_for"] == "advisory"
    assert {f"{each}_s" for each in types} <= set(found.figures)
    assert "application takes this lock itself" in found.remedy


def test_locks_of_pages_are_those_of_gin_s_pending_entries() -> None:
    """A hash index has locked no pages since 10; ginInsertCleanup of ginfast.c does."""
    limit = trial_causes(evidence(lock_s=8.0, locks={"page": 8.0})).limit
    assert limit is not None
    assert "gin_pending_list_limit" in limit[1].remedy
    assert "hash" not in limit[1].remedy


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


def test_what_writes_wait_for_is_told_apart() -> None:
    """Each of these had no group once, so that a server that waited for nothing else was 'unknown'."""
    waits = {
        "IO:DataFileWrite": "data write", "IO:DataFileExtend": "extension", "IO:DataFileFlush": "data write",
        "IO:SlruRead": "slru", "LWLock:SubtransSLRU": "slru", "LWLock:WALInsert": "wal insert",
        "IPC:CheckpointDone": "checkpoint",
    }  # fmt: skip
    backend = account("backend", *(item("wait", 1.0, event) for event in waits))
    times = work_times([backend])
    for event, group in waits.items():
        assert times.writing[group][event.partition(":")[2]] == 1.0
    assert times.written_s("slru") == 2.0
    assert times.lwlock_s == 0.0


@pytest.mark.parametrize("event", ["Buffer:BufferExclusive", "BufferPin:BufferPin", "Timeout:SpinDelay"])
def test_locks_of_pages_and_spinlocks_are_locks_within_the_server(event: str) -> None:
    times = work_times([account("backend", item("wait", 2.0, event))])
    assert times.lwlock_s == 2.0


def test_writes_count_against_the_ceiling_that_reads_have() -> None:
    """1,500 reads and 1,500 writes on 3,000 requests a second are a full volume, and no latency."""
    written = {"writes_s": 1500.0, "write_mb_s": 12.0, "read_ms": 2.0, "write_ms": 4.0}
    mixed = DeviceFlow(1e8, 12.0, 1500.0, ELAPSED_S, 9.0, **written)
    planted: dict[str, Any] = {"read_s": 6.0, "wal_s": 3.0, "cpu_s": 0.5, "device": mixed}
    volume = ArmCeiling(read_mb_s=125.0, read_mb_s_from="limit", read_iops=3000, read_iops_from="limit")
    limit = trial_causes(evidence(**planted, ceiling=volume, shares_ceiling=True)).limit
    assert limit is not None
    rule, found = limit
    assert rule.cause == "storage-iops"
    assert found.seconds == pytest.approx(9.0)
    told = [found.figures[name] for name in ("write_iops", "read_ms", "write_ms")]
    assert told == [1500.0, 2.0, 4.0]
    assert found.figures["share_of_ceiling"] == pytest.approx(1.0)
    # The kernel's limits count each direction by itself: then it is far from full, and each read is slow.
    apart = trial_causes(evidence(**planted, ceiling=volume)).limit
    assert apart is None or apart[0].cause != "storage-iops"
    # The WAL of another storage is not waited for here.
    own_wal = trial_causes(evidence(**planted, ceiling=volume, shares_ceiling=True, has_own_wal=True)).limit
    assert own_wal is not None and own_wal[0].cause == "storage-iops"
    assert own_wal[1].seconds == pytest.approx(6.0)


@pytest.mark.parametrize("kind", ["volume", "loop"])
def test_a_trial_s_writes_are_read_with_flushes_and_discards(kind: str, tmp_path: Path) -> None:
    """In 10 s 100 reads of 2 ms, 50 writes of 4 ms, 30 flushes and 20 discards a second."""
    moved = {
        "read_bytes": 8e5, "reads": 100.0, "read_ms": 200.0, "weighted_ms": 400.0,
        "writes": 50.0, "write_bytes": 4e5, "write_ms": 200.0, "flushes": 30.0, "discards": 20.0,
    }  # fmt: skip
    columns: dict[str, list[float]] = {name: [0.0, 20 * rate] for name, rate in moved.items()}
    (tmp_path / "observations").mkdir()
    file = to_parquet({"clock_ns": [0, 20 * S], **columns}, sampler="device", version=2)
    (tmp_path / "observations" / "device.parquet").write_bytes(file)
    found = requests(tmp_path, [Span(5 * S, 15 * S, False)], 10.0)
    assert found.writes_s == pytest.approx(100.0)
    assert found.write_mb_s == pytest.approx(0.4)
    assert found.read_ms == pytest.approx(2.0)
    assert found.write_ms == pytest.approx(4.0)
    # The same of a whole trial, on a remote server so that no threads need be observed.
    wal = StorageSpec(kind="volume") if kind == "volume" else None
    remote = RemoteServer(
        name="a", connection="", host="a", port=1, dbname="a", user="a", version="18.1", major=18
    )
    tried = load_arm(storage=StorageSpec(kind=kind, wal=wal), server=remote)
    trial = replace(examples.stored().trials[0], folder=tmp_path)
    span = (5 * S, 15 * S)
    trial = replace(trial, record=load_record(arm_id=tried.id, clock_ns=span))
    of_trial = evidence_of_trial(trial, tried, {})
    assert of_trial is not None and of_trial.machine.device is not None
    assert of_trial.machine.device.writes_s == pytest.approx(100.0)
    assert of_trial.machine.device.is_mixed
    shared = (of_trial.machine.shares_ceiling, of_trial.machine.has_own_wal)
    assert shared == ((True, True) if kind == "volume" else (False, False))


@pytest.mark.parametrize(("version", "major"), [("18.6", 18), ("19beta4", 19), ("20devel", 20), ("", None)])
def test_a_version_before_its_release_is_known_to_the_rules(version: str, major: int | None) -> None:
    assert evidence(version=version).server.major == major
