"""What a probe measures next, and when it has measured enough: of simulated machines whose truth is known."""

import random

import pytest

import probe_samples as samples
from pgassay.model.probe import (
    METHODS,
    Alternative,
    Ceilings,
    CellRun,
    CellSpec,
    MeasuredCell,
    Recommendation,
)
from pgassay.probe.analysis.cell_figures import cell_results
from pgassay.probe.analysis.cell_order import Course
from pgassay.probe.analysis.estimates import Estimate, estimate
from pgassay.probe.analysis.probe_plan import (
    SCAN_WORKS,
    Decision,
    decisions,
    further_cells,
    pinned_cell,
    tiers,
    work_cell,
    worker_counts,
)
from pgassay.probe.analysis.probe_sentences import _depth, _first
from pgassay.probe.analysis.recommend import _growing_workers, _knee_words, leader, shell_lines
from pgassay.probe.analysis.regret import judge, next_round, weights


def spec(**changes: object) -> CellSpec:
    return CellSpec.model_validate({"engine": "worker", "cache": "cold", "pattern": "sequential"} | changes)


def two_values(rates: dict[str, float], default: str) -> tuple[Decision, dict]:
    cells = {value: spec(workers=int(value)) for value in rates}
    machine = samples.Machine(noise=0.005)
    measured = []
    for value, cell in cells.items():
        machine.rate_mb_s = lambda _spec, _at=0.0, rate=rates[value]: rate  # type: ignore[method-assign]
        measured += samples.measure(machine, [cell], 6)
    return Decision("io_workers", default, {value: (cell,) for value, cell in cells.items()}), estimate(
        measured
    )


def test_a_default_is_left_only_for_more_than_two_percent() -> None:
    decision, estimates = two_values({"1": 100.0, "3": 200.0, "4": 201.0}, default="3")
    judged = judge(decision, estimates)
    assert judged is not None and judged.choice == "3" and judged.knee == "3"
    assert judged.regret_of["1"] == pytest.approx(1.0, abs=0.1)
    decision, estimates = two_values({"1": 100.0, "3": 150.0, "8": 200.0, "16": 201.0}, default="3")
    judged = judge(decision, estimates)
    assert judged is not None and judged.choice == "8"


def test_time_goes_where_the_answer_is_open() -> None:
    decision, estimates = two_values({"1": 100.0, "3": 200.0, "4": 202.0}, default="3")
    cells = [specs[0] for specs in decision.candidates.values()]
    weighed = weights(cells, [decision], estimates)
    assert weighed[cells[0]] < 0.5 * weighed[cells[1]]
    fresh = spec(workers=9)
    weighed = weights([*cells, fresh], [decision], estimates)
    assert next_round(weighed, 1, random.Random(1)) == [fresh]
    assert set(next_round(weighed, 3, random.Random(1))) == {fresh, cells[1], cells[2]}


def test_curves_are_begun_for_one_method_and_kept_while_another_is_no_better() -> None:
    # All methods take the same time from this device: their order changes with the noise of every round.
    for seed in range(5):
        draw = random.Random(seed)
        machine = samples.Machine(device_mb_s=150.0, noise=0.15, latency_s=1e-6, draw=draw)
        have = samples.facilities(cores=machine.cores)
        course = Course(have, random.Random(seed))
        runs: dict[CellSpec, list[CellRun]] = {}
        for _ in range(30):
            made = [MeasuredCell(spec=spec, runs=tuple(each)) for spec, each in runs.items()]
            for cell in course.next_cells(made, ()):
                runs.setdefault(cell, []).append(machine.run(cell, 0.0))
        works = [cell for cell in runs if cell.request_bytes == 128 << 10 and cell.consumers == 1]
        rivals = [
            cell for cell in works if cell.engine in METHODS and cell.depth == 16 and cell.execute_ns_per_page
        ]
        assert min(len(runs[cell]) for cell in rivals if cell.pattern == "gaps") >= 2
        curves = {
            cell.engine for cell in runs if cell.pattern == "sequential" and cell.request_bytes == 16 << 10
        }
        assert len(curves) == 1


def test_a_cell_that_can_no_longer_be_run_keeps_nothing_up() -> None:
    machine = samples.Machine(noise=0.15)
    have = samples.facilities(cores=machine.cores)
    course = Course(have, random.Random(1))
    made = samples.measure(machine, [spec for tier in tiers(have, None) for spec in tier], 1)
    again = course.next_cells(made, ())
    assert again and {cell.spec for cell in made} >= set(again)
    assert not set(course.next_cells(made, again)) & set(again)


def test_a_leader_is_left_for_a_certain_gain_only() -> None:
    have = samples.facilities()
    specs = [work_cell(work, method, 1, have) for work in SCAN_WORKS for method in METHODS]
    level = {"worker": 0.0, "io_uring": 0.05, "sync": 0.1}
    certain, hidden = (
        {cell: Estimate(level[cell.engine], error, 8.0) for cell in specs} for error in (0.005, 0.1)
    )
    for method in METHODS:
        assert leader(have, certain, method) == "sync"
        assert leader(have, hidden, method) == method


def test_what_is_likely_only_says_so() -> None:
    decision, _ = two_values({"1": 100.0, "3": 150.0, "8": 200.0}, default="3")
    machine = samples.Machine(noise=0.0)
    measured = []
    for value, rate in {"1": 100.0, "3": 180.0, "8": 200.0}.items():
        machine.rate_mb_s = lambda _spec, _at=0.0, rate=rate: rate  # type: ignore[method-assign]
        measured += samples.measure(machine, [decision.candidates[value][0]], 2)
    judged = judge(decision, estimate(measured))
    assert judged is not None and judged.choice == "8"
    assert judged.probability is not None and 0.8 <= judged.probability < 0.975
    made = Recommendation(
        value="8", default="3", reason="", knee="8", alternatives=judged.alternatives, probability=0.9
    )
    assert shell_lines({"io_combine_limit": made.model_copy(update={"value": "8kB"})}, 18, None) == [
        "io_combine_limit = 8kB  # likely, not certain"
    ]
    sure = made.model_copy(update={"value": "8kB", "probability": 0.99})
    assert shell_lines({"io_combine_limit": sure}, 18, None) == ["io_combine_limit = 8kB"]


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"1": 100.0, "3": 200.0, "8": 200.0}, "the best is within 2 % from 3 on"),
        (
            {"1": 100.0, "3": 200.0, "8": 100.0},
            "the first within 2 % of the best is 3, larger values cost up",
        ),
    ],
)
def test_what_is_slower_beyond_the_knee_is_told(rates: dict[str, float], said: str) -> None:
    judged = judge(*two_values(rates, default="3"))
    assert judged is not None and judged.knee == "3"
    assert said in _knee_words(judged, "a scan")


def test_no_more_workers_are_recommended_at_the_start_than_at_most() -> None:
    judged = judge(*two_values({"1": 200.0, "2": 150.0, "8": 100.0}, default="8"))
    assert judged is not None and judged.choice == "1"
    made = _growing_workers(judged, None, "worker")
    assert (made["io_min_workers"].value, made["io_max_workers"].value) == ("1", "1")
    method = Recommendation(value="worker", default="worker", reason="", knee=None, alternatives=())
    lines = shell_lines({"io_method": method, **made}, 19, None)
    assert [line.partition("  #")[0] for line in lines] == ["io_min_workers = 1", "io_max_workers = 1"]
    assert "no more than io_max_workers" in made["io_min_workers"].reason


@pytest.mark.parametrize(
    ("at_32", "at_128", "said"),
    [
        (78_300.0, 86_000.0, "at most 86,000 with 128 in flight, 91 % of that with 32."),
        (86_000.0, 84_000.0, "at most 86,000 with 32 in flight."),
    ],
)
def test_the_most_random_reads_are_told_with_their_own_depth(at_32: float, at_128: float, said: str) -> None:
    reads = {"1": 1000.0, "8": 8000.0, "32": at_32, "128": at_128}
    made = Ceilings(
        sequential_read_mb_s=None, random_read_iops=reads, latency_us_depth_1={}, fdatasync_per_s=None
    )
    assert _depth(made) == [f"Random reads of 8 kB: 1,000 a second one at a time, {said}"]


def test_the_methods_differ_by_what_the_one_that_is_kept_costs_too() -> None:
    regrets = {"worker": (0.1, (-0.05, 0.25)), "io_uring": (0.0, (0.0, 0.0)), "sync": (0.03, (0.01, 0.05))}
    alternatives = tuple(
        Alternative(value=value, regret=regret, interval=interval)
        for value, (regret, interval) in regrets.items()
    )
    kept = Recommendation(
        value="worker", default="worker", reason="why", knee=None, alternatives=alternatives
    )
    assert _first({"io_method": kept}) == ["Recommended: io_method = worker; why."]


def test_a_cell_has_figures_where_most_of_its_runs_read_nothing_in_time() -> None:
    runs = tuple(
        CellRun(started_s=at, elapsed_s=0.1, bytes=0, operations=0, mb_s=mb_s, iops=10 * mb_s)
        for at, mb_s in enumerate((0.0, 0.0, 5.0))
    )
    cells = (MeasuredCell(spec=spec(), runs=runs),)
    (figures,) = cell_results(cells, estimate(cells))
    assert (figures.runs, figures.mb_s, figures.iops) == (3, pytest.approx(5), pytest.approx(50))


def test_the_plan_names_every_cell_once_and_holds_what_the_decisions_need() -> None:
    have = samples.facilities()
    cells = [each for tier in tiers(have, "io_uring") for each in tier]
    assert len(cells) == len(set(cells))
    needed = {
        each
        for decision in decisions(have, "io_uring")
        for specs in decision.candidates.values()
        for each in specs
    }
    assert needed <= set(cells)
    assert {each.consumers for each in cells} >= {1, 2, 10, 50}
    assert {each.depth for each in cells} >= {1, 8, 32, 128, 256}
    assert {each.request_bytes >> 10 for each in cells} >= {8, 16, 32, 64, 128, 256, 512, 1024}
    assert {each.pattern for each in cells} >= {"parallel", "sequential", "gaps", "dependent"}
    for cores in (1, 2, 16, 200):
        counts = worker_counts(samples.facilities(cores=cores))
        assert 3 in counts and 1 in counts and max(counts) <= 32 and len(counts) <= 11
        assert max(counts) >= min(32, 2 * cores)


def test_the_versions_rules_follow_the_build() -> None:
    """19 has a pool that grows up to io_max_workers; 18 has as many workers as io_workers says."""
    of_18, of_19 = samples.facilities(), samples.facilities(major=19)
    scan_of_18, scan_of_19 = (work_cell("cold-scan", "worker", 1, have) for have in (of_18, of_19))
    assert (scan_of_18.workers, scan_of_18.workers_min) == (3, None)
    assert (scan_of_19.workers, scan_of_19.workers_min) == (8, 2)
    counts = next(each for each in decisions(of_19, "worker") if each.name == "io_workers")
    assert counts.default == "8" and counts.candidates["1"][0].workers_min == 1
    assert set(counts.candidates) == {str(each) for each in worker_counts(of_19)}
    assert work_cell("cold-scan", "sync", 1, of_19) == work_cell("cold-scan", "sync", 1, of_18)


def test_a_parallel_scan_has_a_leader_and_two_workers_and_a_small_server_pins_94_pages() -> None:
    have = samples.facilities()
    assert work_cell("parallel-cold-scan", "sync", 1, have).consumers == 3
    assert work_cell("parallel-cached-scan", "sync", 1, have).cache == "cached"
    # 128 MB of 8 kB among 174 processes.
    assert pinned_cell("worker", have).pins == 16384 // 174
    assert pinned_cell("worker", have) in further_cells(have)
    assert pinned_cell("sync", have) not in further_cells(have)


def test_io_max_concurrency_is_judged_by_what_it_lets_in_flight() -> None:
    have = samples.facilities()
    made = {each.name: each for each in decisions(have, "io_uring")}
    handles, depths = made["io_max_concurrency"], made["effective_io_concurrency"]
    assert handles.default == "64"
    assert list(handles.candidates) == ["64", "128", "256"]
    assert all(depths.candidates[value] == specs for value, specs in handles.candidates.items())
    assert "io_max_concurrency" not in {each.name for each in decisions(have, "sync")}


def test_cells_are_stored_as_before_where_nothing_is_new() -> None:
    assert not set(spec().model_dump()) & {"workers_min", "pins", "found"}
    unusual = spec(workers_min=2, pins=94, found=0.5)
    assert CellSpec.model_validate(unusual.model_dump()) == unusual
