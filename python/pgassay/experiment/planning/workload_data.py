"""The data that a workload brings with it, in place of the pgbench tables."""

from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.arm import DatasetSpec
from pgassay.model.workload import WorkloadSpec


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
