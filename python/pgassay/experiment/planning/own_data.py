"""The user's own data and statements: from what was typed to what an arm holds."""

from collections.abc import Sequence

from pgassay.environment import datasets
from pgassay.errors import UsageError
from pgassay.experiment.planning.availability import Candidate
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import Factor
from pgassay.factors.prepare import parse_prepare
from pgassay.model.arm import ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.workload import WorkloadSpec
from pgassay.workloads.registry import parse_workload

SQL_FACTOR = "sql"
_BRANCHES = "pgbench_branches"


def workload_of(request: CompareRequest, factors: Sequence[Factor]) -> WorkloadSpec:
    """The workload of all arms; with the factor `sql`, whose levels are workloads, that of the first."""
    ways = [factor for factor in factors if factor.name == SQL_FACTOR]
    if not ways:
        return parse_workload(request.workload)
    if request.workload != CompareRequest.workload:
        raise UsageError(
            f"the levels of {SQL_FACTOR}= are what is run, so --workload {request.workload} has no place: "
            "leave one of them out"
        )
    return parse_workload(f"sql:{ways[0].levels[0]}")


def dataset_of(request: CompareRequest, build: Build) -> DatasetSpec:
    """The dataset of all arms; raises UsageError for a source that can't be used."""
    return datasets.parse_dataset(request.dataset, build, request.scale)


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


def title_of(request: CompareRequest, factors: Sequence[Factor], dataset: DatasetSpec) -> str:
    """The experiment's title: what varies, what is run, on which data."""
    ways = [", ".join(factor.levels) for factor in factors if factor.name == SQL_FACTOR]
    workload = ways[0] if ways else request.workload
    return f"{' '.join(factor.name for factor in factors)} on {workload}, {datasets.describe(dataset)}"
