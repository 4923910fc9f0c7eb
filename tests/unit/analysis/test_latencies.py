"""Mean and standard deviation of latencies: as if all transactions of all trials were in one list."""

import base64
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from load_records import write_load
from pgassay.analysis.descriptive.latencies import arm_latencies
from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import UsageError
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment
from pgassay.record.observations import histogram, latencies_by_second, moments_us, stddev_ms
from pgassay.report.compare.page import page_of


def with_latencies(stored: StoredExperiment, drawn: list[np.ndarray]) -> StoredExperiment:
    """The trials of the control with these latencies, as the load tells them."""
    control = next(arm for arm in stored.experiment.arms if arm.role == "control")
    waiting = list(drawn)
    trials = []
    for trial in stored.trials:
        load = trial.record.load
        if trial.record.arm_id == control.id and load is not None:
            values = waiting.pop()
            told = {"mean": float(values.mean()), "stddev": float(values.std())}
            load = load.model_copy(update={"transactions": len(values), "latency_ms": told})
            trial = replace(trial, record=trial.record.model_copy(update={"load": load}))
        trials.append(trial)
    assert not waiting
    return replace(stored, trials=tuple(trials))


def test_trials_together_are_as_one_list_of_latencies(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    drawn = [random.lognormal(mean, 0.8, count) for mean, count in ((0.0, 500), (1.5, 2000), (0.3, 40))]
    stored = with_latencies(write_load(tmp_path / "x", strata=[""], blocks=3), drawn)
    everything = np.concatenate(drawn)
    control, _ = arm_latencies(stored)
    assert (control.trials, control.transactions) == (3, len(everything))
    assert control.latency_mean_ms == pytest.approx(everything.mean(), rel=1e-12)
    assert control.latency_stddev_ms == pytest.approx(everything.std(), rel=1e-12)


def test_what_the_load_did_not_tell_is_read_from_its_histogram(tmp_path: Path) -> None:
    control, worker = arm_latencies(write_load(tmp_path / "x", strata=[""], blocks=2))
    # 10, 20, … 10,000 µs: the standard deviation of so many steps.
    assert control.latency_mean_ms == pytest.approx(5.005, rel=1e-3)
    assert control.latency_stddev_ms == pytest.approx(10 * np.arange(1, 1001).std() / 1000, rel=1e-3)
    assert worker.latency_stddev_ms == pytest.approx(control.latency_stddev_ms / 2, rel=1e-2)


@pytest.mark.parametrize("values", [[], [0], [7, 7], [1, 2000, 10_000_000, 3_599_999_999]])
def test_moments_of_a_histogram_are_the_library_s_to_the_last_digit(values: list[int]) -> None:
    random = np.random.default_rng(7)
    drawn = random.lognormal(6, 2, 3000).astype(int).tolist() if len(values) > 2 else []
    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in [*values, *drawn]:
        histogram.record_value(value)
    expected = histogram.get_mean_value(), histogram.get_stddev()
    assert moments_us(histogram) == expected
    stored = base64.b64decode(histogram.encode())
    assert stddev_ms(stored) == expected[1] / 1000


def histogram_bytes() -> bytes:
    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in (1, 5, 2000, 2000, 90_000):
        histogram.record_value(value)
    return base64.b64decode(histogram.encode())


HISTOGRAM = histogram_bytes()
COUNTS = bytes(zlib.decompress(HISTOGRAM[8:]))


def packed(counts: bytes) -> bytes:
    compressed = zlib.compress(counts)
    return HISTOGRAM[:4] + len(compressed).to_bytes(4, "big") + compressed


def with_bytes(is_inside: bool, place: int, value: bytes, end: int) -> bytes:
    """A damaged file, or one whose content was damaged before it was compressed."""
    whole = COUNTS if is_inside else HISTOGRAM
    at = place % len(whole)
    changed = (whole[:at] + value + whole[at + len(value) :])[:end]
    return packed(changed) if is_inside else changed


DAMAGED = st.builds(
    with_bytes, st.booleans(), st.integers(0, 100), st.binary(max_size=4), st.integers(0, 100)
)


@settings(max_examples=40)
@given(DAMAGED, st.sampled_from(["0", "7.4", "inf", "nan", "-1", "x"]))
def test_a_damaged_histogram_is_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, start: str
) -> None:
    trial = tmp_path_factory.getbasetemp()
    (trial / layout.HISTOGRAM_FILE).write_bytes(content)
    line = f"Tag=second,{start},1.0,0.5,{base64.b64encode(content).decode()}\n"
    (trial / layout.HISTOGRAM_LOG_FILE).write_text(line, encoding="utf-8")
    for read in (histogram, latencies_by_second):
        try:
            read(trial)
        except UsageError as error:
            assert "is damaged (" in str(error) and "restore it from a copy" in str(error)


def test_every_output_has_it_beside_the_mean(tmp_path: Path) -> None:
    stored = write_load(tmp_path / "x", strata=[""], blocks=2)
    result = analyse(stored)
    assert [each.arm for each in result.latencies] == ["io_method=sync", "io_method=worker"]
    texts = (
        page_of(result, stored).terminal(width=100),
        page_of(result, stored).markdown(),
        page_of(result, stored).html(),
    )
    for shown in texts:
        assert "standard deviation" in shown
        assert "2.89 ms" in shown


def _spread(stored: StoredExperiment, times: float, seed: int = 3) -> StoredExperiment:
    """The arm's latencies spread `times` as much as the control's and the twin's."""
    random = np.random.default_rng(seed)
    arms = {arm.id for arm in stored.experiment.arms if arm.role == "arm"}
    trials = []
    for trial in stored.trials:
        load = trial.record.load
        assert load is not None
        spread_ms = float(np.exp(0.05 * random.standard_normal()))
        spread_ms *= times if trial.record.arm_id in arms else 1.0
        load = load.model_copy(update={"latency_ms": {"mean": 2.0, "stddev": spread_ms}})
        trials.append(replace(trial, record=trial.record.model_copy(update={"load": load})))
    return replace(stored, trials=tuple(trials))


def test_the_spread_of_latencies_is_compared_with_an_interval(tmp_path: Path) -> None:
    stored = _spread(write_load(tmp_path / "x", strata=[""], blocks=12), 1.5)
    control, worker = arm_latencies(stored)
    assert control.latency_stddev_ratio is None and "latency_stddev_ratio" not in control.model_dump()
    assert worker.latency_stddev_ratio == pytest.approx(1.5, rel=0.05)
    assert worker.latency_stddev_interval is not None
    low, high = worker.latency_stddev_interval
    assert 1.3 < low < 1.5 < high < 1.7
    page = page_of(analyse(stored), stored).markdown()
    assert "of the control's" in page and f"{worker.latency_stddev_ratio:.3f}× (" in page
    first = tuple(trial for trial in stored.trials if trial.record.block < 4)
    _, few = arm_latencies(replace(stored, trials=first))
    assert few.latency_stddev_interval is None


def test_equal_spreads_are_seldom_excluded_from_their_interval(tmp_path: Path) -> None:
    wrong, written = 0, write_load(tmp_path / "x", strata=[""], blocks=9)
    for seed in range(40):
        interval = arm_latencies(_spread(written, 1.0, seed))[1].latency_stddev_interval
        wrong += interval is not None and not interval[0] <= 1 <= interval[1]
    assert wrong <= 6  # of 40 at 5 %: more are as improbable as 2 %
