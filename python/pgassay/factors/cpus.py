"""`cpus=0.5,1,2`: the cap on the processors of the whole server."""

from pgassay.environment.server.limits import parse_cpus
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with its server capped at `level` processors (`unlimited`: not at all); raises UsageError."""
    return spec.model_copy(update={"cpus": parse_cpus(level, f"factor {name}")})


KIND = FactorKind(split=split_levels, apply=apply, fixed_by="--cpus ")
