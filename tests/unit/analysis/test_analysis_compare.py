"""From a stored experiment to the result: words, intervals, gates, families, warnings."""

import dataclasses
import json
import math

import jsonschema
import numpy as np
import pytest

from analysis_samples import SCAN_PLAN, experiment, record, simulate, simulate_moving, stored
from pgassay.analysis.verdicts.compare import analyse, decided, interim_result
from pgassay.errors import UsageError
from pgassay.model.storage import DeviceFacts, StorageFacts
from pgassay.model.trial import TrialFacts
from pgassay.report import schema
from pgassay.report.compare import page
from pgassay.report.page import json_text
from processor_time import growth


def arm_of(result, name):
    """The arm of that name."""
    return next(arm for arm in result.arms if arm.name == name)


def test_a_faster_arm_is_called_faster_with_ratio_interval_and_sentence():
    plan = experiment()
    result = analyse(stored(plan, simulate(plan, 12, {"s0-1": math.log(1.2)}), "decided"))
    arm = arm_of(result, "io_method=method1")
    assert arm.verdict == "faster"
    assert arm.meaningful
    low, high = arm.interval
    assert 1.15 < low < arm.ratio < high < 1.25
    assert low < 1.2 < high
    assert result.stopped == "decided"
    assert decided(result)
    assert result.verdict.startswith("io_method=method1 is ")
    assert "% faster than io_method=sync (between " in result.verdict
    assert result.blocks == 12
    assert "12 blocks" in result.verdict


def test_a_large_effect_is_said_as_a_multiple():
    """'256 % faster' is 3.56 times the speed, and many take it for 2.56."""
    plan = experiment()
    result = analyse(stored(plan, simulate(plan, 12, {"s0-1": math.log(3.0)}, spread=0.001), "decided"))
    assert "is 3 × as fast as io_method=sync (between " in result.verdict
    assert "× as fast, 12 blocks" in result.verdict


def test_a_slower_load_is_called_slower():
    plan = experiment(statements=0)
    result = analyse(stored(plan, simulate(plan, 12, {"s0-1": -0.2})))
    arm = arm_of(result, "io_method=method1")
    assert arm.verdict == "slower"
    assert arm.interval[1] < 1
    assert result.statements == ()
    assert arm.median == pytest.approx(100 * math.exp(-0.2), rel=0.1)
    assert len(arm.values) == arm.trials == 12


def test_equal_arms_become_equivalent_and_the_control_is_the_control():
    plan = experiment()
    result = analyse(stored(plan, simulate(plan, 25, spread=0.008)))
    assert arm_of(result, "io_method=method1").verdict == "equivalent"
    control = arm_of(result, "io_method=sync")
    assert (control.verdict, control.ratio, control.interval) == ("control", 1.0, (1.0, 1.0))
    assert "equivalent to io_method=sync within 3 %" in result.verdict
    assert len(result.arms) == 2


def test_too_few_blocks_bound_nothing_and_say_so():
    plan = experiment()
    result = analyse(stored(plan, simulate(plan, 3, {"s0-1": 1.0}, spread=0.0)))
    arm = arm_of(result, "io_method=method1")
    assert arm.verdict == "inconclusive"
    assert arm.interval == (None, None)
    assert not decided(result)
    assert any("No verdict is possible before 4 blocks" in warning for warning in result.warnings)
    json.dumps(result.model_dump(by_alias=True), allow_nan=False)


def test_without_a_pooled_twin_the_pair_decides_and_needs_six_blocks():
    plan = experiment(pool_twin=False)
    records = simulate(plan, 6, {"s0-1": 0.5})
    assert not decided(analyse(stored(plan, records[:15])))
    assert decided(analyse(stored(plan, records)))


def test_no_trial_at_all_gives_a_result_without_figures():
    plan = experiment()
    result = analyse(stored(plan, []))
    assert result.blocks == 0
    assert arm_of(result, "io_method=method1").ratio is None
    assert result.twin.ok is None
    assert "no block is complete" in result.verdict
    assert not interim_result(stored(plan, [])).decided


def test_an_undecided_arm_says_how_many_more_blocks_it_takes():
    plan = experiment()
    result = analyse(stored(plan, simulate(plan, 5, {"s0-1": 0.01}, spread=0.03)))
    note = arm_of(result, "io_method=method1").note
    assert "more blocks" in note
    assert "until a verdict" in note
    assert "can't be distinguished from io_method=sync yet" in result.verdict


def test_a_twin_that_differs_withholds_verdicts_within_its_range():
    plan = experiment()
    near = analyse(stored(plan, simulate(plan, 20, {"s0-1": 0.12, "s0-2": 0.10})))
    assert near.twin.ok is False
    arm = arm_of(near, "io_method=method1")
    assert arm.withheld
    assert arm.verdict == "inconclusive"
    assert "withheld" in near.verdict
    assert any("differs from the control" in warning for warning in near.warnings)
    far = analyse(stored(plan, simulate(plan, 20, {"s0-1": 0.6, "s0-2": 0.10})))
    assert arm_of(far, "io_method=method1").verdict == "faster"


def test_the_twin_is_not_yet_tested_before_block_8_and_ok_after():
    plan = experiment()
    records = simulate(plan, 10)
    early = analyse(stored(plan, records[:21]))
    assert early.twin.ok is None
    assert any("not yet tested" in warning for warning in early.warnings)
    assert analyse(stored(plan, records)).twin.ok is True


def test_strata_have_their_own_controls_and_twins():
    plan = experiment(strata=("clients=1", "clients=8"))
    result = analyse(stored(plan, simulate(plan, 14, {"s0-1": 0.2, "s1-1": -0.2})))
    assert [twin.stratum for twin in result.twins] == ["clients=1", "clients=8"]
    assert arm_of(result, "io_method=method1 clients=1").verdict == "faster"
    assert arm_of(result, "io_method=method1 clients=8").verdict == "slower"
    assert "within strata" in result.family
    assert "slower than io_method=sync clients=8" in result.verdict


def test_statements_are_a_family_of_their_own():
    plan = experiment(statements=3)
    slow = [
        item.model_copy(
            update={
                "statements": tuple(
                    part.model_copy(update={"elapsed_s": part.elapsed_s * (2 if part.name == "q2" else 1)})
                    for part in item.statements
                )
            }
        )
        if item.arm_id == "s0-1"
        else item
        for item in simulate(plan, 14)
    ]
    result = analyse(stored(plan, slow))
    words = {item.name: item.arms[1].verdict for item in result.statements}
    assert words == {"q1": "equivalent", "q2": "slower", "q3": "equivalent"}
    noisy = analyse(stored(plan, simulate(plan, 6, spread=0.04)))
    assert {item.arms[1].verdict for item in noisy.statements} == {"inconclusive"}
    assert result.statements[1].arms[1].interval[1] < 0.6
    assert [item.aio for item in result.statements] == [False, True, True]
    assert "a second family of 4 " in result.family
    assert "for a difference and for equivalence" in result.family
    assert "e-BH" in result.family


def test_cpu_that_is_as_much_is_equivalent():
    plan = experiment()
    (cpu,) = analyse(stored(plan, simulate(plan, 14))).secondary
    assert cpu.arms[1].verdict == "equivalent"
    assert "uses as much server CPU as" in cpu.arms[1].note


def test_an_effect_that_moved_has_no_interval_and_no_verdict():
    plan = experiment()
    trials = stored(plan, simulate_moving(plan, 40, "s0-1", (0.2, -0.2)))
    result = analyse(trials)
    arm = arm_of(result, "io_method=method1")
    assert (arm.verdict, arm.interval, arm.withheld) == ("inconclusive", None, False)
    assert arm.ratio is not None
    assert arm.note == "the effect moved during the experiment: no single figure fits all blocks"
    assert f"has no verdict against io_method=sync, since {arm.note} (40 blocks)" in result.verdict
    assert interim_result(trials).arms[0].interval is None
    shown = page.page_of(result, trials).terminal(width=120)
    assert "none fits" in shown
    assert "no interval fits all blocks" in page.page_of(result, trials).html()
    jsonschema.validate(json.loads(json_text(result)), schema.COMPARE.schema())


def test_an_experiment_that_stopped_at_its_first_verdict_says_what_that_does_to_the_estimate():
    plan = experiment()
    records = simulate(plan, 12, {"s0-1": math.log(1.2)})
    sentence = "Stopped at the first verdict: the estimate tends to be too large; the interval holds."
    trials = stored(plan, records, "decided")
    result = analyse(trials)
    assert result.estimates == sentence
    assert sentence in page.page_of(result, trials).terminal(width=120)
    assert sentence in page.page_of(result, trials).html()
    assert analyse(stored(plan, records, "blocks")).estimates == ""
    assert analyse(stored(plan, simulate(plan, 25, spread=0.008), "decided")).estimates == ""
    two = experiment(arms=2)
    both = simulate(two, 14, {"s0-1": 0.2, "s0-2": -0.2})
    assert "estimates tend to be too large" in analyse(stored(two, both, "decided")).estimates


def test_server_cpu_is_more_or_less_and_never_faster():
    plan = experiment()
    result = analyse(stored(plan, simulate(plan, 14, {"s0-1": 0.3})))
    (cpu,) = result.secondary
    arm = cpu.arms[1]
    assert arm.verdict == "less"
    assert arm.ratio == pytest.approx(math.exp(-0.3), rel=0.02)
    assert "less server CPU than" in arm.note
    assert "faster" not in arm.note


def test_cpu_is_not_compared_across_builders():
    plan = experiment()
    spec = plan.arms[1].spec
    build = spec.build.model_copy(update={"origin": "installed", "cflags": "-Os"})
    other = plan.arms[1].model_copy(update={"spec": spec.model_copy(update={"build": build})})
    plan = plan.model_copy(update={"arms": (plan.arms[0], other, plan.arms[2])})
    (cpu,) = analyse(stored(plan, simulate(plan, 14, {"s0-1": 0.3}))).secondary
    assert cpu.arms[1].verdict == "inconclusive"
    assert "can't be compared" in cpu.arms[1].note


def test_plans_that_differ_are_a_finding_naming_the_statement():
    plan = experiment()
    base = stored(plan, simulate(plan, 4))
    index_plan = {"Plan": {"Node Type": "Index Only Scan", "Index Name": "pgbench_accounts_pkey"}}
    trials = tuple(
        dataclasses.replace(item, plans={"q1": index_plan, "q2": SCAN_PLAN})
        if item.record.arm_id == "s0-1"
        else item
        for item in base.trials
    )
    result = analyse(dataclasses.replace(base, trials=trials))
    assert result.plans_differ
    told = [warning for warning in result.warnings if "plan of statement" in warning]
    assert len(told) == 1
    assert "q1" in told[0]
    assert "Index Only Scan on pgbench_accounts_pkey" in told[0]
    assert not analyse(base).plans_differ


def test_warnings_of_trials_and_plan_are_passed_on_once():
    plan = experiment().model_copy(update={"warnings": ("from the plan",), "confounds": ("a confound",)})
    regime = "first minute after a checkpoint"
    records = [item.model_copy(update={"warnings": (regime,)}) for item in simulate(plan, 5)]
    result = analyse(stored(plan, records))
    assert result.warnings.count(regime) == 1
    assert "from the plan" in result.warnings
    assert result.confounds == ("a confound",)


def test_a_setting_that_differs_unasked_is_a_confound():
    plan = experiment()
    records = [
        item.model_copy(
            update={"facts": TrialFacts(settings={"jit": "on" if item.arm_id == "s0-1" else "off"})}
        )
        for item in simulate(plan, 5)
    ]
    (confound,) = analyse(stored(plan, records)).confounds
    assert "jit (on against off)" in confound


def test_a_read_ahead_that_differs_unasked_is_a_confound():
    plan = experiment()
    records = []
    for item in simulate(plan, 5):
        device = DeviceFacts(name="sda", read_ahead_kb=4096 if item.arm_id == "s0-1" else 128)
        facts = TrialFacts(storage=StorageFacts(device=device))
        records.append(item.model_copy(update={"facts": facts}))
    (confound,) = analyse(stored(plan, records)).confounds
    assert "the read-ahead of io_method=method1 was 4096 kB" in confound
    assert confound.endswith("128 kB")


def test_failures_are_a_headline():
    plan = experiment()
    records = simulate(plan, 6)
    failed = record(plan, 99, 6, "s0-1", 1.0, status="failed", reason="the server crashed.")
    result = analyse(stored(plan, [*records, failed]))
    assert result.failures == 1
    assert arm_of(result, "io_method=method1").failures == 1
    assert result.warnings[0] == (
        "io_method=method1 failed in 1 trial of 7; the last reason: the server crashed."
    )


def test_a_missing_canary_is_told_and_a_whole_one_is_used():
    plan = experiment(covariate="canary")
    records = simulate(plan, 8)
    without = [*records[:-1], records[-1].model_copy(update={"canary_s": None})]
    assert any("no canary" in warning for warning in analyse(stored(plan, without)).warnings)
    assert not any("no canary" in warning for warning in analyse(stored(plan, records)).warnings)


@pytest.mark.parametrize("name", ["memory", "disk"])
def test_a_reading_before_the_start_is_a_covariate_like_the_canary(name):
    plan = experiment(covariate=name)
    random = np.random.default_rng(9)
    slow = random.random(200) < 0.5
    records = [
        each.model_copy(
            update={
                f"{name}_s": 0.5 if slow[each.number] else 0.1,
                "statements": tuple(
                    one.model_copy(update={"elapsed_s": one.elapsed_s * (1.5 if slow[each.number] else 1.0)})
                    for one in each.statements
                ),
            }
        )
        for each in simulate(plan, 40, {"s0-1": 0.1})
    ]
    adjusted, raw = (
        arm_of(analyse(stored(each, records)), "io_method=method1")
        for each in (plan, experiment(covariate="none"))
    )
    assert adjusted.verdict == "faster"
    assert raw.interval[1] - raw.interval[0] > 2 * (adjusted.interval[1] - adjusted.interval[0])
    lacking = [*records[:-1], records[-1].model_copy(update={f"{name}_s": None})]
    assert any(f"no reading of the {name}" in warning for warning in analyse(stored(plan, lacking)).warnings)


def test_progress_agrees_with_the_result_and_grows_with_the_blocks_alone():
    plan = experiment(statements=6, arms=4, margin=0.02)
    so_far = {blocks: stored(plan, simulate(plan, blocks, {"s0-1": 0.1}, spread=0.03)) for blocks in (10, 60)}
    experiment_so_far = so_far[60]
    now = interim_result(experiment_so_far)
    # Six times the blocks: a quadratic loop would take 36 times as long.
    assert growth(lambda: interim_result(so_far[10]), lambda: interim_result(so_far[60])) < 15
    result = analyse(experiment_so_far)
    assert now.decided == decided(result)
    for shown, arm in zip(now.arms, [arm for arm in result.arms if arm.verdict != "control"], strict=True):
        assert (shown.name, shown.ratio, shown.interval, shown.verdict) == (
            arm.name,
            arm.ratio,
            arm.interval,
            arm.verdict,
        )


def test_contrasts_of_unknown_arms_are_refused():
    plan = experiment()
    broken = plan.model_copy(
        update={"contrasts": (plan.contrasts[0].model_copy(update={"arm_id": "nobody"}),)}
    )
    with pytest.raises(UsageError, match="nobody"):
        analyse(stored(broken, []))
