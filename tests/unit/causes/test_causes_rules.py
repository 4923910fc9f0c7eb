"""Every rule finds what was planted, with its figures, and not the harmless counterpart."""

from pathlib import Path

import pytest
from planted_for_tests import FAULTS, IO_FACTOR, LIMITS, SCAN, temporary

from cause_samples import (
    ELAPSED_S,
    S,
    arm,
    evidence,
    load_observation,
    load_record,
    record,
)
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.base import Found, Missing
from pgassay.analysis.causes.evidence import DeviceFlow, Evidence, Processors
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.causes.registry import RULES
from pgassay.model.experiment import ArmCeiling
from pgassay.record.columns import to_parquet


def limit_of(found: Evidence) -> tuple[str, Found | None]:
    causes = trial_causes(found)
    return (causes.limit[0].cause, causes.limit[1]) if causes.limit else ("unknown", None)


def faults_of(found: Evidence) -> dict[str, Found]:
    return {rule.cause: answer for rule, answer in trial_causes(found).faults}


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
    folder: Path,
    rates_mb_s: list[float],
    waiting: bool = True,
    slow_request_bytes: int = 131072,
    written_mb_s: float = 0.0,
    flushes_s: float = 0.0,
) -> Evidence:
    """A trial whose device delivered so much in each second; requests of 128 kB while it is fast.

    written_mb_s, flushes_s: what it wrote and flushed while it was slow.
    """
    clocks, read, reads, written, flushes = [0], [0.0], [0.0], [0.0], [0.0]
    for place, rate in enumerate(rates_mb_s):
        written.append(written[-1] + (0.0 if rate > 90 else written_mb_s * 1e6))
        flushes.append(flushes[-1] + (0.0 if rate > 90 else flushes_s))
        clocks.append((place + 1) * S)
        read.append(read[-1] + rate * 1e6)
        reads.append(reads[-1] + rate * 1e6 / (131072 if rate > 90 else slow_request_bytes))
    device = {
        "clock_ns": clocks,
        "read_bytes": read,
        "reads": reads,
        "write_bytes": written,
        "writes": [each / 131072 for each in written],
        "flushes": flushes,
        "discards": [0.0] * len(flushes),
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
    # A checkpoint that takes the device, by bytes or by requests, is no change of the device.
    assert "throttle-change" not in faults_of(throttled(tmp_path / "checkpoint", rates, written_mb_s=60.0))
    assert "throttle-change" not in faults_of(throttled(tmp_path / "flushes", rates, flushes_s=400.0))
    assert "throttle-change" in faults_of(throttled(tmp_path / "little", rates, written_mb_s=10.0))
    steady = [100 + 3 * (place % 3) for place in range(40)]
    assert "throttle-change" not in faults_of(throttled(tmp_path / "steady", steady))
