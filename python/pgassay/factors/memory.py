"""`memory=512MB,2GB`: the cap on the whole server's memory, page cache included."""

from pgassay.environment.server.limits import parse_memory
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with its server capped at `level` (`unlimited`: not at all); raises UsageError for no size."""
    return spec.model_copy(update={"memory_bytes": parse_memory(level, f"factor {name}")})


KIND = FactorKind(split=split_levels, apply=apply, fixed_by="--memory ")
