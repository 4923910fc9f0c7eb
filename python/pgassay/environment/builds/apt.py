"""PostgreSQL from Debian packages, unpacked privately: no root, no change to the host.

A major comes from the host's own apt sources when they carry it (PGDG where configured), else from
the suite in SUITES that does, on the same mirror.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgassay.environment.builds.base import Origin, names_version, parse_version
from pgassay.environment.builds.inspect import inspect, those_that_run
from pgassay.environment.debian import Archive, has_apt, host_archive, read_manifest, suite_archive, unpack
from pgassay.environment.debian.sources import distribution_mirror, host_codename, host_sources
from pgassay.environment.debian.toolbox import finish
from pgassay.environment.home import home
from pgassay.errors import UsageError
from pgassay.model.build import Build

_REVISION = re.compile(r"^(?:\d+:)?(\d+)(?:[.~](\d+|(?:devel|alpha|beta|rc)\d*))?")


@dataclass(frozen=True)
class Suite:
    """A Debian suite that carries a major; `completed_by` for one that is no suite by itself."""

    name: str
    completed_by: str = ""


# Debian's releases carry one major each; the next one appears in experimental first.
SUITES = {
    "15": Suite("bookworm"),
    "17": Suite("trixie"),
    "18": Suite("forky"),
    "19": Suite("experimental", completed_by="sid"),
}
_MIRROR_SUITES = ("bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable")


class AptOrigin(Origin):
    """Unpacks the server, the clients and what a usual installation brings for JIT."""

    name: ClassVar[str] = "apt"
    # Debian builds every server that knows io_uring with it.
    has_liburing: ClassVar[bool] = True

    def builds(self) -> Sequence[Build]:
        """Return the builds unpacked before that run here; a folder that is not whole is not one."""
        whole = [folder for folder in sorted(self._folder().glob("*")) if read_manifest(folder) is not None]
        folders = [path for folder in whole for path in folder.glob("usr/lib/postgresql/*/bin")]
        return those_that_run(folders, self.name)

    def obtainable(self) -> Sequence[str]:
        """Return the majors that can be unpacked on this machine and were not yet."""
        if not has_apt():
            return ()
        at_hand = {str(build.major) for build in self.builds()}
        return sorted(self._offered_majors() - at_hand, key=int)

    def install(self, version: str) -> Build:
        """Unpack the candidate of a major, or the exact version when it is the candidate.

        Raises UsageError when no source carries it, naming the versions that can be had.
        """
        found = self.find(version)
        if found is not None:
            return found
        major = str(parse_version(version)[0])
        archive = self._archive_of(major)
        server = f"postgresql-{major}"
        archive.refresh()
        revision = archive.stanzas((server,))[server]["version"]
        candidate = upstream_version(revision)
        if version not in (major, candidate):
            raise UsageError(
                f"The suite {archive.suite} carries PostgreSQL {candidate}, not {version}: "
                f"type 'pgassay builds install {candidate}', or give the path of a build of {version}."
            )
        destination = self._folder() / revision.replace(":", "_")
        unpack(
            (server, f"postgresql-client-{major}"),
            archive,
            destination,
            # A package of its own since 18, part of the server before: with it, every major
            # compiles expressions as its users are used to.
            optional=(f"{server}-jit",),
            finish=finish,
        )
        build = inspect(destination / "usr" / "lib" / "postgresql" / major / "bin", self.name)
        if not names_version(version, build):
            raise UsageError(
                f"The package {server} {revision} holds PostgreSQL {build.version}, not {version}: "
                f"remove {destination} and type 'pgassay builds install {major}'."
            )
        return build

    def _folder(self) -> Path:
        return home() / "builds" / "apt"

    def _archive_of(self, major: str) -> Archive:
        what = f"PostgreSQL {major}"
        server = f"postgresql-{major}"
        host = host_archive(what)
        host.refresh()
        if host.stanzas((server,)):
            return host
        if major in SUITES and _is_debian_mirrored():
            suite = SUITES[major]
            taken = ("libpq5", f"postgresql-*-{major}", f"{server}*") if suite.completed_by else ()
            return suite_archive(suite.name, what, completed_by=suite.completed_by, taken=taken)
        choice = _what_can_be_had(sorted(self._offered_majors(), key=int))
        raise UsageError(
            f"No apt source of this machine carries PostgreSQL {major}: {choice}, "
            f"or give the path of a build of {major}."
        )

    def _offered_majors(self) -> set[str]:
        majors = set(SUITES) if _is_debian_mirrored() else set()
        host = host_archive("PostgreSQL")
        if host.has_lists:
            names = tuple(f"postgresql-{major}" for major in range(10, 40))
            majors |= {name.rpartition("-")[2] for name in host.stanzas(names)}
        return majors


def upstream_version(revision: str) -> str:
    """Return the PostgreSQL version in a package version: 18.6-3 → 18.6, 19~rc1-1 → 19rc1."""
    match = _REVISION.match(revision)
    if match is None:
        raise UsageError(f"The package version {revision} does not begin with a PostgreSQL version.")
    if match[2] is None:
        return match[1]
    return f"{match[1]}.{match[2]}" if match[2].isdigit() else f"{match[1]}{match[2]}"


def _is_debian_mirrored() -> bool:
    mirror = distribution_mirror(host_sources(), host_codename())
    return mirror is not None and any(suite in _MIRROR_SUITES for suite in mirror.suites)


def _what_can_be_had(majors: list[str]) -> str:
    if not majors:
        return "add a source that does (the PostgreSQL project's own carries all supported majors)"
    return f"type 'pgassay builds install' with one of {', '.join(majors)}"
