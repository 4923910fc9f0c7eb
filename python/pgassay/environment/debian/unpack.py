"""Unpacks packages and their libraries into one folder that is there whole or not at all."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pgassay.environment.debian.archive import Archive
from pgassay.environment.debian.closure import Stanzas, library_closure
from pgassay.environment.home import home
from pgassay.errors import UsageError

MANIFEST = "unpacked.json"
Finish = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Unpacked:
    """What a folder was made from. `destination` is where it must stand to run."""

    destination: str
    suite: str
    packages: dict[str, str]
    download_bytes: int


def unpack(
    packages: tuple[str, ...],
    archive: Archive,
    destination: Path,
    *,
    optional: tuple[str, ...] = (),
    finish: Finish | None = None,
) -> Unpacked:
    """Unpack `packages` and the closure of their libraries from `archive` into `destination`.

    `optional` packages are left out where the archive has none of that name. `finish(root, final)`
    prepares the tree before it is renamed into place. A folder that is whole already is left as it
    is. Raises UsageError naming packages and suite when something cannot be had.
    """
    with lock(destination):
        present = read_manifest(destination)
        if present is not None:
            return present
        archive.refresh()
        stanzas = choose(packages, optional, archive)
        temporary = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=_parent(destination)))
        try:
            root = temporary / "root"
            root.mkdir(mode=0o755)
            download_bytes = _fetch_and_extract(archive, stanzas, temporary, root)
            if finish is not None:
                finish(root, destination)
            unpacked = Unpacked(
                destination=str(destination),
                suite=archive.suite,
                packages={name: fields["version"] for name, fields in sorted(stanzas.items())},
                download_bytes=download_bytes,
            )
            (root / MANIFEST).write_text(json.dumps(asdict(unpacked), indent=1) + "\n")
            os.sync()
            if destination.exists():
                # Without a manifest that names this very place it is a leftover, never a result.
                shutil.rmtree(destination)
            root.rename(destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return unpacked


def choose(packages: tuple[str, ...], optional: tuple[str, ...], archive: Archive) -> Stanzas:
    """Return the stanzas to unpack. Raises UsageError naming the packages that do not exist."""
    offered = tuple(archive.stanzas(optional))
    stanzas, missing = library_closure(packages + offered, archive.stanzas, with_libc=not archive.own_libc)
    absent = [name for name in packages if name in missing]
    if absent:
        raise UsageError(
            f"The suite {archive.suite} has no package {' and '.join(absent)}: "
            "see 'pgassay builds' for what can be had on this machine."
        )
    return stanzas


def read_manifest(destination: Path) -> Unpacked | None:
    """Return what a finished folder was made from; None when it is not whole, or was moved."""
    try:
        fields = json.loads((destination / MANIFEST).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    unpacked = Unpacked(**fields)
    return unpacked if unpacked.destination == str(destination) else None


@contextlib.contextmanager
def lock(destination: Path) -> Iterator[None]:
    """Hold the file lock of one destination; the kernel releases it whatever happens."""
    folder = home() / "locks"
    folder.mkdir(exist_ok=True)
    name = str(destination).strip("/").replace("/", "-")
    with (folder / f"{name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _fetch_and_extract(archive: Archive, stanzas: Stanzas, temporary: Path, root: Path) -> int:
    folder = temporary / "packages"
    folder.mkdir()
    files = archive.download(stanzas, folder)
    size = sum(path.stat().st_size for path in files)
    for path in files:
        result = subprocess.run(
            ["dpkg-deb", "-x", path, root],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise UsageError(
                f"dpkg-deb could not unpack {path.name} into {root} ({result.stderr.strip()}): "
                "check the free space there, then type the same again."
            )
    shutil.rmtree(folder)
    # dpkg-deb gives the folder the mode that the package names; others must be able to enter it.
    root.chmod(0o755)
    return size


def _parent(destination: Path) -> Path:
    parent = destination.parent
    parent.mkdir(parents=True, exist_ok=True)
    return parent
