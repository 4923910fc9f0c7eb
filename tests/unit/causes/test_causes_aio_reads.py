"""Which part of the reads can't be asynchronous, and what is advised and said of it."""

from typing import Any

import pytest

from cause_samples import ELAPSED_S, FLOW, arm, evidence, load_arm, load_record, record
from pgassay.analysis.causes.aio_reads import index_share, synchronous_share
from pgassay.analysis.causes.evidence import DeviceFlow
from pgassay.analysis.causes.rank import trial_causes
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import StatementObservation

IO_FACTOR = {"io_method": "worker"}


def scan(kind: str, cost: float, *children: dict[str, Any], **figures: float) -> dict[str, Any]:
    """A node with its children; names of figures with _ for spaces."""
    named = {name.replace("_", " "): value for name, value in figures.items()}
    return {"Node Type": kind, "Total Cost": cost, "Plans": list(children), **named}


def statement(name: str, delivered: int) -> StatementObservation:
    return StatementObservation(
        name=name,
        elapsed_s=10,
        rows=1,
        cold=True,
        aio=True,
        device_read_bytes=delivered,
        device_read_requests=9,
    )


def of(plan: dict[str, Any], version: str = "18.1", **changes: Any) -> Any:
    return evidence(plans={"scan": {"Plan": plan}}, version=version, **changes)


LOOP = scan(
    "Nested Loop", 8000.0, scan("Seq Scan", 1.0, Plan_Rows=100), scan("Index Scan", 80.0, Plan_Rows=1)
)


def test_a_sequential_scan_of_one_page_makes_no_statement_asynchronous() -> None:
    share = synchronous_share(of(LOOP))
    assert share == pytest.approx(8000 / 8001)
    assert synchronous_share(of(scan("Seq Scan", 500.0))) == 0.0
    assert synchronous_share(of(scan("Seq Scan", 500.0), version="17.2")) == 1.0, "before 18 nothing is"
    assert index_share(of(scan("Seq Scan", 500.0), version="17.2")) == 0.0
    bitmap = scan("Bitmap Heap Scan", 1000.0, scan("Bitmap Index Scan", 100.0))
    assert synchronous_share(of(bitmap)) == pytest.approx(0.1)
    assert synchronous_share(of(scan("Result", 0.01))) is None
    assert synchronous_share(evidence()) is None


def test_blocks_that_were_read_tell_more_than_costs() -> None:
    executed = scan(
        "Nested Loop",
        8000.0,
        scan("Seq Scan", 1.0, Shared_Read_Blocks=900),
        scan("Index Scan", 80.0, Shared_Read_Blocks=100),
        Shared_Read_Blocks=1000,
    )
    assert synchronous_share(of(executed)) == pytest.approx(0.1)


def test_statements_count_by_what_the_device_delivered() -> None:
    plans = {"a": {"Plan": scan("Seq Scan", 9.0)}, "b": {"Plan": scan("Index Scan", 9.0)}}
    reads = record(statements=(statement("a", 10**6), statement("b", 3 * 10**6)))
    assert synchronous_share(evidence(plans=plans, version="18.1", record=reads)) == pytest.approx(0.75)


def faults(**changes: Any) -> dict[str, Any]:
    found = trial_causes(evidence(**changes))
    return {rule.cause: answer for rule, answer in found.faults}


def test_what_can_not_matter_is_said_whatever_the_share_of_waiting() -> None:
    reading = record(statements=(statement("scan", 10**8),))
    told = faults(
        cpu_s=9.9,
        read_s=0.1,
        arm=arm(IO_FACTOR),
        record=reading,
        plans={"scan": {"Plan": LOOP}},
        version="18.1",
    )
    assert told["no-aio"].figures["share_of_reads_without_aio"] > 0.99
    sequential = {"scan": {"Plan": scan("Seq Scan", 9.0)}}
    assert "no-aio" not in faults(arm=arm(IO_FACTOR), record=reading, plans=sequential, version="18.1")


@pytest.mark.parametrize("setting", ["effective_io_concurrency", "io_workers", "io_combine_limit"])
def test_index_scans_have_no_use_for_settings_of_reads(setting: str) -> None:
    """One page at a time: nothing to keep in flight, and nothing to combine."""
    of_index: dict[str, Any] = {
        "cpu_s": 9.9,
        "read_s": 0.1,
        "arm": arm({setting: "64"}),
        "record": record(statements=(statement("scan", 10**8),)),
    }
    plans = {"scan": {"Plan": scan("Index Scan", 80.0)}}
    assert faults(**of_index, plans=plans, version="18.1")["no-aio"].figures["compared"] == setting
    # Sequential scans of 17 are not asynchronous, and combine their reads.
    sequential = faults(**of_index, plans={"scan": {"Plan": scan("Seq Scan", 80.0)}}, version="17.2")
    assert ("no-aio" in sequential) == (setting != "io_combine_limit")


def test_cold_caches_are_for_who_compares_ways_of_reading() -> None:
    copying = {"cpu_s": 9.5, "bytes_read": 4e9, "cpu_in_reads_s": 4.0}
    of_an_index = trial_causes(evidence(**copying))
    assert of_an_index.limit is not None and of_an_index.limit[0].cause == "cached"
    assert "--cache cold" not in (of_an_index.limit[1].remedy or of_an_index.limit[0].remedy)
    of_a_method = trial_causes(evidence(**copying, arm=arm({"io_method": "worker"})))
    assert of_a_method.limit is not None and of_a_method.limit[0].cause == "cached"
    assert of_a_method.limit[1].remedy == (
        "There is no I/O to speed up: fewer pages, rows or calls help. To compare I/O, use --cache cold or "
        "cold-each, more data or less memory."
    )


def test_loads_are_looked_into_as_well() -> None:
    base = load_arm()
    load: dict[str, Any] = {
        "read_s": 5.0,
        "device": FLOW,
        "arm": base.model_copy(update={"levels": IO_FACTOR}),
        "record": load_record(),
        "version": "18.1",
    }
    assert "no-aio" in faults(**load, plans={"update": {"Plan": LOOP}})
    assert "no-aio" not in faults(**load, plans={"update": {"Plan": scan("Seq Scan", 9.0)}})
    assert "no-aio" not in faults(**load), "without a plan nothing is known"


@pytest.mark.parametrize("cause", ["storage-iops", "storage-latency"])
def test_index_reads_are_not_advised_what_does_nothing_for_them(cause: str) -> None:
    most, service_s = (100, 0.4) if cause == "storage-iops" else (5000, 7.8)
    slow: dict[str, Any] = {
        "read_s": 8.0,
        "cpu_s": 1.0,
        "device": DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, service_s),
        "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=most),
    }
    limit = trial_causes(of(LOOP, **slow)).limit
    assert limit is not None
    assert limit[0].cause == cause
    assert "index scans" in limit[1].remedy
    assert limit[1].figures["share_of_reads_by_index"] > 0.9
    other = trial_causes(of(scan("Seq Scan", 9.0), **slow)).limit
    assert other is not None
    assert other[1].remedy == "", "the rule's own"


@pytest.mark.parametrize(("version", "matters"), [("16.9", True), ("17.5", True), ("18.1", False)])
def test_effective_io_concurrency_prefetches_before_asynchronous_reads(version: str, matters: bool) -> None:
    """Before 18 bitmap heap scans read ahead by it, though nothing is asynchronous."""
    compared = arm({"effective_io_concurrency": "1"})
    slow = statement("s", 10**8).model_copy(update={"aio": False})
    reading = record(statements=(slow,))
    bitmap = {"s": {"Plan": scan("Bitmap Heap Scan", 90.0)}}
    found = faults(arm=compared, record=reading, plans=bitmap, version=version)
    assert "no-aio" not in found
    by_index = {"s": {"Plan": scan("Index Scan", 90.0)}}
    assert "no-aio" in faults(arm=compared, record=reading, plans=by_index, version=version)
    unknown = faults(arm=compared, record=reading, version=version)
    assert ("no-aio" in unknown) != matters
    # ANALYZE has no plan, and prefetches its sample by the other setting.
    command = faults(arm=arm({"maintenance_io_concurrency": "1"}), record=reading, version=version)
    assert ("no-aio" in command) != matters


@pytest.mark.parametrize(
    ("version", "cause", "has", "lacks"),
    [
        ("16.9", "storage-latency", "asynchronous I/O needs PostgreSQL 18", ""),
        ("18.1", "storage-latency", "", "takes PostgreSQL"),
        ("16.9", "storage-iops", "io_combine_limit needs PostgreSQL 17", ""),
        ("17.2", "storage-iops", "io_combine_limit", "io_combine_limit needs PostgreSQL 17"),
        ("16.9", "storage-iops", "read-ahead", "io_max_combine_limit"),
        # Else a larger io_combine_limit is silently held down to 128 kB.
        ("18.6", "storage-iops", "also io_max_combine_limit from 18 on", "needs PostgreSQL"),
    ],
)
def test_advice_on_the_device_is_that_of_the_version(version: str, cause: str, has: str, lacks: str) -> None:
    device_s, read_iops = {"storage-latency": (7.8, 5000), "storage-iops": (0.4, 100)}[cause]
    planted = {
        "read_s": 8.0,
        "cpu_s": 1.0,
        "device": DeviceFlow(8e6, 0.8, 98.0, ELAPSED_S, device_s),
        "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=read_iops),
    }
    limit = trial_causes(evidence(**planted, version=version)).limit
    assert limit is not None
    remedy = limit[1].remedy or limit[0].remedy
    assert limit[0].cause == cause
    assert has in remedy
    assert not lacks or lacks not in remedy
