"""Every rule finds what was planted, with its figures, and not the harmless counterpart."""

from pathlib import Path
from typing import Any

import pytest

from cause_samples import (
    ELAPSED_S,
    FLOW,
    FULL_POOLER,
    LIMIT,
    S,
    account,
    arm,
    checkpoints,
    evidence,
    item,
    load_arm,
    load_observation,
    load_record,
    record,
)
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.base import Found, Missing
from pgassay.analysis.causes.evidence import DeviceFlow, Evidence, Processors
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.causes.registry import RULES
from pgassay.analysis.causes.volume_evidence import BurstEnd
from pgassay.analysis.descriptive.round_trips import RoundTrips
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import StatementObservation
from pgassay.record.columns import to_parquet
from write_side_samples import WRITE_SIDE

SCAN = StatementObservation(
    name="scan", elapsed_s=10, rows=1, cold=True, aio=False, device_read_bytes=10**8, device_read_requests=9
)
IO_FACTOR = {"io_method": "worker"}


def limit_of(found: Evidence) -> tuple[str, Found | None]:
    causes = trial_causes(found)
    return (causes.limit[0].cause, causes.limit[1]) if causes.limit else ("unknown", None)


def faults_of(found: Evidence) -> dict[str, Found]:
    return {rule.cause: answer for rule, answer in trial_causes(found).faults}


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


@pytest.mark.parametrize("cause", LIMITS)
def test_a_planted_limit_is_named_and_its_decoy_is_not(cause: str) -> None:
    planted, harmless = LIMITS[cause]
    name, found = limit_of(evidence(**planted))
    assert name == cause
    assert found is not None
    assert found.figures
    assert found.seconds is not None
    assert 0 < found.seconds <= planted.get("total_s", ELAPSED_S)
    assert limit_of(evidence(**planted | harmless))[0] != cause


def temporary(bytes_written: float) -> dict[str, Any]:
    return {"counters": {"pg_stat_database": [{"temp_bytes": bytes_written, "temp_files": 3.0}]}}


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


@pytest.mark.parametrize("cause", FAULTS)
def test_a_planted_fault_is_named_and_its_decoy_has_none(cause: str) -> None:
    planted, harmless = FAULTS[cause]
    found = faults_of(evidence(**planted))
    assert set(found) == {cause}
    assert found[cause].figures
    assert not faults_of(evidence(**planted | harmless))


def test_every_rule_is_planted_here() -> None:
    # Those of tables and of autovacuum are in test_causes_upkeep.py.
    elsewhere = {"bloat", "bloat-held", "discarding-scan", "autovacuum"}
    assert {rule.cause for rule in RULES} == {*LIMITS, *FAULTS, "throttle-change", *elsewhere}
    assert {rule.cause for rule in RULES if rule.kind == "limit"} == set(LIMITS)


def test_the_method_is_not_credited_where_only_its_setting_is_off() -> None:
    asynchronous = record(statements=(SCAN.model_copy(update={"aio": True}),))
    off = arm(IO_FACTOR, settings={"effective_io_concurrency": "0"})
    assert "no-aio" in faults_of(evidence(read_s=8.0, arm=off, record=asynchronous))
    # Nothing was read from a device: what is compared can't matter, but for another reason.
    cached = record(statements=(SCAN.model_copy(update={"device_read_bytes": 0}),))
    assert not faults_of(evidence(read_s=8.0, arm=arm(IO_FACTOR), record=cached))


def test_a_cap_s_gain_is_what_lifting_it_gives() -> None:
    """2.5 s of work in 10 s: without the cap it takes 2.5 s and the queue beyond the throttling."""
    _, found = limit_of(evidence(**LIMITS["cpu-quota"][0]))
    assert found is not None
    assert found.gain == pytest.approx(10 / (10 - 7.3), rel=0.01)


def test_of_temporary_files_the_sleep_is_predicted_to_be_gained_and_at_most_the_copying_too() -> None:
    spilled = {"temporary_s": 2.0, "temporary_cpu_s": 3.0, "record": record(**temporary(4e8))}
    found = faults_of(evidence(**spilled))["temp-spill"]
    assert found.seconds == pytest.approx(5.0)
    assert found.gain_range == pytest.approx((10 / (10 - 2), 10 / (10 - 5)))


def test_a_gain_is_bounded_by_the_processors() -> None:
    planted = LIMITS["row-locks"][0] | {"row_lock_s": 79.0, "processors": Processors(2.0, 20.0, 8.0, 0.0)}
    _, found = limit_of(evidence(**planted))
    assert found is not None
    assert found.gain == pytest.approx(20 / 8)


def test_without_a_ceiling_a_deep_queue_is_not_explained_and_says_what_is_missing() -> None:
    deep = DeviceFlow(8e8, 80.0, 980.0, ELAPSED_S, 90.0)
    causes = trial_causes(evidence(read_s=9.0, cpu_s=0.5, device=deep))
    assert causes.limit is None
    assert any("pgassay probe" in words for words in causes.missing)
    shallow = DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, 8.5)
    assert limit_of(evidence(read_s=9.0, cpu_s=0.5, device=shallow))[0] == "storage-latency"


def test_missing_counters_are_no_evidence() -> None:
    bare = evidence(read_s=9.0, cpu_s=0.5, device=None, processors=None, arm=arm(cpus=0.5))
    causes = trial_causes(bare)
    assert causes.limit is None
    assert not causes.faults
    assert {words.split(":")[0] for words in causes.missing} >= {
        "cpu-quota",
        "all-cores",
        "storage-throughput",
    }
    answers = [rule.find(bare) for rule in RULES]
    assert sum(isinstance(answer, Missing) for answer in answers) >= 5


def test_a_limit_is_used_up_sooner_than_a_measured_ceiling() -> None:
    """At 25 requests a second the kernel lets 20 pass of those that come one by one."""
    planted = {"read_s": 9.0, "cpu_s": 0.5, "device": DeviceFlow(2e6, 0.2, 20.4, ELAPSED_S, 0.3)}
    limit = ArmCeiling(read_iops=25, read_iops_from="limit")
    assert limit_of(evidence(**planted, ceiling=limit))[0] == "storage-iops"
    probe = ArmCeiling(read_iops=25, read_iops_from="probe")
    assert limit_of(evidence(**planted, ceiling=probe))[0] == "unknown"


def test_a_measured_ceiling_that_was_beaten_is_none() -> None:
    planted = {"read_s": 9.0, "cpu_s": 0.5, "device": DeviceFlow(1e10, 1000.0, 4000.0, ELAPSED_S, 90.0)}
    for rate, cause in ((1000.0, "storage-throughput"), (393.0, "unknown")):
        probe = ArmCeiling(read_mb_s=rate, read_mb_s_from="probe")
        assert limit_of(evidence(**planted, ceiling=probe))[0] == cause


def test_a_starved_client_is_not_blamed() -> None:
    """Others used the processors: what the client waited for is known where its own wait for one is."""
    planted = LIMITS["client-bound"][0] | {"processors": Processors(2.0, 20.0, 6.0, 13.9)}
    assert limit_of(evidence(**planted))[0] == "unknown"
    busy = load_record(client_cpu_s=9.0)
    assert limit_of(evidence(**planted | {"record": busy}))[0] == "client-bound"
    for waited_s, cause in ((0.5, "client-bound"), (9.0, "unknown")):
        load = load_observation(client_run_queue_s=waited_s)
        assert limit_of(evidence(**planted | {"record": load_record(load=load)}))[0] == cause


def test_data_in_memory_are_told_where_reading_is_compared_or_takes_the_time() -> None:
    other = {"cpu_s": 9.5, "bytes_read": 1e9}
    assert limit_of(evidence(**other))[0] == "backend-core"
    assert limit_of(evidence(**other, arm=arm(IO_FACTOR)))[0] == "cached"
    copying = other | {"bytes_read": 4e9, "cpu_in_reads_s": 4.0}
    assert limit_of(evidence(**copying))[0] == "cached"
    # A worker copies from the page cache, and the connection waits for it.
    assert limit_of(evidence(bytes_read=1e9, cpu_s=3.0, read_s=6.0, arm=arm(IO_FACTOR)))[0] == "cached"


def test_few_samples_do_not_turn_a_computation_into_copying() -> None:
    """Of the half second that a statement over 13 MB computes, four of ten looks found it in a read."""
    few = {"cpu_s": 0.5, "total_s": 0.5, "elapsed_s": 0.5, "cpu_in_reads_s": 0.2, "bytes_read": 13e6}
    assert limit_of(evidence(**few))[0] == "backend-core"
    assert limit_of(evidence(**few | {"bytes_read": 130e6}))[0] == "cached"
    # As many waits for an I/O worker are not what so few bytes take either.
    handed_over = {"cpu_s": 0.3, "read_s": 0.2, "total_s": 0.5, "elapsed_s": 0.5, "bytes_read": 13e6}
    assert limit_of(evidence(**handed_over, processors=None))[0] == "backend-core"


def throttled(
    folder: Path, rates_mb_s: list[float], waiting: bool = True, slow_request_bytes: int = 131072
) -> Evidence:
    """A trial whose device delivered so much in each second; requests of 128 kB while it is fast."""
    clocks, read, reads = [0], [0.0], [0.0]
    for place, rate in enumerate(rates_mb_s):
        clocks.append((place + 1) * S)
        read.append(read[-1] + rate * 1e6)
        reads.append(reads[-1] + rate * 1e6 / (131072 if rate > 90 else slow_request_bytes))
    device = {
        "clock_ns": clocks,
        "read_bytes": read,
        "reads": reads,
    }
    kinds = len(rates_mb_s) * ["backend"]
    waits = {
        "from_ns": clocks[:-1],
        "clock_ns": clocks[1:],
        "kind": kinds,
        "wait_event": ["DataFileRead" if waiting else "ClientRead"] * len(kinds),
        "samples": [20] * len(kinds),
    }
    (folder / "observations").mkdir(parents=True)
    for name, columns in (("device", device), ("waits", waits)):
        content = to_parquet(columns, sampler=name, version=1)
        (folder / "observations" / f"{name}.parquet").write_bytes(content)
    seconds = len(rates_mb_s)
    return evidence(
        total_s=seconds,
        elapsed_s=seconds,
        read_s=0.9 * seconds,
        folder=folder,
        spans=(Span(0, seconds * S, False),),
    )


def test_a_limit_that_drops_is_found_with_when_from_and_to(tmp_path: Path) -> None:
    rates = [100 + 3 * (place % 3) for place in range(20)] + [40 + place % 3 for place in range(20)]
    found = faults_of(throttled(tmp_path / "drop", rates))["throttle-change"]
    assert abs(float(found.figures["changed_at_s"]) - 20) <= 2
    assert found.figures["from_mb_s"] == pytest.approx(103, rel=0.05)
    assert found.figures["to_mb_s"] == pytest.approx(41, rel=0.05)
    # 20 s at 41 of 103 MB/s would have been 8 s: 28 s in place of 40.
    assert found.seconds == pytest.approx(12, abs=1)
    assert found.gain == pytest.approx(40 / 28, rel=0.05)
    # What is held back is merged into larger requests; single pages after a scan are other work.
    assert "throttle-change" in faults_of(throttled(tmp_path / "merged", rates, slow_request_bytes=196608))
    assert "throttle-change" not in faults_of(throttled(tmp_path / "pages", rates, slow_request_bytes=8192))
    # A server that waits for its client while less is read: the work changed, not the device.
    assert "throttle-change" not in faults_of(throttled(tmp_path / "work", rates, waiting=False))
    steady = [100 + 3 * (place % 3) for place in range(40)]
    assert "throttle-change" not in faults_of(throttled(tmp_path / "steady", steady))
