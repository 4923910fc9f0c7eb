"""`rate=1000,2000`, `arrivals=poisson,constant`, `latency_limit=20ms,50ms`: when transactions are due."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.workloads.load import THROUGHPUT, metric_of
from pgassay.workloads.pace import with_pace


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose load has this option; raises UsageError for a workload that is no load."""
    workload = spec.workload
    if workload.load is None:
        raise UsageError(
            f"{name}= says when the transactions of a load are due, and {workload.family} is none: use "
            "select-only, tpcb, simple-update, oltp_read_only or pgbench:file=FILE"
        )
    load = with_pace(workload.load, {name: level}, "factor")
    metric = metric_of(load) if workload.metric == THROUGHPUT else workload.metric
    return spec.model_copy(update={"workload": workload.model_copy(update={"load": load, "metric": metric})})


KIND = FactorKind(split=split_levels, apply=apply)
