"""What is run on which data: from what was typed to what an arm holds."""

from collections.abc import Sequence

from pgassay.design.arms import Candidate
from pgassay.environment import datasets
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import Factor
from pgassay.factors.prepare import parse_prepare
from pgassay.factors.settle import with_settling
from pgassay.model.arm import ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.workload import WorkloadSpec
from pgassay.workloads.registry import parse_workload

SQL_FACTOR = "sql"
_BRANCHES = "pgbench_branches"


def workload_of(request: CompareRequest, factors: Sequence[Factor]) -> WorkloadSpec:
    """The workload of all arms; with the factor `sql`, whose levels are workloads, that of the first."""
    written = [factor for factor in factors if factor.name == SQL_FACTOR]
    if not written:
        return parse_workload(request.workload)
    if request.workload != CompareRequest.workload:
        raise UsageError(
            f"the levels of {SQL_FACTOR}= are what is run, so --workload {request.workload} has no place: "
            "leave one of them out"
        )
    return parse_workload(f"sql:{written[0].levels[0]}")


def dataset_of(request: CompareRequest, workload: WorkloadSpec, build: Build) -> DatasetSpec:
    """The dataset of all arms; raises UsageError for a source that can't be used."""
    dataset = datasets.parse_dataset(request.dataset, build, request.scale)
    return with_settling(with_own_data(dataset, workload, request), request.settle, "--settle")


def with_own_data(dataset: DatasetSpec, workload: WorkloadSpec, request: CompareRequest) -> DatasetSpec:
    """The dataset of a request, or sysbench's tables for its transaction where no other was named.

    A dump, a folder or a script is left as it is: it may well hold sysbench's tables. Raises UsageError
    for a --scale, which says nothing of these tables.
    """
    options = workload.load.oltp_read_only if workload.load else None
    if options is None or dataset.kind not in ("pgbench", "sysbench"):
        return dataset
    if request.scale != CompareRequest.scale:
        raise UsageError(
            f"--scale {request.scale} is the size of pgbench's tables, and {workload.family} reads "
            "sysbench's: "
            f"write --workload {workload.family}:tables=4,table_size=100000"
        )
    sizes = options.model_dump(include={"tables", "table_size", "distribution"})
    return dataset.model_copy(update={"kind": "sysbench", "scale": 1, **sizes})


def prepare_of(request: CompareRequest) -> tuple[str, ...]:
    """What --prepare does to the data of all arms, in the order typed."""
    return tuple(
        statement for text in request.prepare for statement in parse_prepare(text, f"--prepare {text}")
    )


def check_data(candidates: Sequence[Candidate]) -> None:
    """Raise UsageError for data that the build of an arm can't be given."""
    seen = set()
    for _, spec in candidates:
        identity = (spec.build.bin_directory, spec.dataset)
        if identity not in seen:
            seen.add(identity)
            datasets.check_dataset(spec.build, spec.dataset)


def check_scale(spec: ArmSpec, relations: dict[str, dict[str, int]]) -> None:
    """Raise UsageError when a pgbench load would ask own data for accounts that they don't hold."""
    load = spec.workload.load
    if load is None or spec.dataset.kind in ("pgbench", "sysbench") or load.oltp_read_only is not None:
        return
    branches = relations.get(_BRANCHES)
    if branches is None:
        raise UsageError(
            f"workload {spec.workload.family} needs pgbench's tables, and {spec.dataset.source} makes none "
            f"called {_BRANCHES}: write your own statements with --workload sql:FILE"
        )
    if branches["rows"] != spec.dataset.scale:
        raise UsageError(
            f"{_BRANCHES} holds {branches['rows']} rows and the scale is {spec.dataset.scale}: "
            f"write --scale {branches['rows']}"
        )


def title_of(request: CompareRequest, factors: Sequence[Factor], data: str) -> str:
    """The experiment's title: what varies, what is run, on which data (in words)."""
    written = [", ".join(factor.levels) for factor in factors if factor.name == SQL_FACTOR]
    workload = written[0] if written else request.workload
    return f"{' '.join(factor.name for factor in factors)} on {workload}, {data}"
