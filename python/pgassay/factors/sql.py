"""`sql=a.sql,b.sql`: two ways to write one question; each level is a workload of its own."""

from collections.abc import Sequence

from pgassay.errors import UsageError
from pgassay.factors.base import Factor, FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.model.workload import WorkloadSpec
from pgassay.value_syntax.paths import typed_paths
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.statements import parse_sql_file

NAME = "sql"


def levels_of(factors: Sequence[Factor]) -> tuple[str, ...]:
    """The levels of this factor where it is among `factors`; () where it is not."""
    return next((factor.levels for factor in factors if factor.name == NAME), ())


def workload_of(factors: Sequence[Factor], text: str, default: str) -> WorkloadSpec:
    """The workload of all arms: that of the first level, else that of `--workload`.

    Raises UsageError where `--workload` names another than its default beside this factor.
    """
    levels = levels_of(factors)
    if not levels:
        return parse_workload(text)
    if text != default:
        raise UsageError(
            f"the levels of {NAME}= are the workloads, so --workload {text} can't be used: leave one of "
            "them out"
        )
    return parse_workload(f"sql:{levels[0]}")


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm that runs the statements of the file `level`.

    Raises UsageError when the files can't be ways to write one question: they have different numbers
    of statements, or one changes data and another does not.
    """
    workload, first = parse_sql_file("sql", typed_paths(level)), spec.workload
    for each in (workload, first):
        if each.has_transactions:
            raise UsageError(
                f"{name}= compares variants of one query, and {each.text.removeprefix('sql:')} has a "
                "transaction, whose rows can't be compared: leave out BEGIN and COMMIT, or measure the "
                "files one after the other"
            )
    if len(workload.statements) != len(first.statements):
        raise UsageError(
            f"{name}= compares variants of one query, statement by statement, and "
            f"{first.text.removeprefix('sql:')} has {len(first.statements)} of them, {level} "
            f"{len(workload.statements)}: write as many in each"
        )
    if (workload.clients, workload.executions) != (first.clients, first.executions):
        raise UsageError(
            f"{name}= compares variants of one query, executed by as many sessions and as often: write the "
            f"same clients= and executions= for each, as {name}='a.sql,clients=4','b.sql,clients=4'"
        )
    if workload.writes != first.writes:
        writing = level if workload.writes else first.text.removeprefix("sql:")
        raise UsageError(
            f"{name}=: {writing} changes data and another level does not: write writes=yes or "
            f"writes=no for each, as {name}='a.sql,writes=no','b.sql,writes=no'"
        )
    return spec.model_copy(update={"workload": workload})


KIND = FactorKind(split=split_levels, apply=apply, is_base=True, fixed_by="--workload sql:")
