"""Statements executed by clients at once: how often, in which order, and what the record says of them."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pgassay.errors import MeasurementError
from pgassay.model.experiment import Protocol
from pgassay.model.workload import Statement, TransactionPart, WorkloadSpec
from pgassay.native.mix import MixExecution, MixFailure, MixStatement
from pgassay.trial.measure import mix
from pgassay.workloads.registry import parse_workload

MIX = parse_workload("full-scan:only=count+sum").model_copy(update={"clients": 4, "writes": True})


def test_each_session_has_several_and_the_protocol_says_more() -> None:
    assert mix.executions_of(MIX, {}) == {"count": 8, "sum": 8}
    assert mix.executions_of(MIX.model_copy(update={"clients": 50}), {}) == {"count": 100, "sum": 100}
    assert mix.executions_of(MIX.model_copy(update={"executions": 30}), {"sum": 2}) == {"count": 30, "sum": 2}


def test_the_order_is_the_block_s_and_has_every_execution() -> None:
    orders = [mix.order_of({"count": 30, "sum": 5}, block) for block in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert all(Counter(order) == {0: 30, 1: 5} for order in orders)


def ran(
    executions: list[MixExecution],
    monkeypatch: pytest.MonkeyPatch,
    workload: WorkloadSpec = MIX,
    **limits: float,
) -> Any:
    """What is observed of these executions, and what the native binary was asked (its answers are given)."""
    asked: list[Any] = []

    def answered(*given: Any) -> tuple[list[MixExecution], list[MixFailure]]:
        asked.append(given)
        states = dict.fromkeys((each.statement, each.sqlstate) for each in executions if each.sqlstate)
        return executions, [MixFailure(number, str(state), f"said {state}") for number, state in states]

    monkeypatch.setattr(mix, "run_mix", answered)
    spec = SimpleNamespace(workload=workload, build=SimpleNamespace(major=18))
    protocol = Protocol(cache="warm-pages", statement_limits=limits)
    observed = mix.run(SimpleNamespace(parameters=dict), spec, protocol, 3, {})  # type: ignore[arg-type]
    return observed, asked[0]


def execution(statement: int, begin_s: float, end_s: float, outcome: Any = "ended") -> MixExecution:
    state = {"given-up": "40P01", "failed": "23505"}.get(outcome)
    return MixExecution(statement, round(begin_s * 1e9), round(end_s * 1e9), 7, outcome, sqlstate=state)


def test_the_mean_counts_and_the_whole_interval_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    executions = [
        execution(0, 1.0, 1.5),
        execution(0, 1.2, 2.7),
        execution(0, 1.3, 1.4, "given-up"),
        execution(0, 1.3, 1.4, "failed"),
        execution(0, 1.3, 1.4, "failed"),
        execution(1, 2.0, 2.1, "stopped"),
    ]
    observed, (_, statements, order, sessions, before) = ran(executions, monkeypatch, sum=0.1)
    count, total = observed.statements
    assert (count.elapsed_s, count.at_once, count.stopped, count.rows) == (pytest.approx(1.0), 2, False, 7)
    assert (total.elapsed_s, total.at_once, total.stopped) == (0.1, 1, True)
    assert observed.clock_ns == (1_000_000_000, 2_700_000_000)
    assert count.failures == {"23505": 2, "40P01": 1} and total.failures == {}
    assert "3 of 5 executions failed" in observed.warnings[0]
    assert "2 × 23505 (said 23505), 1 × 40P01 (said 40P01)" in observed.warnings[0]
    assert sessions == 4 and Counter(order) == {0: 8, 1: 8}
    assert statements[1] == MixStatement("sum", MIX.statements[1].sql, False, 100)
    assert before == ["EXPLAIN " + each.sql for each in MIX.statements]


def test_a_statement_that_is_always_given_up_fails_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementError, match="cancelled every execution of sum"):
        ran([execution(0, 0, 1), execution(1, 0, 1, "given-up")], monkeypatch)


def test_what_writes_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = MIX.statements[0].model_copy(update={"sql": "UPDATE t SET x = 1"})
    spec: WorkloadSpec = MIX.model_copy(update={"statements": (changed, MIX.statements[1])})
    _, (_, statements, *_) = ran([execution(0, 0, 1), execution(1, 0, 1)], monkeypatch, spec)
    assert [each.rolled_back for each in statements] == [True, False]


def test_a_transaction_is_one_execution_whose_statements_have_their_means(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = tuple(
        TransactionPart(name=name, sql=sql)
        for name, sql in (("BEGIN", "BEGIN"), ("add", "UPDATE t SET x = 1"), ("COMMIT", "COMMIT"))
    )
    transfer = Statement(name="transfer", sql="BEGIN; UPDATE t SET x = 1; COMMIT", parts=parts)
    spec: WorkloadSpec = MIX.model_copy(update={"statements": (transfer, MIX.statements[1])})
    executions = [
        MixExecution(0, 0, 40, 1, "ended", parts_ns=(1, 20, 9)),
        MixExecution(0, 0, 60, 1, "ended", parts_ns=(3, 30, 11)),
        execution(1, 0, 1),
    ]
    observed, (_, statements, _, _, before) = ran(executions, monkeypatch, spec)
    assert observed.statements[0].parts_s == pytest.approx({"BEGIN": 2e-9, "add": 25e-9, "COMMIT": 10e-9})
    assert observed.statements[0].elapsed_s == pytest.approx(50e-9)
    # It commits itself, and nothing around it is rolled back.
    assert statements[0].parts == tuple({"name": part.name, "sql": part.sql} for part in parts)
    assert not statements[0].rolled_back and before == ["EXPLAIN " + MIX.statements[1].sql]
