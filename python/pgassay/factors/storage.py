"""`storage=host,loop:size=4GB,read_mb_s=125`: where the data lives."""

from pgassay.factors.base import FactorKind, distinct, split_kinds
from pgassay.model.arm import ArmSpec
from pgassay.storage.parse import parse_storage


def split(name: str, text: str) -> tuple[str, ...]:
    """The storages, each with its own options."""
    levels = split_kinds(text)
    if len(levels) == 1:
        parse_storage(levels[0])  # What is no storage is said before that there is only one.
    return distinct(name, levels)


def apply(_name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm on another storage; raises UsageError for a kind or option that is not known."""
    return spec.model_copy(update={"storage": parse_storage(level)})


KIND = FactorKind(split=split, apply=apply, is_base=True, fixed_by="--storage ")
