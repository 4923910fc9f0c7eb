"""What a probe measures next, and when it has measured enough: of simulated machines whose truth is known."""

import random

import pytest

import probe_samples as samples
from pgassay.model.probe import (
    METHODS,
    CellRun,
    CellSpec,
    MeasuredCell,
    Recommendation,
)
from pgassay.probe.analysis.choice import judge, next_round, weights
from pgassay.probe.analysis.course import Course
from pgassay.probe.analysis.estimates import Estimate, estimate
from pgassay.probe.analysis.plan import SCAN_WORKS, Decision, decisions, tiers, work_cell, worker_counts
from pgassay.probe.analysis.recommend import leader, shell_lines


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
    machine = samples.Machine(device_mb_s=150.0, noise=0.15, latency_s=1e-6)
    have = samples.facilities(cores=machine.cores)
    for seed in range(5):
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
    for cores in (1, 2, 16, 200):
        counts = worker_counts(samples.facilities(cores=cores))
        assert 3 in counts and 1 in counts and max(counts) <= 32 and len(counts) <= 11
        assert max(counts) >= min(32, 2 * cores)
