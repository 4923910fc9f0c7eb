"""`read_ahead=128,8192`: the read-ahead, in kB, of a device that pgassay made."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.storage.registry import KINDS
from pgassay.storage.storage_options import read_ahead_kb

READ_AHEAD_KB_MAX = 1 << 20


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with the device's read-ahead at `level` kB; raises UsageError on the host's own device."""
    kind = KINDS.get(spec.storage.kind)
    if kind is not None and "read_ahead" not in kind.keys:
        raise UsageError(
            f"{name}= would change the read-ahead of the host's own disk for "
            "everybody: add --storage loop:size=4GB, which has its own device"
        )
    kilobytes = read_ahead_kb(level, f"factor {name}")
    if kilobytes > READ_AHEAD_KB_MAX:
        raise UsageError(f"factor {name}: {level} is more than {READ_AHEAD_KB_MAX} kB: write a smaller size")
    return spec.model_copy(update={"storage": spec.storage.model_copy(update={"read_ahead_kb": kilobytes})})


KIND = FactorKind(split=split_levels, apply=apply)
