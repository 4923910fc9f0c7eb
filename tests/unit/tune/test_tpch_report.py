"""What the bench of TPC-H says of an experiment: means over given statements, intervals from blocks."""

import sys
from collections.abc import Mapping

import numpy as np
import pytest

import analysis_samples as samples
from pgassay.errors import UsageError
from pgassay.model.trial import StatementObservation
from pgassay.model.workload import Statement
from pgassay.record.experiment import StoredExperiment
from project_files import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "tpch"))
from tpch_report import FACTOR, geometric_means, mean_between, print_report, t_interval


def _experiment(ratios: Mapping[str, float], blocks: int, spread: float) -> StoredExperiment:
    """A control, an arm that takes `ratios` times as long by statement, and a twin, with noise of trials."""
    plan = samples.experiment(statements=0)
    work = samples.workload(1).model_copy(
        update={"statements": tuple(Statement(name=name, sql="SELECT 1") for name in ratios)}
    )
    arms = tuple(
        arm.model_copy(
            update={
                "levels": {FACTOR: "tune" if arm.role != "arm" else "peers"},
                "spec": arm.spec.model_copy(update={"workload": work}),
            }
        )
        for arm in plan.arms
    )
    contract = plan.contract.model_copy(update={"metric": work.metric})
    plan = plan.model_copy(update={"arms": arms, "contract": contract})
    random, records = np.random.default_rng(5), []
    for block in range(blocks):
        for arm in arms:
            noise = float(np.exp(random.normal(0, spread)))
            seen = tuple(
                StatementObservation(
                    name=name, rows=1, cold=False, aio=False,
                    elapsed_s=0.01 * noise * (ratio if arm.role == "arm" else 1.0),
                )
                for name, ratio in ratios.items()
            )  # fmt: skip
            records.append(samples.record(plan, len(records), block, arm.id, 1.0, statements=seen))
    return samples.stored(plan, records)


def test_the_geometric_mean_is_of_given_statements_and_its_interval_of_blocks() -> None:
    """One statement is 100 times as fast, one as fast: that they lie apart makes the mean no less certain."""
    apart = geometric_means(_experiment({"q1": 100.0, "q2": 1.0}, 10, 0.01))["peers"]
    alike = geometric_means(_experiment({"q1": 10.0, "q2": 10.0}, 10, 0.01))["peers"]
    assert apart.ratio == pytest.approx(0.1, rel=0.02)
    for ends, others in ((apart.interval, alike.interval), (apart.fixed, alike.fixed)):
        assert (ends.lower, ends.upper) == pytest.approx((others.lower, others.upper))
        assert ends.lower < 0.1 < ends.upper < 0.12
    # Two sets of a statement's values count as one statement.
    sets = geometric_means(_experiment({"q1 [1]": 100.0, "q1 [2]": 100.0, "q2": 1.0}, 10, 0.01))["peers"]
    assert sets.ratio == pytest.approx(apart.ratio)


def test_two_arms_are_compared_where_neither_is_the_control() -> None:
    stored = _experiment({"q1": 3.0, "q2": 2.0}, 10, 0.01)
    there, back = mean_between(stored, "peers", "tune"), mean_between(stored, "tune", "peers")
    assert there is not None
    assert back is not None
    assert there.ratio == pytest.approx(6**-0.5, rel=0.02)
    assert there.ratio * back.ratio == pytest.approx(1)
    assert (there.interval.lower, there.interval.upper) == pytest.approx(
        (1 / back.interval.upper, 1 / back.interval.lower)
    )
    # Without the twin's trials and at a shared level there is less to go by.
    of_the_control = geometric_means(stored)["peers"].interval
    assert there.interval.lower < of_the_control.lower < of_the_control.upper < there.interval.upper
    assert mean_between(stored, "peers", "nobody") is None


def test_students_interval_of_few_blocks_covers_as_it_says() -> None:
    random = np.random.default_rng(3)
    misses = 0
    for _ in range(4000):
        ends = t_interval(random.normal(0.2, 0.1, 8), 0.05)
        misses += not ends.lower < np.exp(0.2) < ends.upper
    # 5 %, and three standard errors of a share of 4000 draws.
    assert abs(misses / 4000 - 0.05) < 3 * (0.05 * 0.95 / 4000) ** 0.5
    assert t_interval(np.array([0.1]), 0.05).upper == float("inf")


def test_the_report_has_a_line_for_each_statement_and_says_whether_the_interval_lies_below_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    faster, same = _experiment({"q1": 3.0, "rf1": 2.0}, 10, 0.01), _experiment({"q1": 1.0}, 10, 0.01)
    assert (print_report(faster, "peers", "tune"), print_report(same, "peers", "nobody")) == (0, 1)
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()]
    (written,) = [[float(cell) for cell in row[1:]] for row in rows if row[:1] == ["rf1"]]
    assert written == pytest.approx([10.0, 20.0], rel=0.05)
    assert "geometric mean 0.4" in said
    assert "time with tune over time with peers: geometric mean 0.4" in said
    with pytest.raises(UsageError, match="no arm"):
        print_report(same, "nobody", "tune")
