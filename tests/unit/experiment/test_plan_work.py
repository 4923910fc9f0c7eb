"""Which plans are due after a trial, and how long they may take: a function of the records alone."""

from pathlib import Path
from typing import Any

from plans_for_tests import make_experiment, make_record

from pgassay.design.schedule import next_step
from pgassay.experiment.running.loop import PLANS_SHARE_MAX, budget_s, plan_work
from pgassay.model.experiment import Experiment, PlanKind
from pgassay.model.plans.executed_plan import WorkPlan
from pgassay.model.trial import TrialStatus
from pgassay.record.experiment import StoredTrial


def experiment_with(plans: PlanKind) -> Experiment:
    made = make_experiment(["work_mem=4MB,64MB"])
    return made.model_copy(update={"protocol": made.protocol.model_copy(update={"plans": plans})})


EXPERIMENT = experiment_with("work")


def scan(node: str) -> dict[str, Any]:
    return {"Plan": {"Node Type": node, "Relation Name": "t", "Plan Rows": 10}}


def trial(
    arm_id: str, work: dict[str, WorkPlan], node: str = "Seq Scan", status: TrialStatus = "ok", **changes: Any
) -> StoredTrial:
    record = make_record(next_step(EXPERIMENT, ()).spec, status).model_copy(
        update={"arm_id": arm_id, **changes}
    )
    return StoredTrial(record, dict.fromkeys(work, scan(node)), Path("trial"), work)


EXECUTED = WorkPlan(executed=True, document=scan("Seq Scan"))


def due(trials: list[StoredTrial], arm_id: str, node: str = "Seq Scan", statement: str = "q") -> bool:
    work = plan_work(EXPERIMENT, trials, arm_id)
    assert work is not None
    return work.is_due(statement, scan(node))


def test_a_plan_is_due_once_per_arm_statement_and_shape() -> None:
    assert due([], "a")
    trials = [trial("a", {"q": EXECUTED})]
    assert not due(trials, "a")
    assert due(trials, "b")
    assert due(trials, "a", statement="r")
    assert due(trials, "a", node="Index Scan")
    assert not due([*trials, trial("a", {"q": EXECUTED}, "Index Scan")], "a", node="Index Scan")


def test_what_can_never_be_executed_is_not_asked_again_and_what_took_too_long_is() -> None:
    refused = WorkPlan(executed=False, reason="it could write: it is an INSERT")
    deferred = WorkPlan(executed=False, reason="it would take about 9 s", deferred=True)
    assert not due([trial("a", {"q": refused})], "a")
    assert due([trial("a", {"q": deferred})], "a")


def test_a_trial_that_does_not_count_counts_for_no_plan() -> None:
    assert due([trial("a", {"q": EXECUTED}, status="interrupted")], "a")


def test_nothing_is_executed_where_estimates_were_asked_for() -> None:
    assert plan_work(experiment_with("estimate"), [], "a") is None
    assert plan_work(experiment_with("off"), [], "a") is None


def test_a_twin_executes_nothing() -> None:
    by_role = {arm.role: plan_work(EXPERIMENT, [], arm.id) for arm in EXPERIMENT.arms}
    assert by_role["twin"] is None
    assert by_role["control"] is not None and by_role["arm"] is not None


def test_plans_stay_below_a_tenth_of_the_least_that_the_experiment_takes() -> None:
    arms = len(EXPERIMENT.arms)
    one_block = EXPERIMENT.model_copy(
        update={"contract": EXPERIMENT.contract.model_copy(update={"blocks_max": 1, "time_max_s": 900.0})}
    )
    assert budget_s(one_block, [], 2.0) == PLANS_SHARE_MAX * arms * 2.0
    short = EXPERIMENT.model_copy(
        update={"contract": EXPERIMENT.contract.model_copy(update={"blocks_max": 60, "time_max_s": 5.0})}
    )
    assert budget_s(short, [], 2.0) == PLANS_SHARE_MAX * 5.0


def test_the_least_of_an_experiment_of_starts_is_three_of_them() -> None:
    contract = EXPERIMENT.contract.model_copy(update={"blocks_max": 60, "time_max_s": 900.0, "unit": "start"})
    starts = EXPERIMENT.model_copy(update={"contract": contract})
    assert round(budget_s(starts, [], 2.0) - PLANS_SHARE_MAX * 3 * len(EXPERIMENT.arms) * 2.0, 9) == 0


def test_what_plans_took_is_taken_off_and_time_gives_more() -> None:
    least = budget_s(EXPERIMENT, [], 2.0)
    spent = [trial("a", {"q": EXECUTED}, wall_s=2.0, plans_s=0.4)]
    assert abs(budget_s(EXPERIMENT, spent, 2.0) - (least - 0.4)) < 1e-9
    long = [trial("a", {}, wall_s=2.0) for _ in range(1000)]
    assert budget_s(EXPERIMENT, long, 2.0) > 100 > least


def test_a_trial_is_not_longer_for_its_plans() -> None:
    record = trial("a", {"q": EXECUTED}, wall_s=2.0, plans_s=0.4).record
    assert record.took_s == 2.0
