"""What the baseline runs where its SQL is other than the change's."""

from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.workload import WorkloadSpec
from pgassay.workloads import maintenance, pgbench
from pgassay.workloads.registry import parse_workload

SQL = "sql"


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
    known = {statement.name: statement for statement in before.statements}
    statements = tuple(known.get(statement.name, statement) for statement in now.statements)
    if statements == now.statements:
        return None
    if before.writes != now.writes:
        raise UsageError(
            f"{request.workload}: either the baseline's SQL or the change's writes, the other "
            "does not: write writes=yes in both"
        )
    # Its text is the change's too: a folder that is another one each night would make another baseline of it.
    return now.model_copy(update={"statements": statements})


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
