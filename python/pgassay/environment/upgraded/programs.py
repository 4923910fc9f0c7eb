"""Builds with all programs that pg_upgrade starts: of the old version few, of the new one nearly all.

pg_upgrade wants the new programs in its own version to the last digit (src/bin/pg_upgrade/exec.c,
check_bin_dir), and may be another build than the one that is measured: releases of a major version share
their format.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.builds.base import Origin
from pgassay.environment.builds.registry import ORIGINS
from pgassay.errors import UsageError
from pgassay.model.build import Build

_OF_BOTH = ("postgres", "pg_ctl", "pg_controldata", "pg_resetwal")
_OF_THE_NEW = (*_OF_BOTH, "initdb", "pg_upgrade", "pg_dump", "pg_dumpall", "pg_restore", "psql", "vacuumdb")


@dataclass(frozen=True)
class UpgradePrograms:
    """The builds whose programs upgrade a cluster."""

    old: Build
    new: Build


def upgrade_programs(old_major: int, new: Build, origins: Sequence[Origin] = ORIGINS) -> UpgradePrograms:
    """Those for a cluster of `old_major` and the build that is to read it: of that build where it has all.

    Raises UsageError with what to install.
    """
    of_new = next(_complete([new, *_builds(new.major, origins)], _OF_THE_NEW), None)
    first = of_new.origin if of_new is not None else ""
    found = sorted(_builds(old_major, origins), key=lambda build: build.origin != first)
    of_old = next(_complete(found, _OF_BOTH), None)
    if of_old is not None and of_new is not None:
        return UpgradePrograms(of_old, of_new)
    lacking = old_major if of_old is None else new.major
    programs = ", ".join(_OF_BOTH if of_old is None else _OF_THE_NEW)
    raise UsageError(
        f"pg_upgrade from {old_major} to {new.major} needs a build of {lacking} with {programs}, and none is "
        f"at hand: pgassay builds install apt:{lacking} (wheel:16 and wheel:18 have them as well)"
    )


def _builds(major: int, origins: Sequence[Origin]) -> Iterator[Build]:
    return (build for origin in origins for build in origin.builds() if build.major == major)


def _complete(builds: Iterable[Build], programs: Sequence[str]) -> Iterator[Build]:
    return (
        build for build in builds if all((Path(build.bin_directory) / name).exists() for name in programs)
    )
