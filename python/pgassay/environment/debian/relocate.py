"""Makes unpacked programs find their own loader and libraries, wherever they were unpacked.

Uses patchelf on the programs and on the server's own modules. The C library and the loader are
never changed: a patched loader does not start.
"""

import os
import subprocess
from pathlib import Path

from pgassay.errors import UsageError

_ELF_MAGIC = b"\x7fELF"
_PROGRAM_FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/lib/postgresql/*/bin")
_MODULE_FOLDERS = ("usr/lib/postgresql/*/lib",)
_LIBRARY_FOLDERS = (
    "usr/lib/*-linux-gnu*",
    "lib/*-linux-gnu*",
    "usr/lib/postgresql/*/lib",
    "usr/lib/llvm-*/lib",
)
_LOADERS = (
    "lib/*-linux-gnu*/ld-linux*.so.*",
    "usr/lib/*-linux-gnu*/ld-linux*.so.*",
    "lib*/ld-linux*.so.*",
    "usr/lib*/ld-linux*.so.*",
)


def relocate(root: Path, final: Path, patchelf: Path, libraries_of_patchelf: str = "") -> None:
    """Patch the tree at `root` so that it runs once it stands at `final`.

    Programs get the tree's loader when the tree holds one, and an rpath to its library folders;
    server modules get the rpath alone. Raises UsageError naming the file that cannot be patched.
    """
    rpath = ":".join(str(final / folder.relative_to(root)) for folder in library_folders(root))
    if not rpath:
        return
    loader = find_loader(root)
    environment = os.environ | ({"LD_LIBRARY_PATH": libraries_of_patchelf} if libraries_of_patchelf else {})
    for path in elf_files(root, _PROGRAM_FOLDERS):
        options = ["--force-rpath", "--set-rpath", rpath]
        if loader is not None and _has_interpreter(path, patchelf, environment):
            options = ["--set-interpreter", str(final / loader.relative_to(root)), *options]
        _patch(path, patchelf, options, environment)
    for path in elf_files(root, _MODULE_FOLDERS):
        _patch(path, patchelf, ["--force-rpath", "--set-rpath", rpath], environment)


def library_folders(root: Path) -> list[Path]:
    """Return the folders of `root` that hold shared libraries."""
    folders = [path for pattern in _LIBRARY_FOLDERS for path in sorted(root.glob(pattern)) if path.is_dir()]
    return list(dict.fromkeys(folders))


def find_loader(root: Path) -> Path | None:
    """Return the dynamic loader in `root`, or None when its packages brought no C library."""
    for pattern in _LOADERS:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                return path
    return None


def elf_files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Return the ELF files that stand directly in folders matching `patterns` (no links)."""
    files = []
    for pattern in patterns:
        for folder in sorted(root.glob(pattern)):
            files += [path for path in sorted(folder.iterdir()) if is_elf(path)]
    return files


def is_elf(path: Path) -> bool:
    """Whether `path` is a regular ELF file."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(4) == _ELF_MAGIC


def _has_interpreter(path: Path, patchelf: Path, environment: dict[str, str]) -> bool:
    result = subprocess.run(
        [patchelf, "--print-interpreter", path],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return result.returncode == 0


def _patch(path: Path, patchelf: Path, options: list[str], environment: dict[str, str]) -> None:
    mode = path.stat().st_mode
    if not mode & 0o200:
        path.chmod(mode | 0o200)
    result = subprocess.run(
        [patchelf, *options, path],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    path.chmod(mode)
    if result.returncode != 0:
        raise UsageError(
            f"patchelf could not prepare {path.name} ({result.stderr.strip() or 'it gave no reason'}): "
            "report this file and the package version, and use an installed PostgreSQL meanwhile."
        )
