"""What the baseline runs where its SQL is other than the change's."""

import re
from collections.abc import Sequence

from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.workloads import maintenance, pgbench
from pgassay.workloads.registry import parse_workload

SQL = "sql"
# What those without a name are called, by their place.
_UNNAMED = re.compile(r"(statement|transaction)-\d+")


def earlier_workload(request: CompareRequest, other: CompareRequest | None) -> WorkloadSpec | None:
    """The change's workload with the baseline's SQL; None where it is the same.

    Statement by statement: one that the baseline does not have yet is run by both sides as the change has it.
    Raises UsageError for scripts of pgbench's that differ.
    """
    family = _family(request)
    if other is None or family != _family(other):
        return None
    if family == pgbench.FAMILY:
        _refuse_other_scripts(request, other)
        return None
    if family not in (SQL, maintenance.FAMILY):
        return None
    now, before = parse_workload(request.workload), parse_workload(other.workload)
    statements = _paired(request.workload, now.statements, before.statements)
    if statements == now.statements:
        return None
    if before.writes != now.writes:
        raise UsageError(
            f"{request.workload}: either the baseline's SQL or the change's writes, the other "
            "does not: write writes=yes in both"
        )
    # Its text is the change's too: a folder that is another one each night would make another baseline of it.
    return now.model_copy(update={"statements": statements})


def _paired(workload: str, now: Sequence[Statement], before: Sequence[Statement]) -> tuple[Statement, ...]:
    """The change's statements, by their names and in their order, with the SQL that the baseline has of each.

    Those of one name that was given belong together, then those of one SQL, then what is left without a name
    by its place. Raises UsageError where as many are not left.
    """
    given = {each.name: each for each in before if not _UNNAMED.fullmatch(each.name)}
    found = {each.name: given.pop(each.name) for each in now if each.name in given}
    left = [each for each in before if _UNNAMED.fullmatch(each.name) or each.name in given]
    for statement in now:
        same = next((each for each in left if _sql(each) == _sql(statement)), None)
        if statement.name not in found and same is not None:
            found[statement.name] = same
            left.remove(same)
    new = [each for each in now if each.name not in found]
    unnamed = [each.name for each in (*new, *left) if _UNNAMED.fullmatch(each.name)]
    if new and left and unnamed:
        if len(unnamed) < len(new) + len(left) or len(new) != len(left):
            raise UsageError(
                f"{workload}: statements were changed and others added or left out, so it is not clear which "
                "of the baseline's is which: name the statements in both with '-- name: NAME' before each"
            )
        found |= {each.name: other for each, other in zip(new, left, strict=True)}
    return tuple(_named_as(each, found.get(each.name, each)) for each in now)


def _named_as(now: Statement, before: Statement) -> Statement:
    return now if _sql(now) == _sql(before) else before.model_copy(update={"name": now.name})


def _sql(statement: Statement) -> object:
    """What a statement runs, without any name."""
    return statement.sql, statement.before, [(part.sql, part.gset) for part in statement.parts]


def _family(request: CompareRequest) -> str:
    return request.workload.partition(":")[0]


def _refuse_other_scripts(request: CompareRequest, other: CompareRequest) -> None:
    now, before = (_scripts(each) for each in (request, other))
    if [text for _, text in now] == [text for _, text in before]:
        return
    # Where there are as many, the first that differs; else all of them do.
    pairs = zip(now, before, strict=True) if len(now) == len(before) else ()
    differing = [name for (name, text), (_, text_before) in pairs if text != text_before]
    named = differing[0] if differing else "the list of scripts"
    raise UsageError(
        f"{request.workload}: {named} is not the baseline's, and both sides of a gate run the same scripts "
        "of pgbench: write the same script in both, or its statements as sql:FILE"
    )


def _scripts(request: CompareRequest) -> list[tuple[str, str]]:
    load = parse_workload(request.workload).load
    return [(script.name, script.text) for script in load.scripts] if load else []
