"""What a probe says of simulated machines whose truth is known."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

import probe_samples as samples
from pgassay.analysis.statistics.rank_test import probability_of_fall
from pgassay.model.probe import (
    CellRun,
    CellSpec,
    ExecutorCost,
    ProbeResult,
    Window,
)
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.probe.analysis.diff import compare_probes
from pgassay.probe.analysis.estimates import estimate, rate_of
from pgassay.probe.analysis.probe_plan import work_cell
from pgassay.probe.analysis.rate_stability import find_fall
from pgassay.probe.analysis.recommend import shell_lines
from pgassay.report.probe import probe_page


@pytest.fixture(scope="module")
def fast() -> ProbeResult:
    """A device much faster than one core."""
    return analyse_probe(samples.record(samples.Machine(device_mb_s=8000.0, latency_s=4e-6, cores=8)))


@pytest.fixture(scope="module")
def slow() -> ProbeResult:
    """A device that any method can keep busy, given enough read-ahead."""
    machine = samples.Machine(device_mb_s=150.0, latency_s=500e-6)
    return analyse_probe(samples.record(machine))


def spec(**changes: object) -> CellSpec:
    return CellSpec.model_validate({"engine": "worker", "cache": "cold", "pattern": "sequential"} | changes)


def test_the_ceilings_are_the_devices(slow: ProbeResult) -> None:
    assert slow.ceilings.sequential_read_mb_s == pytest.approx(150, rel=0.05)
    alone = 1 / (500e-6 + 8192 / 150e6)
    assert slow.ceilings.random_read_iops["1"] == pytest.approx(alone, rel=0.05)
    # 64 at once at most, and never more than the bandwidth.
    assert slow.ceilings.random_read_iops["128"] == pytest.approx(150e6 / 8192, rel=0.05)
    assert slow.ceilings.latency_us_depth_1["p50"] == pytest.approx(1e6 * (500e-6 + 8192 / 150e6), rel=0.1)
    assert slow.ceilings.fdatasync_per_s == pytest.approx(1000, rel=0.05)
    assert slow.warnings == ()


def test_a_fast_device_is_best_read_by_workers(fast: ProbeResult) -> None:
    chosen = fast.recommend["io_method"]
    assert chosen.value == "worker"
    regrets = {each.value: each.regret for each in chosen.alternatives}
    assert regrets["worker"] == 0
    assert regrets["sync"] > 0.1
    assert any("One core is saturated by sync" in line and "worker" in line for line in fast.sentences)
    assert any("more than one scan can process with any method" in line for line in fast.sentences)


def test_predictions_are_near_the_truth_and_rank_the_methods() -> None:
    machine = samples.Machine(device_mb_s=8000.0, latency_s=4e-6, cores=8)
    have = samples.facilities(cores=8)
    result = analyse_probe(samples.record(machine, have))
    for work in ("cold-scan", "cached-scan"):
        for each in result.predictions:
            if each.work != work or each.connections != 1:
                continue
            truth_s = (1 << 30) / (machine.rate_mb_s(work_cell(work, each.method, 1, have)) * 1e6)
            assert each.interval[0] < truth_s < each.interval[1]
            assert each.time_s == pytest.approx(truth_s, rel=0.05)
    times = {
        each.method: each.time_s
        for each in result.predictions
        if each.work == "cold-scan" and each.connections == 1
    }
    assert times["worker"] < times["io_uring"] < times["sync"]


def test_index_lookups_take_the_same_time_by_every_method(slow: ProbeResult) -> None:
    for connections in (1, 10, 50):
        made = [
            each
            for each in slow.predictions
            if each.work == "index-lookups" and each.connections == connections
        ]
        assert {each.method for each in made} == {"worker", "io_uring", "sync"}
        assert len({each.time_s for each in made}) == 1
    assert any("Index lookups take the same time" in line for line in slow.sentences)


def test_the_intervals_of_predictions_grow_with_the_executors() -> None:

    def machine() -> samples.Machine:
        return samples.Machine(device_mb_s=8000.0, cores=8)

    sure = ExecutorCost(ns_per_page=2000, interval=(2000, 2000), source="PostgreSQL 18")
    vague = ExecutorCost(ns_per_page=2000, interval=(500, 8000), source="assumed")
    narrow, wide = (
        analyse_probe(samples.record(machine(), executor=cost)).predictions for cost in (sure, vague)
    )
    for known, assumed in zip(narrow, wide, strict=True):
        assert assumed.interval[0] <= known.interval[0] * 1.001
        assert assumed.interval[1] >= known.interval[1] * 0.999
    cached = next(each for each in wide if each.work == "cached-scan" and each.method == "sync")
    # Three parts of four of the page's time are the executor's, when it takes 8 µs.
    assert cached.interval[1] > 2 * cached.time_s
    result = analyse_probe(samples.record(machine(), executor=vague))
    assert any("assumed and not measured" in line for line in result.sentences)


def test_what_the_noise_hides_is_not_claimed() -> None:
    machine = samples.Machine(device_mb_s=8000.0, latency_s=4e-6, cores=8, noise=0.6)
    result = analyse_probe(samples.record(machine, runs=2))
    assert "can't be distinguished" in result.sentences[0] and "io_method = worker" in result.sentences[0]
    assert not any("loses" in line and "100 %" in line for line in result.sentences)
    assert {name for name, each in result.recommend.items() if each.value != each.default} <= {
        "io_combine_limit"
    }


def test_workers_are_recommended_to_the_knee() -> None:
    # One worker takes in 4.5 GB/s, the consumer 3.7: more than one is of no use to one scan.
    plenty = samples.Machine(device_mb_s=8000.0, latency_s=2e-6, cores=4)
    result = analyse_probe(samples.record(plenty))
    assert result.recommend["io_min_workers"].knee == "1"
    assert result.recommend["io_workers"].value == "3"  # the default, as good
    assert (result.recommend["io_min_workers"].value, result.recommend["io_max_workers"].value) == ("2", "8")
    # Each worker holds one request: a slow answer needs more of them than the default 3.
    far = samples.Machine(device_mb_s=8000.0, latency_s=400e-6, cores=4)
    far_result = analyse_probe(samples.record(far))
    chosen = far_result.recommend["io_workers"]
    assert int(chosen.value) > 3
    assert int(far_result.recommend["io_min_workers"].value) > 3
    assert chosen.knee == chosen.value
    assert {each.value: each.regret for each in chosen.alternatives}["3"] > 0.1


def test_more_handles_are_recommended_with_the_concurrency_that_needs_them() -> None:
    """A device that takes 256 at a time and answers late: io_max_concurrency's default of 64 is too few."""
    deep = samples.Machine(device_mb_s=6000.0, latency_s=4e-3, parallel=512, cores=8)
    have = samples.facilities(engines=("null", "sync", "io_uring"), cores=8)
    made = analyse_probe(samples.record(deep, have)).recommend
    wanted = made["effective_io_concurrency"]
    assert int(wanted.value) > 64
    assert f"io_max_concurrency must be raised to {wanted.value}" in wanted.reason
    assert made["io_max_concurrency"].value == wanted.value
    assert made["io_max_concurrency"].default == "64"
    lines = shell_lines(made, 18, None)
    assert any(line.startswith(f"io_max_concurrency = {wanted.value}") for line in lines)
    shallow = analyse_probe(samples.record(samples.Machine(device_mb_s=150.0, latency_s=500e-6))).recommend
    assert shallow["io_max_concurrency"].value == "64"
    assert "needs no more" in shallow["io_max_concurrency"].reason
    assert "puts no more reads in flight" in shallow["effective_io_concurrency"].reason


def test_the_pool_of_19_is_recommended_by_its_limits() -> None:
    far = samples.Machine(device_mb_s=8000.0, latency_s=400e-6, cores=8)
    have = samples.facilities(cores=8, major=19)
    result = analyse_probe(samples.record(far, have, major=19))
    assert result.major == 19 and "io_workers" not in result.recommend
    assert int(result.recommend["io_max_workers"].value) > 8
    assert result.recommend["io_min_workers"].value == "2"
    assert any(line.startswith("io_max_workers = ") for line in probe_page.settings_lines(result))


def test_parallel_scans_are_part_of_the_prediction(fast: ProbeResult, slow: ProbeResult) -> None:
    """Three processes: sync is as good as any once the device is the limit."""
    for result, words in ((fast, "sync reads at "), (slow, "sync and ")):
        found = [line for line in result.sentences if line.startswith("A parallel scan, with PostgreSQL's")]
        assert len(found) == 1 and words in found[0], result.sentences
    times = {
        each.method: each.time_s
        for each in fast.predictions
        if each.work == "parallel-cached-scan" and each.connections == 1
    }
    alone = {
        each.method: each.time_s
        for each in fast.predictions
        if each.work == "cached-scan" and each.connections == 1
    }
    assert times["sync"] == pytest.approx(alone["sync"] / 3, rel=0.05)
    buffered = [each for each in slow.predictions if each.work == "buffered-scan"]
    assert {each.method for each in buffered} == {"worker", "io_uring", "sync"}
    cold = next(each for each in slow.predictions if each.work == "cold-scan" and each.method == "sync")
    assert all(each.time_s < cold.time_s for each in buffered)


def test_what_the_pins_of_a_small_server_cost_is_told() -> None:
    machine = samples.Machine(device_mb_s=4000.0, latency_s=2e-3, parallel=256, cores=8)
    told = [line for line in analyse_probe(samples.record(machine)).sentences if "may pin" in line]
    # 17 reads of 128 kB for each of 174 processes.
    assert len(told) == 1 and "369 MB of shared_buffers at 100 connections" in told[0]
    assert "With 128 MB" in told[0] and "by io_uring" in told[0]
    assert not [
        line for line in analyse_probe(samples.record(samples.Machine())).sentences if "may pin" in line
    ]


def test_read_ahead_and_depth_are_recommended_where_they_matter(slow: ProbeResult) -> None:
    machine = samples.Machine(device_mb_s=500.0, latency_s=2e-3, parallel=256)
    have = samples.facilities(engines=("null", "sync"))
    result = analyse_probe(samples.record(machine, have))
    assert "io_method" not in result.recommend
    assert int(result.recommend["read_ahead_kb"].value) > 128
    assert int(result.recommend["effective_io_concurrency"].value) > 16
    assert "posix" not in result.recommend["effective_io_concurrency"].reason
    assert slow.recommend["io_combine_limit"].value == "128kB"


def test_what_was_not_measured_is_left_out() -> None:
    have = samples.facilities(
        engines=("sync", "worker"), direct=False, can_write=False, can_set_read_ahead=False
    )
    result = analyse_probe(
        samples.record(samples.Machine(), have, missing={"io_uring": "io_uring is left out."})
    )
    assert result.ceilings.fdatasync_per_s is None
    assert "read_ahead_kb" not in result.recommend
    assert {each.value for each in result.recommend["io_method"].alternatives} == {"worker", "sync"}
    assert {each.method for each in result.predictions} == {"worker", "sync"}
    empty = analyse_probe(samples.record(samples.Machine(), cells=()))
    assert empty.predictions == () and empty.recommend == {}
    assert empty.ceilings.sequential_read_mb_s is None


@pytest.mark.parametrize("method", ["worker", "io_uring", "sync"])
def test_a_parallel_scan_without_the_scan_of_one_process_is_no_fault(method: str) -> None:
    whole = samples.record(samples.Machine())
    alone = work_cell("cold-scan", method, 1, samples.facilities())
    left = tuple(cell for cell in whole.cells if cell.spec != alone)
    assert len(left) == len(whole.cells) - 1
    result = analyse_probe(whole.model_copy(update={"cells": left}))
    told = [line for line in result.sentences if line.startswith("A parallel scan")]
    assert not any(f"by {method}" in line for line in told)


@pytest.mark.parametrize("kind", ["latency", "bandwidth", "overlay"])
def test_memory_in_the_devices_place_is_called_so(kind: str) -> None:
    machine = samples.Machine(latency_s=4e-6 if kind == "latency" else 60e-6)
    changes: dict[str, object] = {}
    if kind == "bandwidth":
        machine.device_mb_s = 9000.0
    if kind == "overlay":
        changes["device"] = {"name": None, "read_ahead_kb": None, "file_system": "overlay"}
    warnings = analyse_probe(samples.record(machine, **changes)).warnings
    words = {"latency": "faster than any flash", "bandwidth": "of what a core reads from memory"}
    assert any(words.get(kind, "lies on an overlay") in line for line in warnings)


def test_cores_that_others_use_are_told() -> None:
    told = analyse_probe(samples.record(samples.Machine(crowded=0.5))).warnings
    assert any("Other processes kept the cores busy" in line for line in told)
    assert analyse_probe(samples.record(samples.Machine(crowded=0.05))).warnings == ()


def test_burst_credits_are_told_with_their_time() -> None:
    machine = samples.Machine(falls_after_s=40.0)
    result = analyse_probe(samples.record(machine, runs=4))
    told = [line for line in result.warnings if line.startswith("NOT STEADY")]
    assert len(told) == 1
    assert "fell to 4" in told[0] or "fell to 3" in told[0]
    steady = analyse_probe(samples.record(samples.Machine(noise=0.1), runs=4))
    assert not [line for line in steady.warnings if "NOT STEADY" in line]


def test_a_fall_is_found_at_its_time_and_a_dip_is_none() -> None:
    draw = random.Random(3)

    def series(level: list[float]) -> list[tuple[float, float]]:
        return [(float(place), value * math.exp(draw.gauss(0, 0.05))) for place, value in enumerate(level)]

    fall = find_fall(series([100.0] * 15 + [50.0] * 15))
    assert fall is not None
    assert fall.at_s == 15
    assert fall.fraction == pytest.approx(0.5, rel=0.1)
    assert find_fall(series([100.0] * 12 + [50.0] * 6 + [100.0] * 12)) is None
    assert find_fall(series([50.0] * 15 + [100.0] * 15)) is None
    assert find_fall(series([100.0] * 5)) is None
    false = sum(find_fall(series([100.0] * 20)) is not None for _ in range(500))
    assert false <= 2


@pytest.mark.parametrize("sizes", [(4, 4), (5, 15), (10, 10), (20, 30), (40, 60)])
def test_the_rank_test_is_scipys(sizes: tuple[int, int]) -> None:
    draw = random.Random(sum(sizes))
    for shift in (0.0, 0.5, 2.0):
        before = [draw.gauss(shift, 1) for _ in range(sizes[0])]
        after = [draw.gauss(0, 1) for _ in range(sizes[1])]
        method = "exact" if sizes[0] * sizes[1] <= 900 else "asymptotic"
        expected = mannwhitneyu(before, after, alternative="greater", method=method).pvalue
        assert probability_of_fall(before, after) == pytest.approx(expected, rel=1e-6)
    assert probability_of_fall([1.0] * 5, [1.0] * 5) > 0.3


def test_the_interval_of_a_cell_covers_its_rate() -> None:
    """95 % of the intervals hold the truth, for one, two and five runs."""
    draw = random.Random(5)
    specs = [spec(depth=depth) for depth in range(1, 41)]
    for runs in (1, 2, 5):
        held = total = 0
        for _ in range(20):
            machine = samples.Machine(noise=0.05, draw=random.Random(draw.random()))
            for cell, made in estimate(samples.measure(machine, specs, runs)).items():
                low, high = made.interval
                held += low <= machine.rate_mb_s(cell) <= high
                total += 1
        assert 0.92 <= held / total <= 1.0


def test_a_cell_is_judged_by_its_stride_and_not_by_its_start() -> None:
    def run(rates: list[float], length_s: float) -> CellRun:
        windows = tuple(
            Window(start_s=place * length_s, mb_s=rate, operations=1, length_s=length_s)
            for place, rate in enumerate(rates)
        )
        whole = sum(rates) / len(rates)
        elapsed = length_s * len(rates)
        return CellRun(
            started_s=0, elapsed_s=elapsed, bytes=1, operations=1, mb_s=whole, iops=1, windows=windows
        )

    # 15 ms each: the first three begin within the first 50 ms, and 0.2 of 0.25 s are whole periods.
    assert rate_of(spec(), run([100.0] * 4 + [1000.0] * 16, 0.015)) == pytest.approx(1000)
    # 2.05 s, judged by the last 2.0 of it.
    assert rate_of(spec(), run([100.0] + [1000.0] * 40, 0.05)) == pytest.approx(1000)
    # Of a short run a quarter at most is left out, of a very short one nothing.
    assert rate_of(spec(), run([100.0] * 5 + [1000.0] * 15, 0.005)) == pytest.approx(1000)
    assert rate_of(spec(), run([100.0, 500.0, 900.0], 0.1)) == pytest.approx(500)


@given(
    phase=st.floats(0, 0.1), elapsed_s=st.sampled_from([0.26, 0.3, 0.33, 1.0]), burst_s=st.floats(0.02, 0.1)
)
def test_a_limiter_that_counts_in_tenths_of_a_second_is_seen_at_its_rate(
    phase: float, elapsed_s: float, burst_s: float
) -> None:
    """40 MB at the start of every tenth of a second, wherever a run begins in it."""
    length_s = elapsed_s / 20

    def read_mb(until_s: float) -> float:
        whole, rest = divmod(until_s + phase, 0.1)
        return 40 * (whole + min(1.0, rest / burst_s))

    windows = tuple(
        Window(
            start_s=place * length_s,
            mb_s=(read_mb((place + 1) * length_s) - read_mb(place * length_s)) / length_s,
            operations=1,
            length_s=length_s,
        )
        for place in range(20)
    )
    made = CellRun(started_s=0, elapsed_s=elapsed_s, bytes=1, operations=1, mb_s=999, iops=1, windows=windows)
    # A window that the cut divides is taken for even: at most all of it is wrong, of two periods or more.
    judged_s = 0.2 if elapsed_s < 0.5 else 0.9
    assert rate_of(spec(), made) == pytest.approx(400, abs=40 * length_s / burst_s / judged_s + 1e-6)


def test_the_new_disk_is_compared_with_the_old_one() -> None:
    old = analyse_probe(samples.record(samples.Machine(device_mb_s=300.0)))
    new = analyse_probe(samples.record(samples.Machine(device_mb_s=600.0, latency_s=90e-6)))
    made = {each.name: each for each in compare_probes(new, old, "old.json").ratios}
    assert made["sequential read"].ratio == pytest.approx(2, rel=0.1)
    assert made["sequential read"].verdict == "better"
    assert made["latency at depth 1, p50"].ratio < 1
    back = {each.name: each for each in compare_probes(old, new, "new.json").ratios}
    assert back["sequential read"].verdict == "worse"
    same = compare_probes(old, old, "old.json")
    assert not [each for each in same.ratios if each.verdict in ("better", "worse")]
