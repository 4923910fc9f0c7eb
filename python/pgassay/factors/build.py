"""`build=apt:18,npm:18,/path/to/bin`: whole builds, each named as `--pg` names one."""

from functools import partial

from pgassay.environment.builds.registry import check_major, resolve
from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.factors.version import apply_build
from pgassay.model.arm import ArmSpec


def bind(name: str, levels: tuple[str, ...]) -> FactorKind:
    """The kind with its builds found; raises UsageError for one that isn't at hand, or two that are one."""
    builds = {level: resolve(level) for level in levels}
    seen: dict[str, str] = {}
    for level, build in builds.items():
        check_major(f"{name}={level}", build)
        if build.bin_directory in seen and build.source is not None:
            raise UsageError(
                f"{name}={seen[build.bin_directory]} and {name}={level} build the same files, so "
                "there is nothing to compare: name two revisions whose compiled code differs"
            )
        if build.bin_directory in seen:
            raise UsageError(
                f"{name}={seen[build.bin_directory]} and {name}={level} are the same build, "
                f"{build.bin_directory}: name two that differ"
            )
        seen[build.bin_directory] = level
    return FactorKind(split=split_levels, apply=partial(apply_build, builds), builds=builds)


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm on the build that `level` names; raises UsageError when it isn't at hand."""
    return bind(name, (level,)).apply(name, level, spec)


KIND = FactorKind(split=split_levels, apply=apply, bind=bind, is_base=True, fixed_by="--pg ")
