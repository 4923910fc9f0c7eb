"""Before two ways to write one question are timed: do they answer it alike?

All files run on the control's data and server, each in a transaction that is rolled back. What a
statement returns is compared by the rule of `result_bag.py`; a difference ends the experiment before its
first trial.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

import psycopg

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.planning.servers import OnStage
from pgassay.experiment.running.result_bag import (
    FLOATS_UNKNOWN,
    ORDER_DIFFERS,
    ROWS_SHOWN,
    WITHIN_ROUNDING,
    Bag,
    KeysOf,
    ResultColumn,
    only_in,
    read_bag,
    rows_in,
    shown,
)
from pgassay.experiment.running.sort_keys import sort_keys
from pgassay.factors import sql
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.trial.target import Target
from pgassay.workloads.statement_names import strip_comments

# Of so many buckets that differ the rows are read once more.
BUCKETS_SHOWN = 16
# Types of which equal values, which come in any order, may be shown otherwise: 1 day and 24 hours.
_SHOWN_OTHERWISE = re.compile(r"interval|citext|jsonb|record|\[\]")
_RETURNING_ROWS = ("select", "with", "values", "table")


def check_same_results(experiment: Experiment, target: Target, on_stage: OnStage) -> tuple[str, ...]:
    """Which levels of `sql` are the same within the rounding of floats alone, in sentences.

    Raises UsageError that shows the first rows in which two differ. Levels are compared with their stratum's
    control, on its data. MeasurementError when the server fails.
    """
    said: list[str] = []
    for control, others in _groups(experiment):
        on_stage("comparing the results of the variants of the query", None)
        session = target.session(control)
        if target.machine and control.spec.leaves_data_changed:
            target.machine.taint()
        for other in others:
            said += compare_results(session.control, control.spec.workload, other.spec.workload)
    return tuple(said)


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


def compare_results(session: "ControlSession", first: WorkloadSpec, second: WorkloadSpec) -> list[str]:
    """Raise UsageError when two statements that belong together return different rows, or other types.

    Returns in sentences which are the same within the rounding of floats alone.
    """
    pairs, said = pairs_of(first, second), []
    try:
        queries = [[pair[side] for pair in pairs] for side in (0, 1)]
        lefts = _bags(session, queries[0], [_sorted_by(each) for each in queries[0]])
        # In another order the rows are others where the first one has an ORDER BY.
        rights = _bags(session, queries[1], [_as_sorted(each) for each in lefts])
        for index, (one, another) in enumerate(pairs):
            names = (_name(first, one), _name(second, another))
            left, right = lefts[index], rights[index]
            _compare_types(names, left, right)
            if left is None or right is None:
                continue
            found = left.difference(right)
            if found == ORDER_DIFFERS:
                raise UsageError(
                    f"{names[0]} has an ORDER BY, and {names[1]} returns the same rows in a different "
                    "order: write the same ORDER BY in both, or none"
                )
            if found is not None:
                until = [each[: index + 1] for each in queries]
                raise UsageError(_difference(session, names, (left, right), until))
            if left.is_rounded_to(right):
                said.append(f"the results of {names[0]} and {names[1]} are the same: {WITHIN_ROUNDING}")
    except psycopg.Error as error:
        reason = error.diag.message_primary or first_line(error)
        raise MeasurementError(
            f"the results of {_file(first)} and {_file(second)} can't be compared: the server said '{reason}'"
        ) from error
    return said


def pairs_of(first: WorkloadSpec, second: WorkloadSpec) -> list[tuple[Statement, Statement]]:
    """The statements that belong together: those of one name, else those in one place."""
    named = {statement.name: statement for statement in second.statements}
    if set(named) == {statement.name for statement in first.statements}:
        return [(statement, named[statement.name]) for statement in first.statements]
    return list(zip(first.statements, second.statements, strict=True))


def _bags(
    session: "ControlSession", statements: Sequence[Statement], sorted_by: Sequence[KeysOf]
) -> list[Bag | None]:
    """Run the statements in one transaction that is rolled back; None for one without a result."""
    with session.transaction(force_rollback=True):
        return [_bag(session, *pair) for pair in zip(statements, sorted_by, strict=True)]


def _bag(session: "ControlSession", statement: Statement, keys_of: KeysOf) -> Bag | None:
    if not returns_rows(statement):
        session.execute(statement.sql.encode())
        return None
    return read_bag(session, statement.sql, keys_of)


def _sorted_by(statement: Statement) -> KeysOf:
    """The columns that a statement's ORDER BY sorts by, as far as equal values are shown alike."""

    def keys_of(columns: tuple[ResultColumn, ...]) -> tuple[int, ...]:
        keys = sort_keys(statement.sql, [each.name for each in columns])
        return tuple(takewhile(lambda place: not _SHOWN_OTHERWISE.search(columns[place].type), keys))

    return keys_of


def _as_sorted(first: Bag | None) -> KeysOf:
    """The columns by which the first of two results is sorted, where the second has as many."""
    return lambda columns: first.keys if first is not None and len(first.columns) == len(columns) else ()


def returns_rows(statement: Statement) -> bool:
    """Whether the statement is a query, whose result COPY can stream."""
    words = strip_comments(statement.sql).replace("(", " ").split()
    return bool(words) and words[0].lower() in _RETURNING_ROWS and "into" not in map(str.lower, words)


def _compare_types(names: tuple[str, str], left: Bag | None, right: Bag | None) -> None:
    if (left is None) != (right is None):
        raise UsageError(
            f"{names[0]} {_returns(left)} and {names[1]} {_returns(right)}: they can't be variants "
            "of one query"
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
) -> str:
    """Run both again and say which rows of some differing buckets one has and the other has not."""
    found = []
    buckets = frozenset(bags[0].differing_buckets(bags[1])[:BUCKETS_SHOWN])
    for statements in queries:
        with session.transaction(force_rollback=True):
            for statement in statements[:-1]:
                _bag(session, statement, lambda _: ())
            found.append(rows_in(session, statements[-1].sql, bags[0], buckets))
    parts = [f"{names[0]} ({bags[0].rows} rows) and {names[1]} ({bags[1].rows} rows) return different rows"]
    for side in (0, 1):
        rows = sorted(shown(row) for row in only_in(bags[0], found[side], found[1 - side]))[:ROWS_SHOWN]
        if rows:
            parts.append(f"only in {names[side]}: " + "; ".join(f"({row})" for row in rows))
    if len(parts) == 1 and bags[0].float_places and not bags[0].has_its_floats:
        return f"{parts[0]}: {FLOATS_UNKNOWN}: round them in both"
    if len(parts) == 1:
        parts.append("and differently at each run (a volatile function, or LIMIT without a unique order)")
    return "; ".join(parts) + ": write both so that they return the same"


def _name(workload: WorkloadSpec, statement: Statement) -> str:
    if len(workload.statements) == 1:
        return _file(workload)
    return f"{statement.name} of {_file(workload)}"


def _file(workload: WorkloadSpec) -> str:
    return workload.text.removeprefix("sql:")
