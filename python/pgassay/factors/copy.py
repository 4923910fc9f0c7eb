"""`copy=first,second`: the null factor. Its arms are equal in all but their copies of the data.

What it finds is the noise and the bias of the measurement itself; `pgassay calibrate` is built on it.
"""

from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec

NAME = "copy"


def apply(_name: str, _level: str, spec: ArmSpec) -> ArmSpec:
    """The arm as it is; its place among the copies of the data is the design's (`data_copy`)."""
    return spec


KIND = FactorKind(split=split_levels, apply=apply)
