"""A plan that was executed once after a trial of its arm: as it is stored, and as `--json` prints it."""

from typing import Literal

from pgassay.model.base import Frozen, Number
from pgassay.model.plans.explained_plan import PlanNode

WORK_PLANS_FORMAT = 1
# Of a prepared statement: planned for the values at hand, or once for all values.
PreparedKind = Literal["custom", "generic"]


class WorkPlan(Frozen):
    """What came of executing a statement under EXPLAIN ANALYZE after a trial had been measured.

    `executed` False: `reason` says why not; `deferred`: only for now, since it would have taken too long, so
    that a later trial of the arm may. `seconds`: what it took by the clock. `cache`: the caches that it
    found; 'as-left' is as the trial left them, whatever the protocol's state before it, 'restarted' those of
    a server that was started on restored data. `document`: what EXPLAIN (ANALYZE, FORMAT JSON) printed.
    `rolled_back`: it could write, in a transaction that was rolled back. `kind`: of a prepared statement, as
    the measured sessions execute it; None where nothing is prepared.
    """

    executed: bool
    reason: str = ""
    deferred: bool = False
    seconds: float = 0.0
    cache: str = ""
    document: dict[str, object] | None = None
    rolled_back: bool = False
    kind: PreparedKind | None = None


class WorkPlans(Frozen):
    """work_plans.json: the statements that were due after a trial, by name."""

    format: int = WORK_PLANS_FORMAT
    statements: dict[str, WorkPlan]


class StatementPlan(Frozen):
    """One statement's plan in one arm; a further entry where its shape changed between trials.

    `executed` False: `reason` says why not, and the nodes have estimates alone. `trial`: the number of the
    trial after which it was executed; `untraced_s` is the statement's own time in that trial, without
    ANALYZE. `seconds`: what executing it took of the experiment's time. `findings`: what is worth a look, as
    sentences. `kind`: 'generic' or 'custom' of a prepared statement, None where nothing is prepared.
    `rolled_back`: it could write, in a transaction that was rolled back on data that were restored.
    """

    statement: str
    arm: str
    stratum: str = ""
    executed: bool
    reason: str = ""
    trial: int
    cache: str = ""
    kind: PreparedKind | None = None
    rolled_back: bool = False
    seconds: Number = 0.0
    untraced_s: Number | None = None
    planning_ms: float | None = None
    execution_ms: float | None = None
    nodes: tuple[PlanNode, ...] = ()
    findings: tuple[str, ...] = ()


class PlanChanged(Frozen):
    """What the executed plan of a statement does otherwise in an arm than in its control, in sentences.

    A is the control's plan, B the arm's. `notes`: what the two versions print differently, so that it is no
    difference of the plans.
    """

    statement: str
    arm: str
    control: str
    stratum: str = ""
    sentences: tuple[str, ...]
    notes: tuple[str, ...] = ()
