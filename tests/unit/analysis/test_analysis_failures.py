"""Trials that failed: the evidence that they depend on the arm, and verdicts that depend on them."""

import itertools
import json
import math

import numpy as np
import pytest

from analysis_samples import experiment, simulate, stored
from pgassay.analysis.statistics.failures import counted_worst, log_failure_evidence
from pgassay.analysis.verdicts.compare import analyse, interim_result
from pgassay.model.result import DesignWarning
from pgassay.model.trial import TrialRecord


def with_failures(records: list[TrialRecord], failing: set[tuple[int, str]]) -> list[TrialRecord]:
    """The trials, with a first attempt that failed before those in these (block, arm)."""
    found = []
    for item in records:
        if (item.block, item.arm_id) in failing:
            lost = {"status": "invalid", "reason": "the cache was not warm", "statements": ()}
            found += [item.model_copy(update=lost), item.model_copy(update={"attempt": 2})]
        else:
            found.append(item)
    return found


def design_warnings(result) -> list[DesignWarning]:
    return [each for each in result.warnings if isinstance(each, DesignWarning) and each.kind == "failures"]


@pytest.mark.parametrize("members", [2, 3])
def test_the_evidence_is_exact_over_all_places_of_the_failures(members: int) -> None:
    """Whatever fails, the mean over the arm's places in four blocks is 1."""
    for counts in itertools.product(range(members + 1), repeat=4):
        values = []
        for places in itertools.product(range(members), repeat=4):
            failed = np.zeros((4, members), dtype=np.bool_)
            for block, (count, place) in enumerate(zip(counts, places, strict=True)):
                # Failures hold the first places of the block; the arm is in place `place`.
                is_failed = np.arange(members) < count
                failed[block] = np.roll(is_failed, -place)
            values.append(math.exp(log_failure_evidence(failed)[-1]))
        assert np.mean(values) == pytest.approx(1.0, abs=1e-9)


def test_one_sided_failures_are_evidence_and_even_ones_are_none() -> None:
    of_arm = np.zeros((40, 3), dtype=np.bool_)
    of_arm[::5, 0] = True
    assert math.exp(log_failure_evidence(of_arm)[-1]) > 100
    everyone = np.zeros((40, 3), dtype=np.bool_)
    everyone[::5] = True
    assert log_failure_evidence(everyone)[-1] == pytest.approx(0.0)
    assert log_failure_evidence(np.zeros((5, 2), dtype=np.bool_)).max() == pytest.approx(0.0)


def test_a_failed_attempt_counts_as_the_slowest_so_far_and_one_not_run_as_the_median() -> None:
    nothing = math.nan
    values = np.array([[nothing, nothing], [0.5, 0.1], [nothing, 0.3], [nothing, nothing]])
    failed = np.array([[True, False], [False, False], [True, False], [False, True]])
    np.testing.assert_allclose(counted_worst(values, failed), [[0.5, 0.1], [0.1, 0.3], [0.3, 0.1]])
    # The arm's speeds are moved before the slowest is found: for whichever member it is the same.
    np.testing.assert_allclose(
        counted_worst(values, failed, effect=0.5), [[0.0, 0.1], [0.0, 0.3], [0.1, 0.0]]
    )


def test_a_faster_arm_whose_trials_fail_is_withheld_and_says_on_what_it_depends() -> None:
    plan = experiment()
    records = simulate(plan, 20, {"s0-1": 0.03})
    assert analyse(stored(plan, records)).arms[1].verdict == "faster"
    failing = {(block, "s0-1") for block in (3, 7, 11, 15)}
    trials = stored(plan, with_failures(records, failing))
    result = analyse(trials)
    arm = result.arms[1]
    assert (arm.verdict, arm.withheld) == ("inconclusive", True)
    assert arm.note == f"faster only if the 4 failed first attempts of {arm.name} are left out"
    assert f"The verdict on {arm.name} is withheld: {arm.note}" in result.verdict
    assert interim_result(trials).arms[0].withheld
    (warning,) = design_warnings(result)
    assert (warning.kind, warning.arm) == ("failures", arm.name)
    assert arm.note in warning.sentence
    # Of which the statements and the CPU know as well.
    assert all(each.arms[1].verdict == "inconclusive" for each in result.statements)
    assert all(each.arms[1].verdict == "inconclusive" for each in result.secondary)
    json.dumps(result.model_dump(by_alias=True), allow_nan=False)


def test_a_slower_arm_whose_trials_fail_stays_slower_and_the_failures_are_told() -> None:
    plan = experiment()
    records = simulate(plan, 40, {"s0-1": -0.1})
    failing = {(block, "s0-1") for block in range(0, 40, 5)}
    result = analyse(stored(plan, with_failures(records, failing)))
    assert result.arms[1].verdict == "slower"
    (warning,) = design_warnings(result)
    assert "8 of 40 first attempts of io_method=method1 failed, 0 of 80 of its control and its twin" in (
        warning.sentence
    )


def test_failures_of_all_arms_alike_neither_withhold_nor_warn() -> None:
    plan = experiment()
    failing = {(block, arm) for block in (4, 9) for arm in ("s0-0", "s0-1", "s0-2")}
    result = analyse(stored(plan, with_failures(simulate(plan, 30, {"s0-1": 0.1}), failing)))
    assert result.arms[1].verdict == "faster"
    assert design_warnings(result) == []


def test_equivalence_depends_on_failures_too() -> None:
    plan = experiment()
    records = simulate(plan, 30)
    assert analyse(stored(plan, records)).arms[1].verdict == "equivalent"
    failing = {(block, "s0-1") for block in range(0, 30, 3)}
    arm = analyse(stored(plan, with_failures(records, failing))).arms[1]
    assert arm.withheld
    assert arm.note.startswith("equivalent only if the 10 failed first attempts of ")


def test_a_void_block_counts_with_its_first_attempts() -> None:
    """An arm that fails twice ends the block, and nothing of it is among the valid trials."""
    plan = experiment()
    records = []
    for item in simulate(plan, 40):
        ended = item.block % 2 and any(
            other.block == item.block and other.status == "failed" for other in records
        )
        if ended:
            continue
        if item.block % 2 and item.arm_id == "s0-1":
            lost = item.model_copy(update={"status": "failed", "reason": "it ended", "statements": ()})
            records += [lost, lost.model_copy(update={"attempt": 2})]
        else:
            records.append(item)
    result = analyse(stored(plan, records))
    assert result.blocks == 20
    (warning,) = design_warnings(result)
    assert "20 of 40 first attempts of io_method=method1 failed" in warning.sentence
    assert result.arms[1].verdict == "inconclusive"
