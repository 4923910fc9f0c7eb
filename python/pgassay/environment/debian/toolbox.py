"""Small programs of the host's own suite, for a machine that lacks them."""

import os
import shutil
from pathlib import Path

from pgassay.environment.debian.archive import host_archive
from pgassay.environment.debian.relocate import library_folders, relocate
from pgassay.environment.debian.unpack import unpack
from pgassay.environment.home import home
from pgassay.errors import UsageError

PACKAGES = {
    "mkfs.xfs": "xfsprogs",
    "xfs_info": "xfsprogs",
    "patchelf": "patchelf",
    "pgbouncer": "pgbouncer",
    "mold": "mold",
}
_ADMINISTRATION_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def tool(name: str) -> Path:
    """Return a runnable path of a program: the host's own, else one unpacked privately.

    Knows the programs of PACKAGES. Raises UsageError when it cannot be had, naming the package.
    """
    found = find_tool(name)
    if found is not None:
        return found
    package = PACKAGES[name]
    destination = home() / "tools" / package
    unpack(
        (package,), host_archive(package), destination, finish=_finish_alone if name == "patchelf" else finish
    )
    found = _in_tree(destination, name)
    if found is None:
        raise UsageError(f"The package {package} holds no program {name}: install {name} on this machine.")
    return found


def find_tool(name: str) -> Path | None:
    """Return a program that is there already (on PATH, in the administrator's folders, unpacked)."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMINISTRATION_FOLDERS])
    found = shutil.which(name, path=folders)
    if found is not None:
        return Path(found)
    package = PACKAGES.get(name)
    return None if package is None else _in_tree(home() / "tools" / package, name)


def finish(root: Path, final: Path) -> None:
    """Relocate a freshly unpacked tree with patchelf."""
    relocate(root, final, tool("patchelf"))


def _finish_alone(root: Path, final: Path) -> None:
    # patchelf prepares a tree with itself in it: a copy runs on borrowed libraries meanwhile.
    patchelf = root / "usr/bin/patchelf"
    working = root.parent / "patchelf"
    shutil.copy2(patchelf, working)
    relocate(root, final, working, os.pathsep.join(str(folder) for folder in library_folders(root)))


def _in_tree(root: Path, name: str) -> Path | None:
    for folder in ("usr/bin", "usr/sbin", "bin", "sbin"):
        path = root / folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None
