"""`clients=1,8,50`: the connections of a load, or of those that execute statements at once."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.value_syntax.quantities import CLIENTS_MAX, whole
from pgassay.workloads.pgbench_builtin import with_clients

NAME = "clients"


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with `level` connections; raises UsageError for a workload that has one alone."""
    workload = spec.workload
    clients = whole(level, f"factor {name}", least=1, most=CLIENTS_MAX)
    if workload.is_replay:
        raise UsageError(
            f"{name}= varies the number of concurrent connections, but a replay has those of its "
            "capture: write sample=50% after its folder for fewer, or speed=2 for more at the same time"
        )
    if workload.load is not None:
        changed = workload.model_copy(update={"load": with_clients(workload.load, clients)})
    elif workload.family == "sql":
        changed = workload.model_copy(update={"clients": clients})
    else:
        raise UsageError(
            f"{name}= varies the number of concurrent connections, but {workload.family} runs its "
            "statements on one: use select-only, tpcb, simple-update, oltp_read_only or your own "
            "statements, sql:FILE"
        )
    return spec.model_copy(update={"workload": changed})


KIND = FactorKind(split=split_levels, apply=apply)
