"""Any server setting by name: the level is its value."""

from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with the setting `name` at `level`; the server itself judges the value later."""
    return spec.model_copy(update={"settings": {**spec.settings, name: level}})


KIND = FactorKind(split=split_levels, apply=apply)
