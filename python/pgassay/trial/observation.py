"""What a measurement hands to the record."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgassay.model.maintenance import MaintenanceObservation
from pgassay.model.plans.work import WorkPlan
from pgassay.model.trial import LoadObservation, StatementObservation

# A plan, or one node of it, as EXPLAIN (FORMAT JSON) gives it.
Plan = Mapping[str, object]


@dataclass
class Observation:
    """The raw outcome of a measurement, before it is verified.

    `files` are further observation files by name; `plans` maps a statement to its EXPLAIN document,
    `work_plans` those that were due to be executed after the trial to what came of it.
    """

    statements: list[StatementObservation] = field(default_factory=list)
    load: LoadObservation | None = None
    maintenance: list[MaintenanceObservation] = field(default_factory=list)
    clock_ns: tuple[int, int] | None = None
    plans: dict[str, Plan] = field(default_factory=dict)
    work_plans: dict[str, WorkPlan] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
