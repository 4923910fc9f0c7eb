"""Each statement once on a copy in either version: does it run, are its rows the same, which plan has it?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import psycopg

from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.running.result_bag import Bag
from pgassay.model.arm import ArmSpec
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.workload import Statement
from pgassay.plans.plan_comparison import what_changed
from pgassay.tune.copy import TrialCopy

OnStage = Callable[[str, float | None], None]
# A statement may take so much of the time given.
_SHARE_MAX, _LEAST_S = 0.1, 5.0


@dataclass
class SeenInVersion:
    """What one version made of the statements, by name: rows and plans, or the server's words.

    `varies`: returned other rows when it ran once more.
    """

    rows: dict[str, Bag] = field(default_factory=dict)
    varies: set[str] = field(default_factory=set)
    plans: dict[str, ExplainedPlan] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedStatement:
    """A statement on both versions: an error of each or '', whether the rows are the same, the plan.

    `varies`: its rows are others each time that it runs, so that they can't be compared.
    """

    before_error: str
    after_error: str
    same_rows: bool
    rows: tuple[int, int]
    plan: tuple[str, ...]
    varies: bool = False


def run_on_both(
    specs: tuple[ArmSpec, ArmSpec],
    cache: str,
    statements: Sequence[Statement],
    max_time_s: float,
    on_stage: OnStage,
) -> dict[str, ComparedStatement]:
    """Run every statement in both versions; `specs`: of the old one and of the new one."""
    timeout_s = max(_LEAST_S, _SHARE_MAX * max_time_s)
    before, after = (_seen(spec, cache, statements, timeout_s, on_stage) for spec in specs)
    return dict(_compared(statements, before, after))


def _seen(
    spec: ArmSpec, cache: str, statements: Sequence[Statement], timeout_s: float, on_stage: OnStage
) -> SeenInVersion:
    found = SeenInVersion()
    with TrialCopy(spec, cache=cache, statement_timeout_s=timeout_s, on_stage=on_stage) as copy:
        for each in statements:
            on_stage(f"running {each.name} on {spec.build.version}", None)
            try:
                found.rows[each.name] = copy.rows(each.sql)
                if not found.rows[each.name].is_same_as(copy.rows(each.sql)):
                    found.varies.add(each.name)
                found.plans[each.name] = copy.executed(each.sql, each.name, writes=False)
            except psycopg.Error as error:
                found.errors[each.name] = error.diag.message_primary or first_line(error)
            except (UsageError, MeasurementError) as error:
                found.errors[each.name] = str(error)
    return found


def _compared(
    statements: Sequence[Statement], before: SeenInVersion, after: SeenInVersion
) -> Iterator[tuple[str, ComparedStatement]]:
    for each in statements:
        name = each.name
        old, new = before.rows.get(name), after.rows.get(name)
        plans = before.plans.get(name), after.plans.get(name)
        yield (
            name,
            ComparedStatement(
                before.errors.get(name, ""),
                after.errors.get(name, ""),
                old is not None and new is not None and old.is_same_as(new),
                (old.rows if old else 0, new.rows if new else 0),
                what_changed(plans[0], plans[1]) if plans[0] and plans[1] else (),
                name in before.varies,
            ),
        )
