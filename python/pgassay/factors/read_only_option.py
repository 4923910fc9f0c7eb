"""`range_size=100,10000`, `tables=1,10`, `table_size=…`: options of the workload oltp_read_only."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.workloads.oltp import parse_number, with_options

_OF_THE_DATA = ("tables", "table_size")


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with the option `name` at `level`; raises UsageError for another workload.

    What describes the tables changes the data as well, where they are the workload's own.
    """
    options = spec.workload.load.oltp_read_only if spec.workload.load else None
    if options is None:
        raise UsageError(
            f"{name}= is an option of sysbench's transaction, and {spec.workload.family} has none: "
            "use --workload oltp_read_only"
        )
    number = parse_number(name, level, f"factor {name}")
    workload = with_options(spec.workload, options.model_copy(update={name: number}))
    dataset = spec.dataset
    if name in _OF_THE_DATA and dataset.kind == "sysbench":
        dataset = dataset.model_copy(update={name: number})
    return spec.model_copy(update={"workload": workload, "dataset": dataset})


KIND = FactorKind(split=split_levels, apply=apply)
