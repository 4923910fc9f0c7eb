"""Each statement once on a copy in either version: does it run, are its rows the same, which plan has it?

One that writes is rolled back: of it the number of rows is compared, and what it returns.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import psycopg

from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.running.result_bag import Bag, bag_of, columns_of
from pgassay.model.arm import ArmSpec
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.upgrades.upgrade_answer import StatementVerdict
from pgassay.model.workload import Statement
from pgassay.plans.plan_comparison import what_changed
from pgassay.tune.copy import TrialCopy
from pgassay.tune.statement_errors import TooLongError
from pgassay.words import seconds
from pgassay.workloads.statements import changes_data

OnStage = Callable[[str, float | None], None]
# A statement may take so much of the time given.
_SHARE_MAX, _LEAST_S = 0.1, 5.0
# A server whose process crashed ends all others, and recovers.
_RECOVERS_S, _POLL_S = 60.0, 0.1
# One execution that takes so many times as long as the other is no noise.
_FAR_SLOWER = 2.0
CALLS_WHAT_WRITES = (
    "it calls a function that writes, and was not run: capture its traffic, and give --capture DIR"
)


@dataclass(frozen=True)
class Written:
    """What a statement that writes came to: so many rows, and those that it returned."""

    rows: int
    returned: Bag


@dataclass
class SeenInVersion:
    """What one version made of the statements, by name: rows and plans, or the server's words.

    `varies`: returned other rows when it ran once more. `seconds`: what one execution took, `unended`: those
    that did not end in the time that is left for one.
    """

    rows: dict[str, Bag | Written] = field(default_factory=dict)
    varies: set[str] = field(default_factory=set)
    plans: dict[str, ExplainedPlan] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    unended: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedStatement:
    """A statement on both versions: an error of each or '', whether the rows are the same, what its plan does
    otherwise, None where one is not known.

    `varies`: its rows are others each time that it runs, so that they can't be compared. `unended`: in which
    version it did not end, and what that says.
    """

    before_error: str
    after_error: str
    same_rows: bool
    rows: tuple[int, int]
    plan: tuple[str, ...] | None
    varies: bool = False
    unended: tuple[StatementVerdict, str] | None = None


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
                writes = changes_data(each.sql)
                began = time.monotonic()
                first = _written(copy, each.sql) if writes else copy.rows(each.sql)
                found.seconds[each.name] = time.monotonic() - began
                again = _written(copy, each.sql) if writes else copy.rows(each.sql)
                found.rows[each.name] = first
                if not _is_same(first, again):
                    found.varies.add(each.name)
                found.plans[each.name] = copy.executed(each.sql, each.name, writes=writes)
            except psycopg.errors.QueryCanceled:
                found.unended[each.name] = timeout_s
            except psycopg.errors.ReadOnlySqlTransaction:
                found.errors[each.name] = CALLS_WHAT_WRITES
            except psycopg.Error as error:
                found.errors[each.name] = error.diag.message_primary or first_line(error)
            except TooLongError:
                # It ended, and has no plan: EXPLAIN (ANALYZE) looks at the clock for each row.
                continue
            except (UsageError, MeasurementError) as error:
                found.errors[each.name] = str(error)
            if each.name in found.errors:
                _wait_until_answered(copy, each.name)
    return found


def _wait_until_answered(copy: TrialCopy, name: str) -> None:
    """Wait where a statement crashed its process: until the server has recovered it answers nobody.

    Raises MeasurementError where it does not come back.
    """
    until = time.monotonic() + _RECOVERS_S
    while True:
        try:
            copy.session.execute("SELECT")
        except psycopg.OperationalError as error:
            if time.monotonic() > until:
                raise MeasurementError(
                    f"PostgreSQL {copy.spec.build.version} ended with the statement {name} and does not "
                    f"come back ({first_line(error)}): leave that statement out, and report it to PostgreSQL"
                ) from None
            time.sleep(_POLL_S)
        else:
            return


def _written(copy: TrialCopy, sql: str) -> Written:
    """Execute it, with what a commit would check, and roll back; raises psycopg.Error."""
    session = copy.session
    with session.transaction(force_rollback=True):
        columns = columns_of(session, sql)
        session.execute(f"SET LOCAL statement_timeout = '{copy.timeout_s:.0f}s'".encode())
        cursor = session.execute(sql.encode(), prepare=False)
        session.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return Written(cursor.rowcount, bag_of(columns, cursor.pgresult))


def _is_same(one: Bag | Written, other: Bag | Written) -> bool:
    if isinstance(one, Written) and isinstance(other, Written):
        return one.rows == other.rows and one.returned.is_same_as(other.returned)
    return isinstance(one, Bag) and isinstance(other, Bag) and one.is_same_as(other)


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
                old is not None and new is not None and _is_same(old, new),
                (old.rows if old else 0, new.rows if new else 0),
                what_changed(plans[0], plans[1]) if plans[0] and plans[1] else None,
                name in before.varies,
                _unended(name, before, after),
            ),
        )


def _unended(name: str, before: SeenInVersion, after: SeenInVersion) -> tuple[StatementVerdict, str] | None:
    """What it says that an execution did not end; None where all ended."""
    limit_s = before.unended.get(name) or after.unended.get(name)
    if limit_s is None:
        return None
    most = f"{limit_s:.0f} s, the most that --max-time leaves for one statement"
    if name in before.unended and name in after.unended:
        return "not run", f"it did not end in {most}, on either version"
    verdict: StatementVerdict = "slower" if name in after.unended else "faster"
    ended, where = (before, "new") if name in after.unended else (after, "old")
    known_s = ended.seconds.get(name)
    if known_s is None or known_s * _FAR_SLOWER > limit_s:
        return "not decided", f"it did not end in {most}, on the {where} version"
    return (
        verdict,
        f"it took {seconds(known_s)} on the other version, and did not end in {most}, on the {where} one",
    )
