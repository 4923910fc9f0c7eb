"""What is run on which data: from what was typed to what an arm holds."""

from collections.abc import Sequence

from pgassay.design.arms import Candidate
from pgassay.environment import datasets
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors import sql
from pgassay.factors.base import Factor
from pgassay.factors.prepare import parse_prepare
from pgassay.factors.settle import with_settling
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.model.workload import WorkloadSpec


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


def title_of(request: CompareRequest, factors: Sequence[Factor], data: str) -> str:
    """The experiment's title: what varies, what is run, on which data (in words)."""
    workload = ", ".join(sql.levels_of(factors)) or request.workload
    return f"{' '.join(factor.name for factor in factors)} on {workload}, {data}"
