"""Volumes for captured traffic: times between two recordings by latency, and as limits let through."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.errors import UsageError
from pgassay.model.volumes.offer import Limiter, VolumeModel
from pgassay.native.simulate import RecordedFacts, Simulated
from pgassay.sizing.candidates import candidate
from pgassay.sizing.captured_traffic import CapturedTraffic
from pgassay.sizing.recordings import MeasuredRecording
from pgassay.sizing.server_volumes import Attached
from volume_traces import constant

STATEMENTS = 1000
FACTS = cast(
    "RecordedFacts", {"reads": 600, "writes": 400, "log_writes": 300, "flushes": 0, "bytes": 8_192_000}
)
ANSWER = cast("Simulated", {"operations": 1000, "bytes": 8_192_000})


def recording(latency_ms: float, elapsed_s: float, **changes: Any) -> MeasuredRecording:
    made = MeasuredRecording(
        trial=0,
        attempt=1,
        storage=f"latency={latency_ms}ms",
        model=constant(latency_ms).model_dump(mode="json"),
        elapsed_s=elapsed_s,
        units=STATEMENTS,
        parts=((0, 1),),
        processors=2.0,
        trace=Path("trace"),
    )
    return replace(made, **changes)


FAST, SLOW = recording(0, 1.0), recording(1, 3.0)


def line(*recordings: MeasuredRecording) -> CapturedTraffic:
    return CapturedTraffic([(each, FACTS) for each in recordings])


def limited(latency_ms: float, **changes: Any) -> Attached:
    """A volume with a limit of operations; what is not named of it is 1000 a second without credits."""
    limiter = Limiter(
        name="operations",
        scope="volume",
        unit="operations",
        rate=1000,
        peak=1000,
        capacity=0,
        fill=0,
        quantum_bytes=1,
        merging=False,
        reset_period_s=None,
    )
    model = constant(latency_ms).model_copy(update={"limiters": (limiter.model_copy(update=changes),)})
    return Attached(model)


@pytest.mark.parametrize(("latency_ms", "seconds"), [(0, 1.0), (0.5, 2.0), (1, 3.0), (3, 7.0)])
def test_without_limits_times_lie_on_the_line_through_the_recordings(
    latency_ms: float, seconds: float
) -> None:
    found = line(SLOW, FAST).time(Attached(constant(latency_ms)), ANSWER)
    assert found.seconds_per_unit * STATEMENTS == pytest.approx(seconds)
    assert (found.credits_ended_s, found.credits_last_s) == (None, None)


def test_no_volume_is_faster_than_its_limits_let_it_be() -> None:
    assert line(FAST, SLOW).time(limited(0, rate=100, peak=100), ANSWER).seconds_per_unit == pytest.approx(
        0.01
    )
    assert line(FAST, SLOW).time(limited(0.5), ANSWER).seconds_per_unit == pytest.approx(0.002)


def test_credits_let_through_more_for_as_long_as_they_last() -> None:
    burst = {"rate": 100, "peak": 1000, "capacity": 10_000}
    lasting = line(FAST, SLOW).time(limited(0, **burst, fill=10_000), ANSWER)
    assert lasting.seconds_per_unit == pytest.approx(0.001) and lasting.credits_ended_s is None
    # 1000 a second are asked for, and 100 flow in.
    assert lasting.credits_last_s == pytest.approx(10_000 / 900)
    ended = line(FAST, SLOW).time(limited(0, **burst, fill=90), ANSWER)
    assert ended.credits_ended_s == pytest.approx(0.1)
    assert ended.seconds_per_unit == pytest.approx(910 / 100 / STATEMENTS)


def test_recordings_that_tell_nothing_of_latency_are_refused() -> None:
    model = limited(1).data.model_dump(mode="json")
    for pair in ((FAST,), (FAST, recording(0, 3.0)), (FAST, replace(SLOW, model=model))):
        with pytest.raises(UsageError, match="two recordings without limits"):
            line(*pair)
    with pytest.raises(UsageError, match="leave --wal out"):
        line(FAST, replace(SLOW, wal_model=SLOW.model))


def test_what_a_line_knows_nothing_of_is_refused() -> None:
    known = load_catalogue([])
    restored = candidate("gp3,size=100GiB,first_touch=5ms", known).attached
    with pytest.raises(UsageError, match="leave first_touch out"):
        line(FAST, SLOW).time(restored, ANSWER)
    apart = Attached(constant(1), VolumeModel.model_validate(constant(1)))
    with pytest.raises(UsageError, match="leave --wal out"):
        line(FAST, SLOW).time(apart, ANSWER)
