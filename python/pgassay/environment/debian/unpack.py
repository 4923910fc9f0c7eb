"""Unpacks packages and their libraries into one folder that is there whole or not at all."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pgassay.environment.debian.archive import Archive
from pgassay.environment.home import home
from pgassay.errors import UsageError

MANIFEST = "unpacked.json"
Finish = Callable[[Path, Path], None]
Stanzas = dict[str, dict[str, str]]
_NAME = re.compile(r"^\s*([a-z0-9][a-z0-9+.-]+)")
# The host's own C library serves packages of the host's own release. Its loader and its libraries
# must stay one pair, so these come together or not at all.
_C_LIBRARY = ("libc6", "libc-bin", "libc6-i386")
# Data and helpers whose names begin with `lib` but which hold nothing that a loader opens.
_NOT_LIBRARIES = re.compile(r"^(lib.*-(data|bin|common|runtime|modules.*|doc|perl)|libpam-.*)$")


def library_closure(
    packages: tuple[str, ...], look_up: Callable[[tuple[str, ...]], Stanzas], *, with_libc: bool
) -> tuple[Stanzas, list[str]]:
    """Return ({package: fields} of `packages` and all libraries they need, those not found).

    `look_up` maps names to the stanzas of those that exist. Of alternatives (`a | b`) the first
    library counts. `with_libc` says whether the C library belongs to the closure.
    """
    found: Stanzas = {}
    missing: list[str] = []
    wanted = packages
    while wanted:
        stanzas = look_up(wanted)
        missing += [name for name in wanted if name not in stanzas]
        found |= stanzas
        needed = {
            name
            for fields in stanzas.values()
            for name in library_dependencies(fields)
            if with_libc or name not in _C_LIBRARY
        }
        wanted = tuple(sorted(needed - found.keys() - set(missing)))
    return found, missing


def library_dependencies(fields: dict[str, str]) -> list[str]:
    """Return the library packages that a stanza depends on."""
    names = []
    for field in ("pre-depends", "depends"):
        for group in fields.get(field, "").split(","):
            alternatives = [match[1] for part in group.split("|") if (match := _NAME.match(part))]
            library = next((name for name in alternatives if is_library(name)), None)
            if library is not None:
                names.append(library)
    return names


def is_library(name: str) -> bool:
    """Whether a package holds shared libraries, going by its name."""
    return (name.startswith("lib") or name == "zlib1g") and not _NOT_LIBRARIES.match(name)


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
            "see 'pgassay builds' for what is available on this machine."
        )
    return stanzas


def read_manifest(destination: Path) -> Unpacked | None:
    """Return what a finished folder was made from; None when it is not whole, or was moved."""
    try:
        fields = json.loads((destination / MANIFEST).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    unpacked = Unpacked(**fields)
    # The same place by a link is the same place.
    return unpacked if Path(unpacked.destination).resolve() == destination.resolve() else None


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
