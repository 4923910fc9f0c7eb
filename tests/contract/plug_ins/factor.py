"""`toy=small,large`: how much memory a sort has."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec

_WORK_MEM = {"small": "1MB", "large": "8MB"}


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with the work_mem of its level; raises UsageError for a level that is not known."""
    if level not in _WORK_MEM:
        raise UsageError(f"factor {name}: '{level}' is not known: write {name}={','.join(_WORK_MEM)}")
    return spec.model_copy(update={"settings": {**spec.settings, "work_mem": _WORK_MEM[level]}})


KIND = FactorKind(split=split_levels, apply=apply)
