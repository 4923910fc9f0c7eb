"""The threshold of a gate, and how the evidence of several runs adds up."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.analysis.gate.detector import EarlierRun, detector_state, earlier_runs, rule_of, suspected
from pgassay.analysis.gate.units import combined
from pgassay.model.gates.gate import GatedSystem, GateResult, GateUnit, GateWorkload

SIDE = GatedSystem(kind="file", name="gate.toml")


def night(log_evidence: float, *, alarm: bool = False, log_ratio: float = 0.0) -> EarlierRun:
    return EarlierRun(
        run=f"night of {log_evidence}",
        log_evidence=log_evidence,
        log_ratio=log_ratio,
        standard_error=0.01,
        is_alarm=alarm,
    )


def test_the_threshold_is_that_of_two_false_alarms_a_year_over_all_units():
    rule = rule_of(50)
    assert rule.threshold == 50 * 365 / 2
    assert rule.level == 2 / rule.threshold
    assert rule_of(50, runs_per_year=36.5).threshold == pytest.approx(rule.threshold / 10)
    assert rule_of(1, runs_per_year=1, false_alarms_per_year=10).threshold == 20
    with pytest.raises(ValueError, match="above 0"):
        rule_of(0)


def test_without_earlier_runs_a_run_counts_alone():
    assert detector_state([]).log_earlier == 0
    assert suspected(detector_state([]), 3.0) == ()


def test_runs_add_up_as_shiryaev_and_roberts_have_it():
    evidences = [0.5, -1.0, 2.0, 0.25]
    r = 0.0
    for evidence in evidences:
        r = (1 + r) * math.exp(evidence)
    standing = detector_state([night(evidence) for evidence in evidences])
    assert standing.log_earlier == pytest.approx(math.log1p(r))
    # The sum of the products from every beginning to now.
    products = [math.exp(sum(evidences[first:])) for first in range(len(evidences))]
    assert math.expm1(standing.log_earlier) == pytest.approx(sum(products))


@given(st.lists(st.floats(-50, 50), max_size=30))
def test_what_was_before_an_alarm_counts_no_more(evidences):
    after = [night(1.0), night(-0.5)]
    before = [night(evidence) for evidence in evidences]
    with_alarm = detector_state([*before, night(9.0, alarm=True), *after])
    assert with_alarm == detector_state(after)
    assert math.isfinite(detector_state(before * 20).log_earlier)


def test_a_slow_down_is_dated_from_the_run_since_which_the_evidence_grows():
    standing = detector_state([night(-2.0), night(-1.0), night(3.0), night(2.5)])
    assert [run.log_evidence for run in suspected(standing, 2.0)] == [3.0, 2.5]
    assert suspected(detector_state([night(-2.0)]), 2.0) == ()


def test_estimates_are_weighed_by_their_precision():
    sure = replace(night(1.0, log_ratio=-0.06), standard_error=0.001)
    assert combined(-0.02, 0.1, [sure]) == pytest.approx(-0.06, abs=1e-4)
    assert combined(-0.02, None, []) == -0.02
    assert combined(-0.02, None, [sure]) == pytest.approx(-0.06)


def stored(finding: str, log_evidence: float, *, baseline: str = "a") -> GateResult:
    unit = GateUnit(
        workload="w", statement="q", unit="s", better="lower", margin=0.03, ratio=0.98, interval=None,
        finding=finding, blocks=9, log_evidence=log_evidence, standard_error=0.01,
    )  # fmt: skip
    workload = GateWorkload(
        name="w", workload="sql:w.sql", folder="w", margin=0.03, time_max_s=60, blocks=9, trials=27,
        seconds=60, stopped="max-time", promise="", baseline=baseline,
    )  # fmt: skip
    return GateResult(
        schema=1, pgassay_version="0", created_at="2026-01-01T00:00:00+00:00", file="gate.toml", folder=".",
        baseline=SIDE, change=SIDE, rule=rule_of(2), outcome="none found", exit_code=0, verdict="",
        units=(unit,), workloads=(workload,),
    )  # fmt: skip


def test_only_runs_against_the_same_baseline_count():
    gates = [stored("none found", 1.0, baseline="b"), *(stored("none found", each) for each in (2.0, 3.0))]
    found = earlier_runs(gates, {"w": "a"})[("w", "q")]
    assert [run.log_evidence for run in found] == [2.0, 3.0]
    # Another baseline in between begins anew.
    assert earlier_runs([*gates, stored("none found", 9.0, baseline="b")], {"w": "a"}) == {}
    assert earlier_runs(gates, {"other": "a"}) == {}


def test_a_run_in_doubt_counts_only_against_a_slow_down():
    found = earlier_runs([stored("undecided", 5.0), stored("undecided", -5.0)], {"w": "a"})[("w", "q")]
    assert [run.log_evidence for run in found] == [0.0, -5.0]


def test_an_alarm_is_remembered_as_one():
    found = earlier_runs([stored("slow-down", 12.0), stored("within the margin", 12.0)], {"w": "a"})
    assert [run.is_alarm for run in found["w", "q"]] == [True, False]
