"""What a gate finds in one night: planted slow-downs, and nights on which nothing can be said."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pgassay.analysis.gate.detector import rule_of
from pgassay.analysis.gate.judge_gate import Gated, gate_result, outcome_of, sentence_of, suspicions
from pgassay.analysis.gate.promise import Noise, TimeBudget, noise_of, promise
from pgassay.report.gate import junit
from simulated_gates import SIDE, Nights, slowed, workload_of

SLOWER = -math.log(1.05)


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    return workload_of(tmp_path_factory.mktemp("gate"), statements=6)


def nights(workload, **changes):
    return Nights(workload, **({"seed": 5, "statements": 6, "spread": 0.01} | changes))


def test_a_slow_down_of_one_statement_is_found_and_named(workload):
    found = nights(workload).night({"q03": SLOWER})
    assert slowed(found) == {"q03"}
    assert (found.outcome, found.exit_code) == ("slow-down", 1)
    assert found.verdict.startswith("simulated/q03 is ")
    unit = next(unit for unit in found.units if unit.statement == "q03")
    assert unit.ratio == pytest.approx(1 / 1.05, abs=0.01)
    assert unit.interval[1] < 1
    assert unit.log_evidence_max >= math.log(found.rule.threshold)


def test_a_statement_that_became_faster_is_no_slow_down(workload):
    found = nights(workload).night({"q03": 0.3})
    assert (found.outcome, found.exit_code, slowed(found)) == ("none found", 0, set())


def test_a_certain_slow_down_within_the_margin_is_no_alarm(workload):
    found = nights(workload, spread=0.003).night({"q03": -math.log(1.015)})
    unit = next(unit for unit in found.units if unit.statement == "q03")
    assert unit.finding == "within the margin"
    assert unit.interval[1] < 1
    assert found.exit_code == 0


def test_the_whole_is_a_unit_beside_several_statements_and_the_only_one_of_a_single_one(workload, tmp_path):
    assert [unit.statement for unit in nights(workload).night().units] == ["", *(f"q0{n}" for n in range(6))]
    single = Nights(workload_of(tmp_path, statements=1), seed=1, statements=1, blocks=4).night()
    assert [unit.statement for unit in single.units] == [""]
    assert single.rule.units == 1


def test_too_few_blocks_are_said_and_are_no_clean_bill(workload):
    """A change may be a hundred times slower there, and nothing is bounded."""
    found = nights(workload, blocks=3).night({"q03": -math.log(100)})
    assert {unit.finding for unit in found.units} == {"undecided"}
    assert (found.outcome, found.exit_code) == ("undecided", 4)
    assert "give it more time" in found.verdict


def test_what_looks_slower_and_is_not_proven_is_said_with_the_time_that_is_missing(workload):
    found = nights(workload, blocks=3).night({"q03": -math.log(190)})
    first = found.verdict.splitlines()[0]
    assert re.search(r"^\S*q03 looks 1[789]\d × as slow as its baseline, not proven: \S+ \w+ needed", first)
    assert "0 units" not in found.verdict
    needed = int(re.search(r"about (\d+) blocks", first)[1])
    assert "it had" in first and " and 3 blocks." in first
    # With the blocks that it asks for it is found.
    longer = nights(workload, blocks=needed).night({"q03": -math.log(190)})
    assert "q03" in slowed(longer) and "looks" not in longer.verdict
    quiet = nights(workload, blocks=3).night()
    assert "looks" not in quiet.verdict and "0 units" not in quiet.verdict


@pytest.mark.parametrize("finding", ["undecided", "none found"])
def test_what_looks_slower_for_a_reason_that_no_time_mends_is_said_with_the_reason(workload, finding):
    found = nights(workload, blocks=3).night({"q03": -math.log(190)})
    unit = next(unit for unit in found.units if unit.statement == "q03")
    doubted = unit.model_copy(update={"finding": finding, "note": "the load generator was the limit"})
    workloads = {each.name: each for each in found.workloads}
    (said,) = suspicions([doubted], found.rule, workloads, pooled=True)
    assert said.endswith("as slow as its baseline, not proven: the load generator was the limit.")


def test_where_both_sides_own_copies_of_the_data_the_missing_time_is_that_of_sets_of_blocks(workload):
    """The blocks of a set of copies count once, so a slow-down takes as many times more of them."""
    found = nights(workload, blocks=3).night({"q03": -math.log(190)})
    workloads = {each.name: each for each in found.workloads}

    def needed(**changes):
        said = next(iter(suspicions(found.units, found.rule, workloads, pooled=True, **changes)))
        return int(re.search(r"about (\d+) blocks", said)[1])

    assert needed(blocks_per_row={"simulated": 4}) == 4 * needed()


def test_evidence_of_nights_that_found_nothing_adds_up(workload):
    """Each night alone has too little, since the noise is three times the slow-down."""
    line = nights(workload, spread=0.08, blocks=25)
    found = [line.night({"q03": SLOWER}) for _ in range(12)]
    first = next(number for number, night in enumerate(found) if "q03" in slowed(night))
    unit = next(unit for unit in found[first].units if unit.statement == "q03")
    assert first > 0
    assert unit.log_evidence_max < math.log(found[first].rule.threshold)
    assert unit.since in [night.created_at for night in found[:first]]
    assert "earlier run" in unit.note
    alone = nights(workload, spread=0.08, blocks=25, carries=False)
    assert not any("q03" in slowed(alone.night({"q03": SLOWER})) for _ in range(first + 1))


def test_a_slow_down_that_a_night_proves_is_not_made_smaller_by_the_nights_before_it(tmp_path):
    line = Nights(workload_of(tmp_path, statements=1), seed=5, statements=1, spread=0.005)
    line.night()
    for _ in range(8):
        (unit,) = line.night({"q00": -math.log(1.015)}).units
        assert unit.finding != "slow-down"
    found = line.night({"q00": -math.log(1.10)})
    (unit,) = found.units
    assert (unit.finding, unit.since, unit.note, found.exit_code) == ("slow-down", "", "", 1)


def test_a_twin_that_differs_stops_an_alarm_of_several_nights_too(tmp_path):
    """The night's own interval says nothing, so the twin was not asked about it."""
    line = Nights(workload_of(tmp_path, statements=1), seed=5, statements=1, spread=0.05, blocks=25)
    first = line.night()
    units = tuple(unit.model_copy(update={"log_evidence": 8.0}) for unit in first.units)
    line.stored = [first.model_copy(update={"units": units})]
    line.twin = 0.1
    found = line.night({"q00": 0.03})
    (unit,) = found.units
    assert unit.interval[0] < 1 < unit.interval[1]
    assert unit.log_evidence_max + unit.log_evidence_earlier > math.log(found.rule.threshold)
    assert (unit.finding, found.exit_code) == ("undecided", 4)
    assert "the twin" in unit.note


def test_a_slow_down_that_must_be_found_and_could_not_be_leaves_the_unit_undecided(workload):
    stored = nights(workload, spread=0.1)
    stored.night()
    experiment = stored.last
    options = {"systems": (SIDE, SIDE), "earlier": (), "created_at": "2026", "file": "f", "folder": "."}
    strict = gate_result([Gated("w", experiment, must_find=0.02)], **options)
    assert strict.exit_code == 4
    assert "had to be found" in strict.verdict
    assert gate_result([Gated("w", experiment)], **options).exit_code == 0


def test_an_experiment_that_failed_is_no_clean_bill(workload):
    line = nights(workload)
    line.night()
    failed = replace(line.last, stopped="failed")
    options = {
        "systems": (SIDE, SIDE),
        "earlier": (),
        "created_at": "2026-01-01T00:00:00",
        "file": "f",
        "folder": ".",
    }
    found = gate_result([Gated("w", failed)], **options)
    assert (found.outcome, found.exit_code) == ("undecided", 4)
    assert "ended early" in found.workloads[0].warnings[0]
    assert found.verdict.splitlines()[-1].startswith("Undecided: w: it ended early, since its trials failed")
    suites = ElementTree.fromstring(junit.render(found))
    (error,) = suites.iter("error")
    assert error.get("type") == "failed" and "ended early" in error.get("message")
    assert {(each.get("tests"), each.get("errors")) for each in (suites, *suites)} == {("8", "1")}


def test_earlier_runs_of_another_baseline_are_not_counted_and_said(workload):
    line = nights(workload)
    same, other = line.night(), line.night()
    of_another = tuple(each.model_copy(update={"baseline": "another"}) for each in other.workloads)
    line.stored = [other.model_copy(update={"workloads": of_another}), same]
    found = line.night()
    assert found.earlier_runs == 1
    assert found.warnings == (
        "1 of 2 earlier runs had another baseline or other workloads, so its evidence does not count",
    )


def test_where_nothing_differs_nothing_is_slower():
    assert outcome_of([]) == "none found"
    assert "nothing was measured" in sentence_of([])


def test_the_promise_says_what_is_found_with_ninety_percent():
    rule, time = rule_of(51), TimeBudget(time_s=600, trial_s=6, members=3, blocks_max=10_000)
    assert time.blocks == 33
    said = promise("orders", time, Noise({"": 0.004, "a": 0.03, "b": 0.09}, "at the noise seen"), rule)
    assert said.startswith("orders: 10 minutes are about 33 blocks of 3 trials: a slow-down of 4.")
    assert "in the noisiest, b, one of 15 %" in said
    unknown = promise("orders", time, Noise({}, ""), rule)
    assert "not known yet" in unknown
    short = TimeBudget(time_s=60, trial_s=6, members=3, blocks_max=10_000)
    assert "too few to find any slow-down: give it" in promise("orders", short, Noise({}, ""), rule)
    over = promise("orders", TimeBudget(time_s=-30, trial_s=6, members=3, blocks_max=9), Noise({}, ""), rule)
    assert over.startswith("orders: no time is left, and one block of 3 trials takes 18 seconds, so nothing")
    none = TimeBudget(time_s=10, trial_s=6, members=3, blocks_max=10_000)
    said = promise("orders", none, Noise({}, ""), rule)
    assert said.startswith(
        "orders: 10 seconds are less than one block of 3 trials takes (18 seconds), so nothing will be found"
    )


def test_the_promise_of_starts_that_both_sides_share_counts_starts():
    rule = rule_of(1)
    time = TimeBudget(time_s=60, trial_s=2, members=3, blocks_max=10_000, by_starts=True)
    said = promise("orders", time, Noise({"": 0.01}, "at the noise seen"), rule)
    assert said.startswith("orders: 60 seconds are about 10 starts of one server for both sides: a slow-down")
    few = promise("orders", replace(time, time_s=12), Noise({}, ""), rule)
    assert "about 2 starts of one server" in few
    assert "too few to find any slow-down: give it 36 seconds (a large slow-down needs 18 seconds)" in few
    none = promise("orders", replace(time, time_s=5), Noise({}, ""), rule)
    assert "less than one start takes (6 seconds)" in none
    assert time.findable(0.01, rule) < time.findable(0.07, rule)


def test_the_noise_comes_from_the_latest_runs_of_the_history(workload):
    line = nights(workload)
    for _ in range(2):
        line.night()
    noise = noise_of(line.stored, "simulated", 0.5)
    assert noise.spreads["q01"] == pytest.approx(0.0104, rel=0.4)
    assert "2 earlier runs" in noise.source
    assert noise_of([], "simulated", 0.05).spreads == {"": 0.05}
    assert noise_of([], "simulated", None).spreads == {}
