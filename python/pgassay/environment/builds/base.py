"""The contract of an origin of PostgreSQL builds. One origin is one file and one line in registry.py."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pgassay.environment.debian import has_apt
from pgassay.errors import UsageError
from pgassay.model.build import Build

RELEASED = 4
_STAGES = ("devel", "alpha", "beta", "rc")
_VERSION = re.compile(r"^\d+(\.\d+|(devel|alpha|beta|rc)\d*)?$")


class Origin(ABC):
    """A place that PostgreSQL builds come from.

    `name` is what `--pg NAME:VERSION` says and what every Build of the origin carries;
    `has_liburing` promises that what it installs of 18 and newer was built with liburing.
    A version is a major ("18") or an exact version ("18.6", "19rc1").
    """

    name: ClassVar[str]
    has_liburing: ClassVar[bool] = False

    @abstractmethod
    def builds(self) -> Sequence[Build]:
        """Return the builds that can be run now. Called often: must not use the network."""

    def find(self, version: str) -> Build | None:
        """Return the newest build at hand that `version` names, or None."""
        matching = [build for build in self.builds() if names_version(version, build)]
        return max(matching, key=version_key, default=None)

    def obtainable(self) -> Sequence[str]:
        """Return the versions that `install` can provide here and that are not at hand.

        Called by `pgassay builds`; must not use the network. Empty for an origin that only finds.
        """
        return ()

    def releases(self) -> Sequence[str]:
        """Return every exact version that `install` takes, in no order; () where that can't be asked for.

        Asks the network. Raises UsageError when that fails.
        """
        return ()

    def install(self, version: str) -> Build:
        """Provide a build and return it; returns at once when it is at hand.

        Raises UsageError saying why the version cannot be had here and what to do instead.
        """
        found = self.find(version)
        if found is not None:
            return found
        raise UsageError(
            f"The origin {self.name} has no PostgreSQL {version} and can't provide one: "
            f"{way_to_install(f'apt:{version}', with_apt=has_apt())}."
        )


def way_to_install(text: str, *, with_apt: bool, liburing: bool = False) -> str:
    """Return what to type or do, without a full stop, to have the build `text` (`18`, `apt:18`) here.

    `with_apt`: it can be unpacked privately. `liburing`: it must be one that was built with it.
    """
    if with_apt:
        return f"run 'pgassay builds install {text}'"
    version = text.rpartition(":")[2]
    kind = f"a PostgreSQL {version} built --with-liburing" if liburing else f"PostgreSQL {version}"
    return (
        f"install {kind} with the machine's package manager (there is no apt here to unpack one with), or "
        "give its programs with --pg /path/to/bin"
    )


def check_version(text: str) -> str:
    """Return `text` when it has the form of a PostgreSQL version, else raise UsageError."""
    if not _VERSION.match(text):
        raise UsageError(
            f"'{text}' is not a PostgreSQL version: give a major such as 18, an exact version such as 18.6, "
            "an origin and a version such as apt:18, or the path of a bin folder."
        )
    return text


def names_version(version: str, build: Build) -> bool:
    """Whether `version` (a major or an exact version) names this build."""
    return version in (build.version, str(build.major))


def version_key(build: Build) -> tuple[int, int, int]:
    """Return what versions are ordered by: 19beta2 < 19rc1 < 19.0 < 19.1."""
    return parse_version(build.version)


def parse_version(version: str) -> tuple[int, int, int]:
    """Return (major, stage, number) of a version: stage 0 devel, 1 alpha, 2 beta, 3 rc, RELEASED."""
    match = re.match(r"^(\d+)(?:\.(\d+)|(devel|alpha|beta|rc)(\d*))?", version)
    if match is None:
        raise UsageError(f"'{version}' is not a PostgreSQL version: give one such as 18.6.")
    if match[3]:
        return int(match[1]), _STAGES.index(match[3]), int(match[4] or 0)
    return int(match[1]), RELEASED, int(match[2] or 0)
