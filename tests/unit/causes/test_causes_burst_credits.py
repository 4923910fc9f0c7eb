"""The end of a volume's burst credits: read from a trial's series and placed in its time."""

from dataclasses import replace
from pathlib import Path

import pytest

import analysis_samples as samples
from cause_samples import S, evidence, load_record
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.rules.burst_credits import ENDED
from pgassay.analysis.causes.volume_evidence import BurstEnd, burst_ends
from pgassay.analysis.changes.events import trial_events
from pgassay.analysis.changes.timeline import timeline
from pgassay.analysis.descriptive.credits import credit_sentences
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.charts.timeline_chart import peaks, specification

WARMUP_S = 5
SECONDS = 30
CAPACITY = 40_800
MODEL = {
    "limiters": [
        {
            "name": "operations",
            "unit": "operations",
            "scope": "volume",
            "rate": 120,
            "peak": 3000,
            "capacity": CAPACITY,
        },
        {"name": "throughput", "unit": "bytes", "scope": "volume", "peak": 10**8, "capacity": 0},
    ],
    "stripes": {"count": 1, "width_bytes": 1},
}


def series(ended_s: float, base: float = 120.0, peak: float = 2400.0) -> dict[str, list[float] | list[int]]:
    """A row for each second from the warm-up's beginning; the measured part begins WARMUP_S later, at 0."""
    rates = [peak if second < ended_s else base for second in range(WARMUP_S + SECONDS)]
    left = [CAPACITY - sum(rates[: index + 1]) if rate == peak else 0.0 for index, rate in enumerate(rates)]
    nothing = [0.0] * len(rates)
    return {
        "clock_ns": [(second + 1 - WARMUP_S) * S for second in range(len(rates))],
        "elapsed_s": [1.0] * len(rates),
        "reads": rates,
        "writes": nothing,
        "flushes": nothing,
        "operations": rates,
        "bytes_read": [8192 * rate for rate in rates],
        "bytes_written": nothing,
        "queued_ms": [rate * (0.0 if rate == peak else 200.0) for rate in rates],
        "credits_operations": left,
    }


def trial(folder: Path, ended_s: float | None, **changes: object) -> StoredTrial:
    observations = folder / "observations"
    observations.mkdir(parents=True)
    columns = series(WARMUP_S + SECONDS + 1 if ended_s is None else ended_s)
    (observations / "volume.parquet").write_bytes(to_parquet(columns, sampler="volume", version=1))
    would_last = [{"volume": "gp3,size=40GiB", "per_month": 3.2, "currency": "USD"}]
    facts = {
        "storage": {"kind": "volume", "volume": {"name": "gp2,size=40GiB", "model": MODEL}},
        "volume": {
            "credits_ended_s": ended_s,
            "credits_ended_of": None if ended_s is None else "operations",
            "would_last": [] if ended_s is None else would_last,
        },
    }
    record = load_record(facts=facts | changes, clock_ns=(0, SECONDS * S))
    return StoredTrial(folder=folder, record=record, plans={})


def ends(found: StoredTrial) -> tuple[BurstEnd, ...]:
    return burst_ends(found.folder, found.record, [Span(0, SECONDS * S, False)])


def test_the_end_is_placed_in_the_measured_part(tmp_path: Path) -> None:
    (end,) = ends(trial(tmp_path / "within", 17.0))
    assert (end.volume, end.at_s, end.unit) == ("gp2,size=40GiB", 12.0, "operations")
    assert (end.before, end.after, end.after_s) == (2400.0, 120.0, 18.0)
    # As much as was done in those 18 s takes 0.9 s at the rate before.
    assert end.lost_s == pytest.approx(18 - 0.9)
    # In the warm-up: the rate before is what the volume gives in a burst.
    (early,) = ends(trial(tmp_path / "early", 2.0))
    assert (early.at_s, early.before, early.after_s) == (0.0, 3000.0, SECONDS)
    assert ends(trial(tmp_path / "lasted", None)) == ()
    assert ends(trial(tmp_path / "after", WARMUP_S + SECONDS + 0.5)) == ()


def test_what_the_record_lacks_is_not_guessed(tmp_path: Path) -> None:
    # Without the model nobody knows what these credits are.
    assert ends(trial(tmp_path / "one", 17.0, storage={"kind": "volume"})) == ()
    other = trial(tmp_path / "two", 17.0)
    (other.folder / "observations/volume.parquet").unlink()
    assert ends(other) == ()


def test_the_cause_names_the_second_and_what_would_have_lasted(tmp_path: Path) -> None:
    busy = {"total_s": 20.0 * SECONDS, "elapsed_s": float(SECONDS), "read_s": 18.0 * SECONDS}
    found = ENDED.find(evidence(**busy, burst_ends=ends(trial(tmp_path / "trial", 17.0))))
    assert isinstance(found, Found)
    assert found.figures["credits_ended_at_s"] == 12.0
    assert found.figures["would_have_lasted"] == "gp3,size=40GiB (3.20 USD a month)"
    assert "ended at second 12 of the measured part" in found.remedy and "gp3,size=40GiB" in found.remedy
    early = ENDED.find(evidence(**busy, burst_ends=ends(trial(tmp_path / "early", 2.0))))
    assert isinstance(early, Found) and "had ended before the measured part: " in early.remedy
    # 18 of the 30 s would have been 0.9 s.
    assert found.gain == pytest.approx(30 / (30 - 17.1), rel=1e-6)


@pytest.mark.parametrize("work_s", [0.4, 0.7, 1.5, 3.0])
@pytest.mark.parametrize("beside", [True, False])
def test_where_no_rate_before_was_seen_the_gain_has_the_ends_that_work_beside_reads_leaves_open(
    work_s: float, beside: bool
) -> None:
    """A scan of 210 MB on a P4 whose credits are used up: 25 MB a second, and 170 while they last.

    `beside`: all its work goes on while pages are read ahead, else none.
    """
    slow_s, fast_s = 210 / 25, 210 / 170
    took_s, without_s = (max(work_s, each) if beside else work_s + each for each in (slow_s, fast_s))
    waited_s = took_s - work_s
    end = BurstEnd("P4", 0.0, "bytes", 170e6, 210e6 / took_s, took_s, 25e6, is_known_before=False)
    found = ENDED.find(
        evidence(
            total_s=took_s, elapsed_s=took_s, read_s=waited_s, cpu_s=work_s, burst_ends=(end,),
        )
    )  # fmt: skip
    assert isinstance(found, Found) and found.gain is not None and found.gain_range is not None
    low, high = found.gain_range
    assert low * 0.999 <= took_s / without_s <= high * 1.001
    assert low < found.gain < high < 3 * low
    # Whose rate before was seen has one figure: the same work was done at it.
    known = ENDED.find(
        evidence(
            total_s=took_s,
            elapsed_s=took_s,
            read_s=waited_s,
            burst_ends=(replace(end, is_known_before=True),),
        )
    )
    assert isinstance(known, Found) and known.gain_range is None


def test_who_waits_for_something_else_is_not_limited_by_them(tmp_path: Path) -> None:
    burst = ends(trial(tmp_path / "trial", 17.0))
    total_s = 20.0 * SECONDS
    busy = {"total_s": total_s, "elapsed_s": float(SECONDS)}
    # Full as it was: who waits for a row waits for one who waits for the volume.
    assert burst[0].is_full
    assert isinstance(ENDED.find(evidence(**busy, burst_ends=burst, row_lock_s=0.6 * total_s)), Found)
    # Those who compute, queue for a processor or wait for their client don't wait for it.
    elsewhere = {"cpu_s": 0.3 * total_s, "runnable_s": 0.3 * total_s, "client_s": 0.2 * total_s}
    assert ENDED.find(evidence(**busy, **elsewhere, burst_ends=burst)) is None
    # A volume that gave less than it could was not what all waited for.
    idle = (replace(burst[0], after=60.0),)
    assert ENDED.find(evidence(**busy, burst_ends=idle, row_lock_s=0.6 * total_s)) is None
    # Who commits waits behind the one that flushes.
    waiting = {"lwlocks": {"WALWrite": 12.0 * SECONDS}, "wal_s": 2.0 * SECONDS}
    assert isinstance(ENDED.find(evidence(**busy, burst_ends=idle, **waiting)), Found)
    # Who writes pages out, or adds them to a file, waits for the same volume.
    written = {"data write": {"DataFileWrite": 9.0 * SECONDS}, "extension": {"DataFileExtend": 5.0 * SECONDS}}
    found = ENDED.find(evidence(**busy, burst_ends=idle, writing=written))
    assert isinstance(found, Found) and found.weight_s == pytest.approx(14.0 * SECONDS)


def shown_by_title(found: StoredTrial) -> dict[str, dict[float, float]]:
    """Of each panel the value by where its bin begins."""
    shown = timeline(found)
    assert shown is not None
    return {panel.title: {point.begin_s: point.value for point in panel.points} for panel in shown.panels}


def test_the_timeline_shows_what_was_delivered_and_what_was_left(tmp_path: Path) -> None:
    shown = shown_by_title(trial(tmp_path / "trial", 17.0))
    operations = shown["volume: operations/s as it counts them"]
    assert operations[5.0] == pytest.approx(2400) and operations[20.0] == pytest.approx(120)
    queue = shown["volume: in the queue for its limits, ms a request"]
    assert queue[5.0] == 0 and queue[20.0] == pytest.approx(200)
    left = list(shown["volume: credits left, %"].values())
    assert left == sorted(left, reverse=True)
    assert left[0] < 100 and left[-1] == 0


def test_the_end_is_an_event_of_the_trial(tmp_path: Path) -> None:
    events = trial_events(trial(tmp_path / "trial", 17.0))
    (event,) = [each for each in events if each.kind == "burst credits"]
    assert event.what == "the burst credits of the volume ended"
    assert event.began_s == 12.0 and event.is_moment
    shown = timeline(trial(tmp_path / "drawn", 17.0))
    assert shown is not None
    drawn = specification(shown, "gp2", peaks([shown]), width_px=900, note="")
    assert any(row["lane"] == "credits ended" for row in drawn["datasets"]["lanes"])
    lasted = trial_events(trial(tmp_path / "lasted", None))
    assert not [each for each in lasted if each.kind == "burst credits"]


def experiment_of(*trials: StoredTrial) -> StoredExperiment:
    plan = samples.experiment()
    arm = next(each.id for each in plan.arms if each.role == "control")
    changes = {"arm_id": arm, "status": "ok"}
    of_arm = (replace(each, record=each.record.model_copy(update=changes)) for each in trials)
    return StoredExperiment(trials[0].folder, plan, tuple(of_arm))


def test_credits_that_outlast_a_trial_are_told_with_the_time_that_they_last(tmp_path: Path) -> None:
    full = MODEL["limiters"][0] | {"capacity": 5_400_000, "fill": 5_400_000}

    def sentences(name: str, ended_s: float | None, **limiter: object) -> tuple[str, ...]:
        model = MODEL | {"limiters": [full | limiter]}
        storage = {"kind": "volume", "volume": {"name": "gp2,size=40GiB", "model": model}}
        found = trial(tmp_path / name, ended_s, storage=storage)
        columns = series(WARMUP_S + SECONDS + 1)
        # Of 2,400 a second, 120 come back.
        left = [float(str(limiter.get("fill", 5_400_000))) - 2280 * (row + 1) for row in range(35)]
        columns |= {"credits_operations": left}
        file = found.folder / "observations" / "volume.parquet"
        file.write_bytes(to_parquet(columns, sampler="volume", version=1))
        return credit_sentences(experiment_of(found))

    (line,) = sentences("full", None)
    # 5,400,000 / 2,280 are 2,368 s.
    assert line.startswith("the burst credits of gp2,size=40GiB (operations) fell while ")
    assert "full ones last 39 min 28 s of that" in line
    # Half of them at the beginning: full ones last as long.
    assert "39 min 28 s" in sentences("half", None, fill=2_700_000)[0]
    # What ended is a cause; an allowance that is whole again before it ends never does.
    assert sentences("ended", 17.0) == ()
    assert sentences("allowance", None, reset_period_s=2000) == ()
    assert sentences("none", None, capacity=0) == ()
