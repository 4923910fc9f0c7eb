"""`memory=512MB,2GB` and `cpus=0.5,1,2`: caps on the whole server, page cache included."""

from pgassay.environment.server.server_caps import parse_cpus, parse_memory
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec


def _with_memory(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with its server capped at `level` (`unlimited`: not at all); raises UsageError for no size."""
    return spec.model_copy(update={"memory_bytes": parse_memory(level, f"factor {name}")})


def _with_cpus(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with its server capped at `level` processors (`unlimited`: not at all); raises UsageError."""
    return spec.model_copy(update={"cpus": parse_cpus(level, f"factor {name}")})


MEMORY = FactorKind(split=split_levels, apply=_with_memory, fixed_by="--memory ")
CPUS = FactorKind(split=split_levels, apply=_with_cpus, fixed_by="--cpus ")
