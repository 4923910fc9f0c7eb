"""From a capture to what is tuned: its statements with the values that they were executed with."""

from collections.abc import Sequence
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.traffic.play_plan import named
from pgassay.traffic.redacting import refuse_redacted
from pgassay.traffic.values import FamilyUse, uses_of
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.inputs.base import Start, workload_named
from pgassay.tune.tuned_statements import with_sets, with_values
from pgassay.words import plural, share
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.replay import FAMILY

_NAMED_MAX = 5


def start_of_capture(text: str) -> Start | None:
    """The statements that took most of the captured time, each with its frequent and its slowest values.

    None for a workload that plays no capture. Raises UsageError where none of them can be tuned.
    """
    if not text.startswith(f"{FAMILY}:"):
        return None
    workload = parse_workload(text)
    part = workload.replay
    refuse_redacted(Path(part.folder), "tune")
    families = {named(each.sql): each for each in workload.statements}
    uses = uses_of(part, families.keys())
    whole_s = sum(each.seconds for each in uses.values()) or 1.0
    found: list[TunedStatement] = []
    left_out: list[tuple[str, str]] = []
    for text, statement in families.items():
        use = uses.get(text, FamilyUse())
        try:
            found += tuned(statement, use, workload.text)
        except UsageError as error:
            left_out.append((f"{statement.name} ({share(use.seconds / whole_s)} of the time)", str(error)))
    if not found:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out[:1])
        raise UsageError(f"{workload.text}: no statement of the capture can be tuned ({why})")
    notes = [
        f"the statements are those of the capture {part.folder} that took most of its time, with "
        "the most frequent values and those that took longest"
    ]
    if left_out:
        names = ", ".join(name for name, _ in left_out[:_NAMED_MAX])
        notes.append(
            f"{plural(len(left_out), 'statement')} left out, without a plan or known values: {names}"
        )
    return Start(workload_named(workload.text, tuple(found)), tuple(found), notes=tuple(notes))


def tuned(statement: Statement, use: FamilyUse, source: str) -> list[TunedStatement]:
    """A family as one statement with sets of values; where its values stand in its text, as one or two.

    Raises UsageError for what has no plan, and where no values are known.
    """
    executed = [each for each in dict.fromkeys((use.usual, use.slowest)) if each is not None]
    if not executed:
        raise UsageError(f"{source}: {statement.name} has no values that can be read")
    same = [each for each in executed if each.text == executed[0].text]
    if executed[0].values:
        sets = tuple(each.values for each in same)
        made = with_sets(Statement(name=statement.name, sql=executed[0].text), sets, source)
        return [made.model_copy(update={"weight": float(use.calls)})]
    return [
        with_sets(Statement(name=_name(statement.name, index), sql=each.text), (), source).model_copy(
            update={"weight": use.calls / len(executed)}
        )
        for index, each in enumerate(executed)
    ]


def _name(name: str, index: int) -> str:
    return name if index == 0 else f"{name} (slowest)"


def executed(workload: WorkloadSpec, statements: Sequence[Statement]) -> list[Statement]:
    """These families of a capture as single statements with the values that came most often, if known."""
    families = {named(each.sql): each for each in statements}
    uses = uses_of(workload.replay, families.keys())
    found = []
    for text, statement in families.items():
        usual = uses.get(text, FamilyUse()).usual
        if usual is not None:
            found.append(Statement(name=statement.name, sql=with_values(usual.text, usual.values)))
    return found
