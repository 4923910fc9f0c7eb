"""`range_size=100,10000`, `tables=1,10`, `index_updates=1,4`, …: options of sysbench's scripts."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.workloads import oltp, sysbench

_OF_THE_DATA = ("tables", "table_size", "distribution")


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with the option `name` at `level`; raises UsageError for another workload.

    What describes the tables changes the data as well, where they are the workload's own.
    """
    load = spec.workload.load
    if load is None or load.of_sysbench is None:
        raise UsageError(
            f"{name}= is an option of sysbench's transaction, which {spec.workload.family} "
            "does not have: use --workload oltp_read_only or sysbench:SCRIPT"
        )
    changed = sysbench.option(name, level, f"factor {name}")
    if load.sysbench is not None:
        if not sysbench.uses(load.sysbench, name):
            raise UsageError(
                f"{name}= changes nothing of sysbench:{load.sysbench.script}, which does not look at it: "
                "leave it out, or choose another script"
            )
        workload = sysbench.with_options(spec.workload, load.sysbench.model_copy(update=changed))
    elif load.oltp_read_only is not None and changed.keys() <= type(load.oltp_read_only).model_fields.keys():
        workload = oltp.with_options(spec.workload, load.oltp_read_only.model_copy(update=changed))
    else:
        raise UsageError(
            f"{name}= is not an option of oltp_read_only: use --workload sysbench:oltp_read_write"
        )
    dataset = spec.dataset
    if dataset.kind == "sysbench":
        of_data = {field: value for field, value in changed.items() if field in _OF_THE_DATA}
        dataset = dataset.model_copy(update=of_data)
    return spec.model_copy(update={"workload": workload, "dataset": dataset})


KIND = FactorKind(split=split_levels, apply=apply)
