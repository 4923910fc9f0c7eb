"""What `pgassay diagnose` says of one statement of a running server."""

from typing import Literal

from pgassay.model.base import Frozen
from pgassay.model.plans.explained_plan import ExplainedPlan

PlanFrom = Literal["generic plan", "values of a call", ""]
FindingKind = Literal[
    "whole-table", "foreign-key", "spill", "stale-statistics", "misestimate", "plan", "one-by-one", "pages"
]  # fmt: skip


class StatementFinding(Frozen):
    """Why a statement takes the time that it takes: a sentence, and the SQL that it calls for ('' for none).

    `kind`: a table fully read for few rows, a table that is searched for a foreign key without an index,
    temporary files, statistics that don't know the table, an estimate that the rows refute, what else the
    plan calls for, calls one for each row of another statement, or many pages for few rows without a plan.
    """

    kind: FindingKind
    sentence: str
    sql: str = ""


class DiagnosedStatement(Frozen):
    """A statement that took much of the time, what its plan says, and the command that goes on from here.

    `seconds` are those of its calls within the interval, about; `share`: of all statements' seconds.
    `calls_s`, `mean_ms`, `rows` and `pages` (of a call: rows returned or changed, pages looked at) are None
    where pg_stat_statements doesn't have them. `plan` was never executed, and its literals are left out;
    `plan_from` says whether it is that for any values or for those of a call that was seen, `plan_missing`
    why there is none. `command` is '' where nothing was found.
    """

    query_id: str | None
    query: str
    seconds: float
    share: float
    calls_s: float | None
    mean_ms: float | None
    rows: float | None
    pages: float | None
    waits: dict[str, float]
    findings: tuple[StatementFinding, ...]
    command: str
    plan: ExplainedPlan | None
    plan_from: PlanFrom
    plan_missing: str
