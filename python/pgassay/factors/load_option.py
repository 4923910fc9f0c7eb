"""Options of a load: `rate=1000,2000`, `pool=10,20` and their like; `var.NAME=VALUE` of pgbench scripts."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.model.workload import LoadSpec
from pgassay.native.scripts import ReadScripts, read_scripts
from pgassay.workloads import holding, pgbench, sysbench
from pgassay.workloads.pace import option_of, with_pace
from pgassay.workloads.pgbench import VARIABLE, check_variable
from pgassay.workloads.pgbench_builtin import THROUGHPUT, metric_of


def _with_pace(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose load has this option; raises UsageError for a workload that is no load."""
    workload = spec.workload
    if workload.load is None:
        raise UsageError(
            f"{name}= says when the transactions of a load are due, but {workload.family} is not a load: use "
            "select-only, tpcb, simple-update, oltp_read_only or pgbench:file=FILE"
        )
    if workload.is_replay:
        raise UsageError(
            f"{name}= says when the transactions of a load are due, but a replay takes the times "
            f"of its capture: write speed=2 after its folder, as {workload.text},speed=2"
        )
    if workload.is_series:
        raise UsageError(
            f"{name}= says when the transactions of one load are due, but sysbench:micro is a "
            "series of loads: use one of sysbench's scripts, as sysbench:oltp_read_write"
        )
    pace = workload.load.pace
    if name == "rate" and pace is not None and option_of(pace) == "curve":
        raise UsageError(
            f"factor rate and curve={pace.text} of the workload both say when transactions are due: leave "
            "one of them out"
        )
    load = with_pace(workload.load, {name: level}, "factor")
    metric = metric_of(load) if workload.metric == THROUGHPUT else workload.metric
    return spec.model_copy(update={"workload": workload.model_copy(update={"load": load, "metric": metric})})


def _with_connections(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose clients hold their connections so; raises UsageError for a workload that is no load."""
    workload = spec.workload
    if workload.load is None or workload.is_replay or workload.is_series:
        raise UsageError(
            f"{name}= says how the clients of a load hold their connections, and {workload.text} has no such "
            "clients: use tpcb, select-only, sysbench:SCRIPT or pgbench:file=FILE"
        )
    load = holding.with_connections(workload.load, {name: level}, "factor")
    if load.idle_in_transaction_s:
        holding.check(load, workload.text, has_transaction=_has_transaction(load, workload.family))
    return spec.model_copy(update={"workload": workload.model_copy(update={"load": load})})


def _has_transaction(load: LoadSpec, family: str) -> bool:
    if load.of_sysbench is not None:
        return sysbench.has_transaction(load.of_sysbench)
    return pgbench.has_transaction(_read(load)) if load.scripts else holding.has_transaction(family)


def _read(load: LoadSpec) -> ReadScripts:
    return read_scripts([{"name": script.name, "text": script.text} for script in load.scripts])


def _with_variable(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose scripts get this text for the variable; raises UsageError where no script uses it."""
    load = spec.workload.load
    if load is None or not load.scripts:
        raise UsageError(
            f"{name}= is a variable of pgbench scripts, but {spec.workload.family} "
            "has none: add --workload pgbench:file=FILE"
        )
    variable = name.removeprefix(VARIABLE)
    check_variable(variable, _read(load)["variables"], load.scripts)
    changed = load.model_copy(update={"variables": {**load.variables, variable: level}})
    return spec.model_copy(update={"workload": spec.workload.model_copy(update={"load": changed})})


CONNECTIONS = FactorKind(split=split_levels, apply=_with_connections)
PACE = FactorKind(split=split_levels, apply=_with_pace)
VARIABLE_OF_SCRIPTS = FactorKind(split=split_levels, apply=_with_variable)
