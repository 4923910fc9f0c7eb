"""Which wait counts as what: a parallel query's own, reads, locks of every type, standbys."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import report_examples as examples
from cause_samples import ELAPSED_S, S, account, arm, evidence, item, load_arm, load_record, record
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes.ceilings import fractions
from pgassay.analysis.causes.evidence import DeviceFlow
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.causes.sampler_files import requests
from pgassay.analysis.causes.trial_evidence import evidence_of_trial
from pgassay.model.arm import RemoteServer
from pgassay.model.experiment import ArmCeiling
from pgassay.model.storage import StorageSpec
from pgassay.record.columns import to_parquet

REMOTE = RemoteServer(
    name="a", connection="", host="a", port=1, dbname="a", user="a", version="18.1", major=18
)


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
    device_file(tmp_path, {name: [rate * second for second in range(21)] for name, rate in moved.items()})
    found = requests(tmp_path, [Span(5 * S, 15 * S, False)])
    assert found.writes_s == pytest.approx(100.0)
    assert found.write_mb_s == pytest.approx(0.4)
    assert found.read_ms == pytest.approx(2.0)
    assert found.write_ms == pytest.approx(4.0)
    # The same of a whole trial, on a remote server so that no threads need be observed.
    wal = StorageSpec(kind="volume") if kind == "volume" else None
    tried = load_arm(storage=StorageSpec(kind=kind, wal=wal), server=REMOTE)
    trial = replace(examples.stored().trials[0], folder=tmp_path)
    span = (5 * S, 15 * S)
    read = {"clock_ns": span, "device_read_bytes": 8_000_000, "device_read_requests": 1000}
    statement = record().statements[0].model_copy(update=read)
    for measured in (load_record(clock_ns=span), record(statements=(statement,), clock_ns=span)):
        trial = replace(trial, record=measured.model_copy(update={"arm_id": tried.id}))
        of_trial = evidence_of_trial(trial, tried, {})
        assert of_trial is not None and of_trial.machine.device is not None
        assert of_trial.machine.device.writes_s == pytest.approx(100.0)
        assert of_trial.machine.device.write_ms == pytest.approx(4.0)
        assert of_trial.machine.device.is_mixed
        shared = (of_trial.machine.shares_ceiling, of_trial.machine.has_own_wal)
        assert shared == ((True, True) if kind == "volume" else (False, False))


def device_file(folder: Path, columns: dict[str, list[float]], step_s: float = 1.0) -> None:
    """The samples of a device, one each `step_s`."""
    (folder / "observations").mkdir()
    clock = [round(place * step_s * S) for place in range(len(columns["reads"]))]
    file = to_parquet({"clock_ns": clock, **columns}, sampler="device", version=2)
    (folder / "observations" / "device.parquet").write_bytes(file)


def test_what_is_written_just_before_and_after_a_statement_is_not_beside_it(tmp_path: Path) -> None:
    """A checkpoint of 10,000 writes ends within the sample in which a statement begins."""
    reads = [100.0 * place for place in range(51)]
    writes = [min(place, 10) * 1000.0 + (20_000.0 if place > 40 else 0.0) for place in range(51)]
    columns = {"reads": reads, "read_ms": reads, "writes": writes, "write_ms": writes, "write_bytes": writes}
    device_file(tmp_path, columns, step_s=0.2)
    within = Span(round(1.95 * S), round(8.1 * S), True)
    assert requests(tmp_path, [within]).writes_s == 0.0
    # Statements one after the other are one part of the time; of one that is too short nothing is told.
    halves = [replace(within, end_ns=5 * S), replace(within, begin_ns=5 * S + 1000)]
    assert requests(tmp_path, halves).writes_s == 0.0
    assert requests(tmp_path, [replace(within, end_ns=round(2.9 * S))]).writes_s is None
    # Nor where most of the time was in statements shorter than a sample.
    short = [Span(round((3 + each / 4) * S), round((3.19 + each / 4) * S), True) for each in range(16)]
    assert requests(tmp_path, [Span(0, round(1.5 * S), True), *short]).writes_s is None


def test_a_shared_start_s_reads_are_those_of_the_execution_that_was_observed() -> None:
    """Its rounds, whose seconds are the statement's figure, found in memory what that one had read."""
    span = (5 * S, 15 * S)
    read = {"clock_ns": span, "device_read_bytes": 120_000_000, "rounds_s": (0.01,), "elapsed_s": 0.01}
    tried = arm(server=REMOTE)
    measured = record(
        statements=(record().statements[0].model_copy(update=read),), clock_ns=span, arm_id=tried.id
    )
    found = evidence_of_trial(replace(examples.stored().trials[0], record=measured), tried, {})
    assert found is not None and found.machine.device is not None
    assert found.machine.device.read_mb_s == pytest.approx(12.0)


def test_a_statement_s_reads_and_writes_fill_a_volume_together(tmp_path: Path) -> None:
    """1,500 reads and 1,500 writes a second of 3,000: told as 'latency, ceiling not reached' once."""
    per_s = {"reads": 1500.0, "read_bytes": 12e6, "read_ms": 9000.0, "weighted_ms": 18_000.0}
    per_s |= {"writes": 1500.0, "write_bytes": 12e6, "write_ms": 9000.0}
    device_file(tmp_path, {name: [rate * second for second in range(21)] for name, rate in per_s.items()})
    span = (5 * S, 15 * S)
    read = {"clock_ns": span, "device_read_bytes": 120_000_000, "device_read_requests": 15_000}
    update = record().statements[0].model_copy(update=read)
    tried = arm(storage=StorageSpec(kind="volume"), server=REMOTE)
    volume = ArmCeiling(read_mb_s=125.0, read_mb_s_from="limit", read_iops=3000, read_iops_from="limit")
    measured = record(statements=(update,), clock_ns=span, arm_id=tried.id)
    trial = replace(examples.stored().trials[0], folder=tmp_path, record=measured)
    found = evidence_of_trial(trial, tried, {tried.name: volume})
    assert found is not None
    waiting = replace(
        found, times=replace(found.times, read_s=6.0, writing={"data write": {"DataFileWrite": 3.0}})
    )
    limit = trial_causes(waiting).limit
    assert limit is not None and limit[0].cause == "storage-iops"
    assert limit[1].figures["share_of_ceiling"] == pytest.approx(1.0)
    assert limit[1].seconds == pytest.approx(9.0)


def test_reads_wait_for_reads_and_a_probe_s_ceiling_is_no_limit_of_writes() -> None:
    """The device took 9 s for writes of others and 1 s for reads, of whose wait 6 s are told."""
    limited = DeviceFlow(1e8, 8.0, 1000.0, ELAPSED_S, 10.0, read_ms=0.1, write_ms=4.0)
    ceiling = ArmCeiling(read_mb_s=500.0, read_mb_s_from="limit", read_iops=9000, read_iops_from="limit")
    planted: dict[str, Any] = {"read_s": 6.0, "cpu_s": 0.5, "ceiling": ceiling}
    found = trial_causes(evidence(**planted, device=limited)).limit
    assert found is None or found[0].cause != "storage-latency"
    slow = trial_causes(evidence(**planted, device=replace(limited, read_ms=0.55))).limit
    assert slow is not None and slow[0].cause == "storage-latency"
    assert slow[1].figures["requests_in_flight"] == pytest.approx(0.55)
    # 900 reads beside 900 writes on a device that a probe found to give 1,000 reads: it gives writes beside.
    mixed = DeviceFlow(1e8, 7.2, 900.0, ELAPSED_S, 10.0, writes_s=900.0, write_mb_s=7.2)
    probed = ArmCeiling(read_mb_s=500.0, read_mb_s_from="probe", read_iops=1000, read_iops_from="probe")
    told = fractions(evidence(device=mixed, ceiling=probed))
    assert told["read_iops"] == pytest.approx(0.9)
    assert fractions(evidence(device=replace(mixed, writes_s=150.0), ceiling=probed))["read_iops"] == 1.05


@pytest.mark.parametrize(("version", "major"), [("18.6", 18), ("19beta4", 19), ("20devel", 20), ("", None)])
def test_a_version_before_its_release_is_known_to_the_rules(version: str, major: int | None) -> None:
    assert evidence(version=version).server.major == major
