"""`clients=1,8,50`: the number of connections of a load."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.workloads.load import CLIENTS_MAX, with_clients
from pgassay.workloads.options import parse_whole


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with `level` connections; raises UsageError for a workload that is not a load."""
    load = spec.workload.load
    if load is None:
        raise UsageError(
            f"{name}= varies a load's connections, and {spec.workload.family} runs its statements on one: "
            "use select-only, tpcb, simple-update or oltp_read_only"
        )
    clients = parse_whole(level, f"factor {name}", 1, CLIENTS_MAX)
    workload = spec.workload.model_copy(update={"load": with_clients(load, clients)})
    return spec.model_copy(update={"workload": workload})


KIND = FactorKind(split=split_levels, apply=apply)
