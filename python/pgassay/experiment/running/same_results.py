"""Before two ways to write one question are timed: do they answer it alike?

All files run on the control's data and server, each in a transaction that is rolled back. What a
statement returns is compared as a bag of rows; a difference ends the experiment before its first trial.
"""

from collections.abc import Sequence

import psycopg

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.planning.servers import OnStage
from pgassay.experiment.running import result_bag
from pgassay.experiment.running.result_bag import Bag
from pgassay.factors import sql
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.trial.target import Target
from pgassay.workloads.split import strip_comments

_RETURNING_ROWS = ("select", "with", "values", "table")


def check_same_results(experiment: Experiment, target: Target, on_stage: OnStage) -> None:
    """Raise UsageError that shows the first rows in which two levels of `sql` differ.

    Levels are compared with their stratum's control, on its data. MeasurementError when the server
    fails.
    """
    for control, others in _groups(experiment):
        on_stage("comparing the results of the ways to write the question", None)
        session = target.session(control)
        if target.machine and control.spec.leaves_data_changed:
            target.machine.taint()
        for other in others:
            compare_results(session.control, control.spec.workload, other.spec.workload)


def _groups(experiment: Experiment) -> list[tuple[Arm, list[Arm]]]:
    """Each control with the arms whose statements are other than its own; equal groups once."""
    if not any(sql.NAME in arm.levels for arm in experiment.arms):
        return []
    groups: list[tuple[Arm, list[Arm]]] = []
    seen = set()
    controls = [arm for arm in experiment.arms if arm.role == "control"]
    for control in controls:
        others: dict[str, Arm] = {}
        for arm in experiment.arms:
            if arm.role != "twin" and arm.spec.workload != control.spec.workload:
                others.setdefault(arm.spec.workload.text, arm)
        names = tuple(sorted([control.spec.workload.text, *others]))
        identity = (control.spec.build, control.spec.dataset, control.spec.prepare, names)
        if others and repr(identity) not in seen:
            seen.add(repr(identity))
            groups.append((control, list(others.values())))
    return groups


def compare_results(session: "ControlSession", first: WorkloadSpec, second: WorkloadSpec) -> None:
    """Raise UsageError when two statements that belong together return different rows, or other types."""
    pairs = pairs_of(first, second)
    try:
        bags = [_bags(session, [pair[side] for pair in pairs]) for side in (0, 1)]
        for index, (one, another) in enumerate(pairs):
            names = (_name(first, one), _name(second, another))
            _compare_types(names, bags[0][index], bags[1][index])
            left, right = bags[0][index], bags[1][index]
            if left is not None and right is not None and (unlike := left.buckets_unlike(right)):
                queries = [[pair[side] for pair in pairs[: index + 1]] for side in (0, 1)]
                raise UsageError(_difference(session, names, (left, right), queries, frozenset(unlike[:16])))
    except psycopg.Error as error:
        reason = error.diag.message_primary or first_line(error)
        raise MeasurementError(
            f"the results of {_file(first)} and {_file(second)} can't be compared: the server said '{reason}'"
        ) from error


def pairs_of(first: WorkloadSpec, second: WorkloadSpec) -> list[tuple[Statement, Statement]]:
    """The statements that belong together: those of one name, else those in one place."""
    named = {statement.name: statement for statement in second.statements}
    if set(named) == {statement.name for statement in first.statements}:
        return [(statement, named[statement.name]) for statement in first.statements]
    return list(zip(first.statements, second.statements, strict=True))


def _bags(session: "ControlSession", statements: Sequence[Statement]) -> list[Bag | None]:
    """Run the statements in one transaction that is rolled back; None for one without a result."""
    with session.transaction(force_rollback=True):
        return [_bag(session, statement) for statement in statements]


def _bag(session: "ControlSession", statement: Statement) -> Bag | None:
    if not returns_rows(statement):
        session.execute(statement.sql.encode())
        return None
    return result_bag.read_bag(session, statement.sql)


def returns_rows(statement: Statement) -> bool:
    """Whether the statement is a query, whose result COPY can stream."""
    words = strip_comments(statement.sql).replace("(", " ").split()
    return bool(words) and words[0].lower() in _RETURNING_ROWS and "into" not in map(str.lower, words)


def _compare_types(names: tuple[str, str], left: Bag | None, right: Bag | None) -> None:
    if (left is None) != (right is None):
        raise UsageError(
            f"{names[0]} {_returns(left)} and {names[1]} {_returns(right)}: they can't be ways to write one "
            "question"
        )
    if left is None or right is None or left.types == right.types:
        return
    if len(left.types) != len(right.types):
        raise UsageError(
            f"{names[0]} returns {len(left.types)} columns and {names[1]} {len(right.types)}: "
            "write the same columns in both"
        )
    column = next(n for n, pair in enumerate(zip(left.types, right.types, strict=True)) if pair[0] != pair[1])
    raise UsageError(
        f"column {column + 1} is {left.types[column]} in {names[0]} and {right.types[column]} in {names[1]}: "
        "add a cast to one of them"
    )


def _returns(bag: Bag | None) -> str:
    return "returns no rows" if bag is None else "returns rows"


def _difference(
    session: "ControlSession",
    names: tuple[str, str],
    bags: tuple[Bag, Bag],
    queries: list[list[Statement]],
    buckets: frozenset[int],
) -> str:
    """Run both again and say which rows of some differing buckets one has and the other has not."""
    found = []
    for statements in queries:
        with session.transaction(force_rollback=True):
            for statement in statements[:-1]:
                _bag(session, statement)
            found.append(result_bag.rows_in(session, statements[-1].sql, buckets))
    parts = [f"{names[0]} ({bags[0].rows} rows) and {names[1]} ({bags[1].rows} rows) return different rows"]
    for side in (0, 1):
        only = found[side] - found[1 - side]
        rows = [result_bag.shown(row) for row in sorted(only)[: result_bag.ROWS_SHOWN]]
        if rows:
            parts.append(f"only in {names[side]}: " + "; ".join(f"({row})" for row in rows))
    if len(parts) == 1:
        parts.append("and differently at each run (a volatile function, or LIMIT without a unique order)")
    return "; ".join(parts) + ": write both so that they return the same"


def _name(workload: WorkloadSpec, statement: Statement) -> str:
    if len(workload.statements) == 1:
        return _file(workload)
    return f"{statement.name} of {_file(workload)}"


def _file(workload: WorkloadSpec) -> str:
    return workload.text.removeprefix("sql:")
