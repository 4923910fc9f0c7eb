"""The table of origins of builds, and how what a user types becomes one Build.

A new origin is one file and one line here.
"""

from collections.abc import Sequence

from pgassay.environment.builds.apt import AptOrigin
from pgassay.environment.builds.base import (
    RELEASED,
    Origin,
    check_version,
    names_version,
    parse_version,
    version_key,
    way_to_install,
)
from pgassay.environment.builds.installed import InstalledOrigin
from pgassay.environment.builds.npm import NpmOrigin
from pgassay.environment.builds.path import PathOrigin
from pgassay.environment.builds.source import SourceOrigin
from pgassay.environment.builds.wheel import WheelOrigin
from pgassay.environment.debian import has_apt
from pgassay.environment.source_builds.tree_syntax import is_source
from pgassay.errors import UsageError
from pgassay.model.build import Build

# The order is a rule: of builds that are alike otherwise, the one of the earlier origin is taken.
ORIGINS: tuple[Origin, ...] = (
    InstalledOrigin(),
    AptOrigin(),
    WheelOrigin(),
    NpmOrigin(),
)
PATH_ORIGIN = PathOrigin()
# Not among the others: a tree that somebody works on is never what `--pg 18` means.
SOURCE_ORIGIN = SourceOrigin()
MAJOR_MIN = 16
MAJOR_TO_INSTALL = "18"


def origin_named(name: str) -> Origin:
    """Return an origin by its name. Raises UsageError listing the names."""
    for origin in ORIGINS:
        if origin.name == name:
            return origin
    names = ", ".join(origin.name for origin in ORIGINS)
    raise UsageError(f"'{name}' is not an origin of PostgreSQL builds: use one of {names}, or a path.")


def resolve(text: str | None = None, origins: Sequence[Origin] = ORIGINS) -> Build:
    """Return the build that `--pg TEXT` names; nothing is downloaded or built.

    `18` or `18.6`: any origin; a build with io_uring goes before one without (that is what an
    installed 18 without liburing loses to an unpacked one), then the newer version, then the order
    of ORIGINS. `apt:18`: that origin alone. A text with a slash, or the name of a
    folder: a bin folder. `git:PATH@REV`, `source:FOLDER`: what was built from it.
    None: the newest major of at least 16 at hand, then as above.
    Raises UsageError saying what to type when there is no such build.
    """
    if text is None:
        return _default_build(origins)
    if is_source(text):
        return _built_from(text)
    if "/" in text or text in (".", "..") or text.startswith("~"):
        found = PATH_ORIGIN.find(text)
        if found is not None:
            return found
    name, separator, version = text.rpartition(":")
    check_version(version)
    searched = [origin_named(name)] if separator else list(origins)
    build = _best(
        [build for origin in searched for build in origin.builds() if names_version(version, build)]
    )
    if build is None and parse_version(version)[0] < MAJOR_MIN:
        raise UsageError(
            f"pgassay measures PostgreSQL {MAJOR_MIN} and newer, and not {version}: 'pgassay builds' "
            "shows what is available"
        )
    if build is None:
        where = f" of origin {name}" if separator else ""
        raise UsageError(
            f"There is no PostgreSQL {version}{where} at hand: "
            f"{way_to_install(text, with_apt=_can_unpack(searched, version))}; "
            "'pgassay builds' shows what is available."
        )
    return build


def _built_from(text: str) -> Build:
    found = SOURCE_ORIGIN.find(text)
    if found is None:
        raise UsageError(f"{text} is not built yet: type 'pgassay builds build {text}'")
    return found


def measured_by_make(texts: Sequence[str]) -> bool:
    """Whether source trees that are measured together are built by make: one of them has no meson.build.

    Raises UsageError for one that is older than what is measured, before it is built.
    """
    found = [(text, SOURCE_ORIGIN.tree(text)) for text in texts]
    for text, tree in found:
        if tree.major < MAJOR_MIN:
            raise UsageError(
                f"{text} is PostgreSQL {tree.version}, which 'pgassay builds build' builds and pgassay does "
                f"not measure: name a revision of {MAJOR_MIN} or newer"
            )
    return not all(tree.has_meson for _, tree in found)


def check_major(typed: str, build: Build) -> None:
    """Raise UsageError when the build that was `typed` so is older than what pgassay measures."""
    if build.major < MAJOR_MIN:
        raise UsageError(
            f"{typed}: PostgreSQL {build.version} is older than {MAJOR_MIN}, the oldest that pgassay "
            f"measures: {way_to_install(MAJOR_TO_INSTALL, with_apt=_can_unpack(ORIGINS, MAJOR_TO_INSTALL))} "
            f"and use --pg {MAJOR_TO_INSTALL}"
        )


def install(text: str) -> Build:
    """Provide the build that TEXT names (`18`, `18.6`, `apt:18`) and return it.

    Without an origin, the first that has the version at hand or offers its major, else apt. Raises
    UsageError saying why it cannot be had.
    """
    name, separator, version = text.rpartition(":")
    check_version(version)
    if separator:
        return origin_named(name).install(version)
    providers = [origin for origin in ORIGINS if origin.name != InstalledOrigin.name]
    able = (origin for origin in providers if origin.find(version) is not None or offers(origin, version))
    return next(able, providers[0]).install(version)


def releases_in(text: str) -> tuple[str, ...]:
    """`npm:17.0..17.10` → every release from the one to the other that the origin has, oldest first.

    Any other text is itself. Asks the network. Raises UsageError for a range of which there is none.
    """
    name, separator, rest = text.rpartition(":")
    first, is_range, last = rest.partition("..")
    if not is_range:
        return (text,)
    ends = parse_version(check_version(first)), parse_version(check_version(last))
    origins = [origin_named(name)] if separator else [NpmOrigin()]
    found = [
        f"{origin.name}:{version}"
        for origin in origins
        for version in sorted(origin.releases(), key=parse_version)
        if ends[0] <= parse_version(version) <= ends[1]
    ]
    if not found:
        raise UsageError(
            f"{text}: {origins[0].name} has no release from {first} to {last}: name the older one first, as "
            "npm:17.0..17.10 (npm alone has all of a major's releases)"
        )
    return tuple(found)


def offered(origin: Origin) -> list[str]:
    """What of an origin's builds can be installed and measured; asks no network.

    One that is too old is told where it is at hand, and not offered.
    """
    return [version for version in origin.obtainable() if parse_version(version)[0] >= MAJOR_MIN]


def offers(origin: Origin, version: str) -> bool:
    """Whether `pgassay builds install ORIGIN:VERSION` can be expected to work; asks no network."""
    return str(parse_version(version)[0]) in offered(origin)


def _can_unpack(origins: Sequence[Origin], version: str) -> bool:
    return has_apt() or any(offers(origin, version) for origin in origins)


def _default_build(origins: Sequence[Origin]) -> Build:
    builds = [build for origin in origins for build in origin.builds() if build.major >= MAJOR_MIN]
    # A release candidate is for those who ask for it by name.
    released = [build for build in builds if version_key(build)[1] == RELEASED]
    build = _best(released or builds)
    if build is None:
        raise UsageError(
            f"There is no PostgreSQL {MAJOR_MIN} or newer at hand: "
            f"{way_to_install(MAJOR_TO_INSTALL, with_apt=_can_unpack(origins, MAJOR_TO_INSTALL))}."
        )
    return build


def _best(builds: Sequence[Build]) -> Build | None:
    # max() keeps the first of equals, so the order of the origins decides last.
    return max(builds, key=lambda build: (build.major, build.has_io_uring, version_key(build)), default=None)
