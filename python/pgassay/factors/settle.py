"""`settle=on,off`: every table is read once before the data are frozen, or each trial is the first reader.

The first reader of a table sets hint bits and prunes pages (docs/datasets.md has what that changes).
"""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec, DatasetSpec

_LEVELS = {"on": True, "off": False}


def with_settling(dataset: DatasetSpec, level: str, what: str) -> DatasetSpec:
    """The dataset settled or left as it was made; raises UsageError naming `what` for another word."""
    if level not in _LEVELS:
        raise UsageError(f"{what} {level} is not known: write on or off")
    return dataset.model_copy(update={"settled": _LEVELS[level]})


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose data are settled (`on`), or left as the load and its preparation made them (`off`)."""
    return spec.model_copy(update={"dataset": with_settling(spec.dataset, level, f"factor {name}:")})


KIND = FactorKind(split=split_levels, apply=apply, fixed_by="--settle ")
