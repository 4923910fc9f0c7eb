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
    """The builds whose programs upgrade a cluster; `reader`: the one that is to read it afterwards."""

    old: Build
    new: Build
    reader: Build

    def lacking(self, library: str) -> Build | None:
        """The build of these without a library, which says nothing of the server that is looked at.

        None where the reader has none either: then it is the new version that comes without.
        """
        if library not in self.reader.extensions:
            return None
        return next((each for each in (self.old, self.new) if library not in each.extensions), None)


def upgrade_programs(old_major: int, new: Build, origins: Sequence[Origin] = ORIGINS) -> UpgradePrograms:
    """Those for a cluster of `old_major` and the build that is to read it: of that build where it has all.

    Raises UsageError with what to install.
    """
    # One that lacks what the reader has would refuse data which the reader can read.
    programs_of_new = _complete([new, *_builds(new.major, origins)], _OF_THE_NEW)
    of_new = min(programs_of_new, key=lambda build: _missing(build, new), default=None)
    first = of_new.origin if of_new is not None else ""
    found = _complete(_builds(old_major, origins), _OF_BOTH)
    of_old = min(found, key=lambda build: (_missing(build, new), build.origin != first), default=None)
    if of_old is not None and of_new is not None:
        return UpgradePrograms(of_old, of_new, new)
    lacking = old_major if of_old is None else new.major
    programs = ", ".join(_OF_BOTH if of_old is None else _OF_THE_NEW)
    raise UsageError(
        f"pg_upgrade from {old_major} to {new.major} needs a build of {lacking} with {programs}, and none is "
        f"at hand: pgassay builds install apt:{lacking} (wheel:16 and wheel:18 have them as well)"
    )


def _builds(major: int, origins: Sequence[Origin]) -> Iterator[Build]:
    return (build for origin in origins for build in origin.builds() if build.major == major)


def _missing(build: Build, reader: Build) -> int:
    """How many of the reader's extensions it comes without."""
    return len(set(reader.extensions) - set(build.extensions))


def _complete(builds: Iterable[Build], programs: Sequence[str]) -> Iterator[Build]:
    return (
        build for build in builds if all((Path(build.bin_directory) / name).exists() for name in programs)
    )
