"""`var.NAME=VALUE,VALUE`: a variable of a user's pgbench scripts."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.native.scripts import read_scripts
from pgassay.workloads.pgbench import VARIABLE, check_variable


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose scripts get this text for the variable; raises UsageError where no script uses it."""
    load = spec.workload.load
    if load is None or not load.scripts:
        raise UsageError(
            f"{name}= is a variable of pgbench scripts, and {spec.workload.family} has none: "
            "add --workload pgbench:file=FILE"
        )
    variable = name.removeprefix(VARIABLE)
    read = read_scripts([{"name": script.name, "text": script.text} for script in load.scripts])
    check_variable(variable, read["variables"])
    changed = load.model_copy(update={"variables": {**load.variables, variable: level}})
    return spec.model_copy(update={"workload": spec.workload.model_copy(update={"load": changed})})


KIND = FactorKind(split=split_levels, apply=apply)
