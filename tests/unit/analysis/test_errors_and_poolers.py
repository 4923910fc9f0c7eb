"""What the server refused and what a pooler did, per arm: counted over the trials, shown by every report."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cause_samples import FULL_POOLER, evidence, load_arm, load_record, paced_record, pooled_record
from load_records import write_load
from pgassay.analysis.causes.evidence import Processors
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.descriptive.errors_and_poolers import arm_errors
from pgassay.analysis.redaction.redacted_experiment import redacted
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.arm import Arm, PoolerSpec
from pgassay.model.trial import StatementObservation
from pgassay.model.workload import PoolerUse
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import brief_page, page_of

REFUSED = {"failures": {"40P01": 3, "40001": 1}, "failure_examples": {"40P01": "deadlock\x1b[2J detected"}}
USE = PoolerUse(
    version="1.18.0",
    size=20,
    elapsed_s=4.0,
    cpu_s=3.2,
    waited_s=0.5,
    transactions=64_000,
    client_wait_s=128.0,
    server_connections_max=17,
    waiting_clients_max=180,
)


def with_load(
    stored: StoredExperiment, of_arm: Callable[[Arm], dict[str, Any]], **spec: object
) -> StoredExperiment:
    """The stored experiment, in which the loads of some arms say more."""
    arms = {arm.id: arm for arm in stored.experiment.arms}
    changed = {each: arm for each, arm in arms.items() if of_arm(arm)}
    trials = []
    for trial in stored.trials:
        record = trial.record
        if record.arm_id in changed and record.load is not None:
            load = record.load.model_copy(update=of_arm(arms[record.arm_id]))
            trial = replace(trial, record=record.model_copy(update={"load": load}))
        trials.append(trial)
    made = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update=spec)}) if arm.id in changed else arm
        for arm in arms.values()
    )
    return replace(
        stored, trials=tuple(trials), experiment=stored.experiment.model_copy(update={"arms": made})
    )


def of_arms(arm: Arm) -> dict[str, Any]:
    return REFUSED if arm.role == "arm" else {}


def shown(stored: StoredExperiment) -> tuple[str, str, str]:
    page = page_of(analyse(stored), stored)
    return page.terminal(width=120), page.markdown(), page.html()


def test_failed_transactions_are_told_by_sqlstate_with_the_first_message(tmp_path: Path) -> None:
    stored = with_load(write_load(tmp_path / "x", strata=[""], blocks=2), of_arms)
    result = analyse(stored)
    found = {each.sqlstate: each for each in result.errors}
    assert [(each.arm, each.failed) for each in result.errors] == [
        ("io_method=worker", 2),
        ("io_method=worker", 6),
    ]
    done = sum(each.record.load.transactions for each in stored.trials if each.record.arm_id == "arm-001")
    assert found["40P01"].share == pytest.approx(6 / (done + 8))
    for text in shown(stored):
        assert "Failed transactions" in text and "40P01" in text and "detected" in text
        assert "\x1b" not in text
    for text in shown(write_load(tmp_path / "clean", strata=[""], blocks=2)):
        assert "Failed transactions" not in text


def test_a_clean_result_has_no_new_keys(tmp_path: Path) -> None:
    document = analyse(write_load(tmp_path / "x", strata=[""], blocks=2)).model_dump()
    assert "errors" not in document and "poolers" not in document


def test_failures_of_statements_are_counted_by_statement(tmp_path: Path) -> None:
    stored = write_load(tmp_path / "x", strata=[""], blocks=1)
    refused = StatementObservation(
        name="pay", elapsed_s=1.0, rows=0, cold=False, aio=False, at_once=8, failures={"23505": 2}
    )
    trials = [
        replace(each, record=each.record.model_copy(update={"statements": (refused,), "load": None}))
        for each in stored.trials
    ]
    found = arm_errors(replace(stored, trials=tuple(trials)))
    assert [each.name for each in found] == ["pay"] * 3
    assert any(each.arm.startswith("twin (") for each in found)
    assert {(each.failed, each.share) for each in found} == {(2, 0.2)}


def test_what_servers_said_is_left_out_of_what_is_shared(tmp_path: Path) -> None:
    stored = redacted(with_load(write_load(tmp_path / "x", strata=[""], blocks=1), of_arms))
    loads = [each.record.load for each in stored.trials if each.record.load is not None]
    assert all(not load.failure_examples for load in loads)
    assert any(load.failures for load in loads)


def test_a_pooler_s_core_and_waits_are_shown(tmp_path: Path) -> None:
    pooler = PoolerSpec(text="pgbouncer:mode=transaction", mode="transaction")
    stored = with_load(
        write_load(tmp_path / "x", strata=[""], blocks=2),
        lambda arm: {"pooler": USE} if arm.role == "arm" else {},
        pooler=pooler,
    )
    (found,) = analyse(stored).poolers
    assert (found.arm, found.pooler, found.trials) == ("io_method=worker", "pgbouncer:mode=transaction", 2)
    assert (found.busy, found.processors) == (pytest.approx(0.925), pytest.approx(0.8))
    assert (found.cpu_us, found.wait_ms, found.is_full) == (pytest.approx(50.0), pytest.approx(2.0), True)
    for text in shown(stored):
        assert "17 of at most 20" in text and "92 % (full)" in text and "PgBouncer 1.18.0" in text
    brief = " ".join(brief_page(analyse(stored), stored).terminal(width=120).split())
    assert "PgBouncer itself took 50.0 µs of CPU per transaction in io_method=worker" in brief
    assert "busy 92 % of the time: full), apart from the server's." in brief


def test_a_pooler_that_gets_no_processor_is_not_blamed() -> None:
    planted = FULL_POOLER[0] | {"processors": Processors(2.0, 20.0, 19.0, 0.5)}
    causes = trial_causes(evidence(**planted | {"record": pooled_record(3.0, 6.5)}))
    assert causes.limit is None or causes.limit[0].cause != "pooler-core"


def test_clients_that_pause_are_no_limit() -> None:
    arm = load_arm()
    workload = arm.spec.workload
    assert workload.load is not None
    pausing = workload.load.model_copy(update={"think_s": 0.01})
    spec = arm.spec.model_copy(update={"workload": workload.model_copy(update={"load": pausing})})
    planted = {"client_s": 60.0, "cpu_s": 5.0, "total_s": 80.0, "record": load_record()}
    for each, cause in ((arm, "client-bound"), (arm.model_copy(update={"spec": spec}), "offered-load")):
        causes = trial_causes(evidence(**planted, arm=each))
        assert causes.limit is not None and causes.limit[0].cause == cause


@pytest.mark.parametrize(("queued", "cause"), [(0, "offered-load"), (500, "client-bound")])
def test_clients_with_nothing_due_are_no_limit(queued: int, cause: str) -> None:
    planted = {"client_s": 60.0, "cpu_s": 5.0, "total_s": 80.0, "record": paced_record(queued)}
    causes = trial_causes(evidence(**planted, arm=load_arm()))
    assert causes.limit is not None and causes.limit[0].cause == cause
