"""The parts of the analysis, each against its definition or by what a reader is told."""

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis_samples import experiment, record, simulate, stored
from pgassay.analysis.statistics import ebh, power
from pgassay.analysis.statistics.contrasts import slopes
from pgassay.analysis.statistics.eprocess import predictable_scale
from pgassay.analysis.statistics.sequence import log_sign_evidence, median_sequence
from pgassay.analysis.verdicts import stability
from pgassay.analysis.verdicts.blocks import complete_blocks, primary_measure
from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.verdict import (
    DISTRIBUTION_CHANGED,
    LEFT_BEHIND,
    MEDIAN_DISAGREES,
    MOVED,
    Finding,
    Judgement,
    interval_of,
    judge,
    outlook,
)
from pgassay.errors import UsageError
from pgassay.model.result import Forecast
from pgassay.model.workload import Metric
from pgassay.plans.plan_shape import outline, shape
from pgassay.words import AMOUNT, comparison, figure, percent, percent_rounded, quantity, share, span


def blocks_of(plan, records):
    """The block table of these trials."""
    return complete_blocks(stored(plan, records), primary_measure(plan.contract.metric))


def test_a_second_attempt_stands_in_for_a_failed_first():
    plan = experiment()
    records = simulate(plan, 3)
    arm = records[4].arm_id
    failed = records[4].model_copy(update={"status": "failed", "reason": "crash"})
    again = record(plan, 4, 1, arm, 2.0, attempt=2)
    table = blocks_of(plan, [*records[:4], failed, again, *records[5:]])
    assert table.numbers == (0, 1, 2)
    assert table.rows[1][arm].attempt == 2
    assert table.failures == {arm: 1}
    assert table.voided == ()


def test_a_second_failure_voids_the_block_for_every_arm():
    plan = experiment()
    records = simulate(plan, 3)
    failed = [records[4].model_copy(update={"status": "invalid", "attempt": attempt}) for attempt in (1, 2)]
    table = blocks_of(plan, [*records[:4], *failed, *records[5:]])
    assert table.numbers == (0, 2)
    assert table.voided == (1,)
    assert sum(len(found) for found in table.valid.values()) == 8


def test_an_interrupted_attempt_is_no_failure_and_a_half_done_block_waits():
    plan = experiment()
    records = simulate(plan, 2)
    interrupted = [
        records[3].model_copy(update={"status": "interrupted", "attempt": attempt}) for attempt in (1, 2)
    ]
    resumed = records[3].model_copy(update={"attempt": 3})
    table = blocks_of(plan, [*records[:3], *interrupted, resumed, *records[4:5]])
    assert table.failures == {}
    assert table.voided == ()
    assert table.numbers == (0,)
    assert blocks_of(plan, [*records[:3], *interrupted, resumed, *records[4:]]).numbers == (0, 1)


def test_a_trial_without_a_figure_counts_as_failed():
    plan = experiment()
    records = simulate(plan, 1)
    empty = records[0].model_copy(update={"statements": ()})
    table = blocks_of(plan, [empty, *records[1:]])
    assert table.failures == {empty.arm_id: 1}
    assert "could not be computed" in table.reasons[empty.arm_id]


def test_the_scale_is_the_one_of_the_definition():
    difference = np.array([0.3, -0.1, 0.25, 0.0])
    expected = [0.05]
    for block in range(2, 5):
        before = difference[: block - 1]
        expected.append(math.sqrt((((before - before.mean()) ** 2).sum() + 3 * 0.05**2) / (block + 1)))
    np.testing.assert_allclose(predictable_scale(difference), expected, rtol=1e-12)


def test_the_slope_is_the_one_of_the_definition_and_0_for_four_blocks():
    random = np.random.default_rng(1)
    values, covariate = random.standard_normal((2, 9, 2))
    d, x = values[:, 0] - values[:, 1], covariate[:, 0] - covariate[:, 1]
    found = slopes(values, covariate)
    assert (found[:4] == 0).all()
    for block in range(4, 9):
        before_d, before_x = d[:block], x[:block]
        centred = before_x - before_x.mean()
        products = (centred * (before_d - before_d.mean())).sum()
        expected = products / ((centred**2).sum() + 3 * (before_x**2).mean())
        assert found[block] == pytest.approx(expected, rel=1e-12)


def test_the_median_sequence_has_the_sign_evidence_of_its_formula():
    # 2ⁿ·B(n + ½, ½)/B(½, ½) for n = 8: the arcsine law gives C(16, 8)/4⁸ of 2⁸.
    expected = 2**8 * math.comb(16, 8) / 4**8
    assert math.exp(log_sign_evidence(np.array(8.0), 8)) == pytest.approx(expected)
    pairs = np.arange(20.0)
    ends = median_sequence(pairs, 0.05)
    assert 0 < ends.lower < 9.5 < ends.upper < 19
    assert ends.lower + ends.upper == 19
    assert np.isinf(median_sequence(pairs[:5], 0.05).lower)


def test_ebh_selects_the_largest_set_that_its_rule_allows():
    evidences = np.log(np.array([200.0, 45.0, 1.0, 60.0]))
    selection = ebh.select(evidences, 0.05)
    # Thresholds 80, 40, 26.7, 20 for k = 1 to 4: the three largest are 200, 60, 45, all above 26.7.
    assert selection.count == 3
    assert selection.selected.tolist() == [True, True, False, True]
    assert ebh.selected_level(0.05, selection) == pytest.approx(0.0375)
    assert ebh.select(np.log(np.array([79.0, 1.0, 1.0, 1.0])), 0.05).count == 0
    # Where only one of two hypotheses can be true at once, the thresholds are those for half as many.
    halved = ebh.select(np.log(np.array([41.0, 1.0, 21.0, 1.0])), 0.05, true_max=2)
    assert halved.selected.tolist() == [True, False, True, False]
    assert ebh.selected_level(0.05, halved) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("lower", "upper", "word", "meaningful"),
    [
        (-0.02, 0.02, "equivalent", False),
        (0.005, 0.02, "equivalent", False),
        (0.005, 0.05, "faster", False),
        (0.04, 0.09, "faster", True),
        (-0.09, -0.04, "slower", True),
        (-0.05, -0.01, "slower", False),
        (-0.05, 0.02, "inconclusive", False),
        (-math.inf, math.inf, "inconclusive", False),
    ],
)
def test_words_come_from_the_interval_in_order_of_precedence(lower, upper, word, meaningful):
    middle = (lower + upper) / 2 if math.isfinite(lower) else 0.0
    judgement = judge(Finding(middle, lower, upper), 0.03)
    assert (judgement.verdict, judgement.meaningful) == (word, meaningful)
    assert ("slightly faster" in judgement.note) == (word == "equivalent" and lower > 0)


def test_an_estimate_outside_the_medians_interval_has_no_direction_yet():
    finding = Finding(0.2, 0.1, 0.3, median_lower=-0.1, median_upper=0.15)
    judgement = judge(finding, 0.03)
    assert (judgement.verdict, judgement.note) == ("inconclusive", MEDIAN_DISAGREES)
    # An interval that says nothing needs no excuse, and more blocks may decide it.
    assert judge(replace(finding, lower=-0.1), 0.03).note == ""
    assert judge(replace(finding, median_upper=0.21), 0.03).verdict == "faster"


def test_the_distribution_changed_only_where_mean_and_median_have_nothing_in_common():
    finding = Finding(0.2, 0.1, 0.3, median_lower=-0.1, median_upper=0.15)
    apart = replace(finding, half_level=(0.1, 0.3), median_half_level=(-0.1, 0.09))
    assert judge(apart, 0.03) == Judgement("inconclusive", note=DISTRIBUTION_CHANGED)
    below = replace(finding, half_level=(0.1, 0.3), median_half_level=(0.31, 0.4))
    assert judge(below, 0.03).note == DISTRIBUTION_CHANGED
    # A twin that is off by so much makes room for it.
    assert judge(apart, 0.03, twin_bound=0.02).note == MEDIAN_DISAGREES
    touching = replace(finding, half_level=(0.1, 0.3), median_half_level=(-0.1, 0.1))
    assert judge(touching, 0.03).note == MEDIAN_DISAGREES


def test_an_empty_interval_is_none_and_says_why():
    moved = Finding(0.2, 0.3, 0.1)
    assert judge(moved, 0.03) == Judgement("inconclusive", note=MOVED)
    assert interval_of(moved.lower, moved.upper) is None
    assert interval_of(-math.inf, 0.0) == (None, 1.0)
    assert judge(Finding(0.4, 0.1, 0.3), 0.03).note == LEFT_BEHIND


def test_a_twin_that_fired_keeps_only_what_lies_beyond_it():
    assert judge(Finding(0.1, 0.05, 0.15), 0.03, twin_bound=0.06).withheld
    assert judge(Finding(0.1, 0.07, 0.15), 0.03, twin_bound=0.06).verdict == "faster"
    assert judge(Finding(0.0, -0.01, 0.01), 0.03, twin_bound=0.06).withheld


def test_the_planner_gives_the_worked_example():
    assert power.blocks_for_detection(0.07 * math.sqrt(2), 0.03, pooled=True) == 121
    assert power.resolvable_spread(15, 0.03, pooled=True) == pytest.approx(0.0316, abs=1e-4)
    sentence = power.resolution_sentence(720, 12, 4)
    assert sentence.startswith("12 minutes are about 15 blocks of 4 trials: they resolve 3 % if")
    assert "at most 3.2 %" in sentence
    assert "at a trial-to-trial spread of 7 % it takes 121 blocks, about 97 minutes." in sentence


def test_the_planner_says_when_the_time_is_too_short_for_anything():
    assert "too few for a verdict, which takes at least 4 blocks" in power.resolution_sentence(60, 12, 4)


def test_planner_and_its_inverse_agree():
    for pooled in (False, True):
        effect = power.resolvable_effect(40, 0.05, pooled=pooled, contrasts=3)
        assert power.blocks_for_detection(0.05, effect, pooled=pooled, contrasts=3) == 40
    assert math.isinf(power.resolvable_effect(3, 0.05, pooled=True))
    assert power.minimum_blocks(pooled=True) == 4
    assert power.minimum_blocks(pooled=False) == 6
    with pytest.raises(ValueError, match="power"):
        power.blocks_for_detection(0.05, 0.03, pooled=True, power=0.5)


def test_the_upper_spread_exceeds_the_true_one_in_80_percent_of_pilots():
    random = np.random.default_rng(5)
    above = [power.upper_spread(random.standard_normal(8)) > 1 for _ in range(4000)]
    assert np.mean(above) == pytest.approx(0.8, abs=0.02)


def test_plans_have_one_shape_whatever_their_costs_and_workers():
    node = {"Node Type": "Gather", "Workers Planned": 2, "Total Cost": 5.0, "Plans": []}
    scan = {"Node Type": "Seq Scan", "Relation Name": "t", "Filter": "(a > 0)", "Parallel Aware": True}
    one = [{"Plan": {**node, "Plans": [{**scan, "Plan Rows": 7}]}}]
    two = {"Plan": {**node, "Workers Planned": 4, "Total Cost": 9.0, "Plans": [{**scan, "Plan Rows": 8}]}}
    assert shape(one) == shape(two) != ""
    assert outline(shape(one)) == "Gather > Parallel Seq Scan on t"
    other = {"Plan": {**node, "Plans": [{**scan, "Filter": "(a > 1)"}]}}
    assert shape(other) != shape(one)
    assert shape("no plan") == shape(None) == shape([]) == ""


def test_drift_is_found_and_steady_noise_is_not():
    random = np.random.default_rng(3)
    noise = 0.01 * random.standard_normal(30)
    assert stability.find_drift(noise, 0.03) is None
    drift = stability.find_drift(noise + np.linspace(0, -0.3, 30), 0.03)
    assert drift is not None
    assert drift.change == pytest.approx(-0.3, abs=0.05)
    assert not drift.settled
    early = stability.find_drift(noise + 0.3 * np.exp(-np.arange(30) / 3), 0.03)
    assert early is not None
    assert early.settled


def test_a_load_that_keeps_rising_never_settled():
    rising = [[100 + 5 * second + run for second in range(10)] for run in range(5)]
    level = [[100 + (second * 7 + run) % 5 for second in range(10)] for run in range(5)]
    assert stability.unsettled_change(rising, 0.03) > 0.1
    assert stability.unsettled_change(level, 0.03) is None
    assert stability.unsettled_change(rising[:2], 0.03) is None
    assert stability.unsettled_change([[100] * 5 + [0] * 5] * 3, 0.03) == -math.inf


def test_intervals_in_words():
    assert span((1.17, 1.25)) == "between 17 % and 25 %"
    assert span((0.7, 0.83)) == "between 17 % and 30 %"
    assert span((0.96, 1.07)) == "between 4 % slower and 7 % faster"
    assert span((None, None)) == "nothing is bounded"
    assert span((1.1, None)) == "at least 10 % faster"
    assert span((None, 0.9)) == "at least 10 % slower"
    assert span((None, 1.1)) == "at most 10 % faster"
    assert span((1.8, 2.4)) == "between 1.8 and 2.4 × as fast"
    assert span((0.9, 2.4)) == "between 10 % slower and 2.4 × as fast"
    assert span((2.5, None), AMOUNT) == "at least 2.5 × as much"
    assert comparison(1.214) == "21 % faster than"
    assert comparison(2.4) == "2.4 × as fast as"
    assert comparison(0.287) == "3.48 × as slow as"
    assert comparison(0.7) == "30 % slower than"
    assert comparison(1.6) == "1.6 × as fast as"
    assert span((0.25, 0.33)) == "between 3.03 and 4 × as slow"
    assert span((0.25, 1.04)) == "between 4 × as slow and 4 % faster"
    assert span((213.0, 1270.0)) == "between 213 and 1,270 × as fast"
    assert comparison(1270.4) == "1,270 × as fast as"
    assert comparison(0.2, AMOUNT, "CPU") == "80 % less CPU than"
    assert comparison(2.4, AMOUNT, "CPU") == "2.4 × as much CPU as"
    assert comparison(0.95, AMOUNT, "CPU") == "5 % less CPU than"
    several = Forecast(blocks=(6, 11, 20), seconds=(720.0, 1320.0, 2400.0))
    assert outlook(several) == "likely 6 to 20 more blocks (12 minutes to 40 minutes) until a verdict"
    one = Forecast(blocks=(1, 1, 1), seconds=(60.0, 60.0, 60.0))
    assert outlook(one) == "likely 1 more block (60 seconds) until a verdict"
    open_end = Forecast(blocks=(300, None, None), seconds=(3600.0, None, None))
    assert outlook(open_end) == "likely at least 300 more blocks (60 minutes) until a verdict"
    beyond = Forecast(blocks=(None, None, None), seconds=(None, None, None))
    assert outlook(beyond) == "no verdict is likely within 1000 more blocks"
    assert outlook(None) == ""


def test_no_figure_has_an_exponent():
    assert [figure(value) for value in (1270.0, 12_345_678.0, 2.5, 24.0, 0.0000015, 0.0)] == [
        "1,270", "12,345,678", "2.5", "24", "0.0000015", "0",
    ]  # fmt: skip
    assert percent(1.5e-8) == "0.0000015 %" and percent(12.7) == "1,270 %"
    assert [share(each) for each in (0.0, 3.2e-6, 0.0026, 0.0264, 0.82)] == [
        "0 %", "under 0.1 %", "0.3 %", "2.6 %", "82 %",
    ]  # fmt: skip
    assert percent_rounded(1.5e-8) == "0.0000015 %"
    assert [percent_rounded(each) for each in (0.9955, 0.99996, 0.994, 1.0)] == [
        "99.6 %", "99.996 %", "99 %", "100 %",
    ]  # fmt: skip
    assert quantity(3.2e9, "rows") == "3,200,000,000 rows" and quantity(2e-7, "s") == "0.200 µs"


def test_a_metric_with_an_unknown_unit_of_time_is_refused():
    with pytest.raises(UsageError, match="furlong"):
        primary_measure(Metric(name="time", unit="furlong", better="lower"))


def test_a_large_drift_of_all_arms_is_told_as_a_multiple() -> None:
    plan = experiment(statements=0)
    slowing = []
    for each in simulate(plan, 24):
        load = each.load.model_copy(update={"elapsed_s": each.load.elapsed_s * 1.06**each.block})
        slowing.append(each.model_copy(update={"load": load}))
    (said,) = [each for each in analyse(stored(plan, slowing)).warning_sentences if "All arms became" in each]
    assert said.startswith("All arms became 3.") and "× as slow from the first block to the last" in said
