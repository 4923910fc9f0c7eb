"""What the analysis makes of a plan's rules of evidence: equivalence on each side, and forecasts."""

import math

import pytest

import analysis_samples as samples
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.verdicts.compare import analyse

NEW = {"sharpness": (0.1, 3.0, 10), "first_scale": 0.02, "equivalence": "each"}


def after(plan, blocks, **noise):
    return samples.stored(plan, samples.simulate(plan, blocks, **noise))


def first_with(verdict, rules, **noise):
    """The result at the first number of blocks that has this verdict."""
    for blocks in range(4, 40):
        result = analyse(after(samples.experiment(**rules), blocks, **noise))
        arm = next(item for item in result.arms if item.verdict != "control")
        if arm.verdict == verdict:
            return result, arm
    raise AssertionError(f"never {verdict}")


def test_equivalence_shows_the_interval_that_it_rests_on():
    result, arm = first_with("equivalent", NEW, spread=0.02)
    lower, upper = arm.equivalence_interval
    edge = log_margin(result.margin)
    assert -edge <= math.log(lower) < 0 < math.log(upper) <= edge
    # It is the interval at 1 − 2α: narrower than the arm's, which may reach out of the margin.
    assert arm.interval[0] < lower < upper < arm.interval[1]
    assert arm.forecast is None
    assert " at 90 %, " in result.verdict
    assert "is equivalent to io_method=sync within 3 % (" in result.verdict


def test_a_stored_experiment_keeps_the_interval_that_it_was_begun_with():
    result, arm = first_with("equivalent", {}, spread=0.02)
    assert arm.equivalence_interval is None
    assert max(abs(math.log(end)) for end in arm.interval) <= log_margin(result.margin)
    assert " at 90 %" not in result.verdict
    assert result.blocks > first_with("equivalent", NEW, spread=0.02)[0].blocks


@pytest.mark.parametrize("rules", [{}, NEW], ids=["stored", "new"])
def test_an_undecided_arm_has_a_forecast_of_further_blocks(rules):
    plan = samples.experiment(**rules)
    given = after(plan, 6, spread=0.05)
    arm = analyse(given).arms[1]
    assert arm.verdict == "inconclusive"
    low, middle, high = arm.forecast.blocks
    assert 1 <= low < middle
    assert high is None or middle < high
    # A block is three trials of 12 s.
    assert arm.forecast.seconds[0] == pytest.approx(36.0 * low)
    assert "until a verdict" in arm.note
    assert arm == analyse(given).arms[1]


def test_neither_decided_arms_nor_two_blocks_have_a_forecast():
    plan = samples.experiment(arms=2, **NEW)
    decided = next(arm.id for arm in plan.arms if arm.role == "arm")
    records = samples.simulate(plan, 8, {decided: 0.5}, spread=0.05)
    arms = analyse(samples.stored(plan, records)).arms
    assert [arm.verdict for arm in arms] == ["control", "faster", "inconclusive"]
    assert [arm.forecast is None for arm in arms] == [True, True, False]
    assert all(arm.forecast is None for arm in analyse(after(plan, 2, spread=0.05)).arms)
