"""`version=16,17,18`: PostgreSQL versions from one builder, so that only the version differs.

The builder is the first origin that has all of them at hand; nothing is downloaded.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pgassay.environment.builds.base import Origin, check_version, parse_version
from pgassay.environment.builds.registry import MAJOR_MIN, ORIGINS, check_major, offered, offers
from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build

_ORIGIN_OR_PATH = re.compile(r"[:/~]")


def split(name: str, text: str) -> tuple[str, ...]:
    """The versions; raises UsageError for one that is an origin or a path."""
    levels = split_levels(name, text)
    for level in levels:
        if _ORIGIN_OR_PATH.search(level):
            raise UsageError(
                f"{name}={level}: {name}= takes versions and chooses one origin for all "
                f"of them: choose the origins yourself with build={level},…, each as --pg names one"
            )
        if parse_version(check_version(level))[0] < MAJOR_MIN:
            raise UsageError(
                f"{name}={level}: pgassay measures PostgreSQL {MAJOR_MIN} and newer: leave it out"
            )
    return levels


def bind(name: str, levels: tuple[str, ...], origins: Sequence[Origin] = ORIGINS) -> FactorKind:
    """The kind with its builds found: those of the first origin that has every version at hand.

    Raises UsageError with the line to type when they must be installed first, or when no single origin
    has them all.
    """
    for chosen in of_one_origin(name, levels, origins):
        return FactorKind(split=split, apply=partial(apply_build, chosen), builds=chosen)
    instead = "leave a version out, or name each build with build=, which then compares origins too"
    raise UsageError(what_to_do(f"{name}={','.join(levels)}", levels, origins, instead))


def of_one_origin(
    name: str, levels: tuple[str, ...], origins: Sequence[Origin] = ORIGINS
) -> Iterator[dict[str, Build]]:
    """The builds of each origin that has all versions at hand; raises UsageError for a version too old."""
    for origin in origins:
        found = [origin.find(level) for level in levels]
        builds = [build for build in found if build is not None]
        if len(builds) == len(levels):
            for level, build in zip(levels, builds, strict=True):
                check_major(f"{name}={level}", build)
            yield dict(zip(levels, builds, strict=True))


def apply_build(builds: Mapping[str, Build], _name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm on another build."""
    return spec.model_copy(update={"build": builds[level]})


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm on the build of one version, from the first origin that has it; raises UsageError."""
    return bind(name, (level,)).apply(name, level, spec)


def what_to_do(text: str, levels: tuple[str, ...], origins: Sequence[Origin], instead: str) -> str:
    """What to install so that one origin has all versions, or that none has them and what to do `instead`."""
    for origin in origins:
        missing = [level for level in levels if origin.find(level) is None]
        if all(offers(origin, level) for level in missing):
            words = " ".join(f"{origin.name}:{level}" for level in missing)
            return f"{text}: no origin has all of them available: run 'pgassay builds install {words}'"
    had = [f"{origin.name} {', '.join(_available(origin))}" for origin in origins if _available(origin)]
    return f"{text}: no single origin has all of them ({'; '.join(had) or 'there is none'}): {instead}"


def _available(origin: Origin) -> list[str]:
    """The majors that an origin has at hand or offers."""
    majors = {str(build.major) for build in origin.builds()} | {
        str(parse_version(version)[0]) for version in offered(origin)
    }
    return sorted(majors, key=int)


KIND = FactorKind(split=split, apply=apply, bind=bind, is_base=True, fixed_by="--pg ")
