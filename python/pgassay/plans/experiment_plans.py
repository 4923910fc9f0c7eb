"""The plans that an experiment executed after its trials: one of each shape for each arm and statement."""

from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.plans.executed_plan import PlanChanged, StatementPlan, WorkPlan
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_output.find_plans import FoundPlan
from pgassay.plans.explain_plan import explained
from pgassay.plans.explain_versions import notes
from pgassay.plans.plan_comparison import blocks_in_all, what_changed
from pgassay.plans.plan_shape import shape
from pgassay.record.experiment import StoredExperiment, StoredTrial


@dataclass(frozen=True)
class ArmPlan:
    """A statement's plan in an arm: what came of executing it, and the plan as it can be read.

    `plan` has estimates alone where it was not executed, and is None where it can't be read at all.
    """

    arm: Arm
    statement: str
    trial: StoredTrial
    work: WorkPlan
    plan: ExplainedPlan | None

    @property
    def untraced_s(self) -> float | None:
        """The statement's time in the trial after which the plan was executed; None where it has none."""
        timed = (each.least_s for each in self.trial.record.statements if each.name == self.statement)
        return next(timed, None)


def arm_plans(stored: StoredExperiment) -> list[ArmPlan]:
    """The plans of arms and controls by statement, in the plan's order; the twin's tell nothing else.

    Of one arm, statement and shape the one that was executed; else the latest, whose reason says why not.
    """
    found: dict[tuple[str, str, str], tuple[StoredTrial, WorkPlan]] = {}
    for trial in stored.trials:
        if trial.record.status != "ok":
            continue
        for statement, work in trial.work_plans.items():
            key = statement, trial.record.arm_id, shape(trial.plans.get(statement))
            if key not in found or not found[key][1].executed:
                found[key] = trial, work
    # What was executed may have got another plan than the estimate before its trial had.
    executed = {
        (statement, arm_id, shape(work.document)): key
        for key, (_, work) in reversed(found.items())
        for statement, arm_id, _ in (key,)
        if work.executed
    }
    found = {key: made for key, made in found.items() if not made[1].executed or key in executed.values()}
    statements = dict.fromkeys(statement for statement, _, _ in found)
    return [
        ArmPlan(arm, statement, trial, work, _read(trial, statement, work))
        for statement in statements
        for arm in stored.experiment.arms
        if arm.role != "twin"
        for (name, arm_id, _), (trial, work) in found.items()
        if name == statement and arm_id == arm.id
    ]


def _read(trial: StoredTrial, statement: str, work: WorkPlan) -> ExplainedPlan | None:
    document = work.document or trial.plans.get(statement)
    if not isinstance(document, dict):
        return None
    try:
        return explained(FoundPlan(document, "json"), 1, f"the plan of {statement}")
    except UsageError:
        # One with more nodes than are read stays in its file.
        return None


def explained_plans(stored: StoredExperiment) -> list[ExplainedPlan]:
    """Every plan of `arm_plans`, each with its statement's and its arm's name in the place of the SQL.

    Where no trial was followed by its plans, those with estimates alone that were read before the trials.
    Raises UsageError where there are none either.
    """
    found = [
        (f"{each.statement}, {each.arm.name}", _sql_of(each.arm, each.statement), each.plan)
        for each in arm_plans(stored)
        if each.plan
    ]
    if not found:
        arms = {arm.id: arm for arm in stored.experiment.arms if arm.role != "twin"}
        estimates = {
            (trial.record.arm_id, statement, shape(document)): trial
            for trial in stored.trials
            if trial.record.status == "ok" and trial.record.arm_id in arms
            for statement, document in trial.plans.items()
        }
        found = [
            (f"{statement}, {arms[arm_id].name}", _sql_of(arms[arm_id], statement), plan)
            for (arm_id, statement, _), trial in estimates.items()
            if (plan := _read(trial, statement, WorkPlan(executed=False)))
        ]
    if not found:
        raise UsageError(f"{stored.folder} has no statement plans: name a file that has one")
    return [
        plan.model_copy(update={"number": number, "statement": statement, "sql": sql})
        for number, (statement, sql, plan) in enumerate(found, start=1)
    ]


def _sql_of(arm: Arm, statement: str) -> str | None:
    return next((each.sql for each in arm.spec.workload.statements if each.name == statement), None)


def statement_plans(stored: StoredExperiment) -> tuple[StatementPlan, ...]:
    """The same as the document for scripts has them."""
    return tuple(
        StatementPlan(
            statement=each.statement,
            arm=each.arm.name,
            stratum=each.arm.stratum,
            executed=each.work.executed,
            reason=each.work.reason,
            trial=each.trial.record.number,
            cache=each.work.cache,
            kind=each.work.kind,
            rolled_back=each.work.rolled_back,
            seconds=each.work.seconds,
            untraced_s=each.untraced_s,
            planning_ms=each.plan.planning_ms if each.plan else None,
            execution_ms=each.plan.execution_ms if each.plan else None,
            nodes=each.plan.nodes if each.plan else (),
            findings=tuple(finding.sentence for finding in each.plan.findings) if each.plan else (),
        )
        for each in arm_plans(stored)
    )


def changed_plans(stored: StoredExperiment) -> tuple[PlanChanged, ...]:
    """For each contrast and statement whose executed plans differ in what they do, what changed."""
    plans = arm_plans(stored)
    latest = {(each.arm.id, each.statement): each for each in plans if each.work.executed}
    arms = {arm.id: arm for arm in stored.experiment.arms}
    changes = []
    for statement in dict.fromkeys(each.statement for each in plans):
        for contrast in stored.experiment.contrasts:
            mine, theirs = (latest.get((name, statement)) for name in (contrast.control_id, contrast.arm_id))
            if mine is None or theirs is None or mine.plan is None or theirs.plan is None:
                continue
            changed = what_changed(mine.plan, theirs.plan)
            in_all = blocks_in_all(mine.plan, theirs.plan, even_little=bool(changed))
            if changed or in_all:
                arm = arms[contrast.arm_id]
                changes.append(
                    PlanChanged(
                        statement=statement,
                        arm=arm.name,
                        control=arms[contrast.control_id].name,
                        stratum=arm.stratum,
                        sentences=(*in_all, *changed),
                        notes=tuple(notes(mine.plan, theirs.plan)),
                    )
                )
    return tuple(changes)
