"""What lifting a limit of the storage gains: the device's own time for the same reads stays."""

from dataclasses import replace

import pytest

from cause_samples import ELAPSED_S, FLOW, LIMIT, evidence
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.evidence import DeviceFlow
from pgassay.analysis.causes.rules.device_limit import IOPS, THROUGHPUT
from pgassay.model.experiment import ArmCeiling

# A sort of what a limit delivers; of the wait for reads the device itself takes a twelfth.
SORTING = {"read_s": 6.0, "cpu_s": 3.0, "device": FLOW, "ceiling": LIMIT}


def gain(rule_finds: object, device: DeviceFlow, ceiling: ArmCeiling = LIMIT) -> float:
    assert callable(rule_finds)
    found = rule_finds(evidence(**SORTING | {"device": device, "ceiling": ceiling}))
    assert isinstance(found, Found) and found.seconds == 6.0 and found.gain is not None
    return found.gain


def test_without_a_limit_reads_take_what_the_device_takes_for_them() -> None:
    assert FLOW.service_s == 0.5
    assert gain(THROUGHPUT.find, FLOW) == pytest.approx(ELAPSED_S / (ELAPSED_S - 6.0 + 0.5))
    few = ArmCeiling(read_iops=125, read_iops_from="limit")
    assert gain(IOPS.find, FLOW, few) == pytest.approx(ELAPSED_S / (ELAPSED_S - 6.0 + 0.5))


def test_of_mixed_requests_the_reads_time_stays_and_not_the_writes() -> None:
    """1,200 reads of 0.25 ms beside 600 writes of 10 ms."""
    mixed = replace(FLOW, writes_s=60.0, write_mb_s=0.1, read_ms=0.25, write_ms=10.0, service_s=6.3)
    assert gain(THROUGHPUT.find, mixed) == pytest.approx(ELAPSED_S / (ELAPSED_S - 6.0 + 0.3))


@pytest.mark.parametrize("service_s", [None, 30.0])
def test_where_reads_wait_in_the_device_its_time_does_not_tell_what_they_take(
    service_s: float | None,
) -> None:
    device = replace(FLOW, service_s=service_s)
    assert gain(THROUGHPUT.find, device) == pytest.approx(ELAPSED_S / (ELAPSED_S - 6.0))
