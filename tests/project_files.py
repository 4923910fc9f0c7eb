"""The files of the project: what git tracks, and what is new and not ignored. Python's also as syntax."""

import ast
import subprocess
import tarfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def project_files() -> tuple[Path, ...]:
    """Every such file that exists, in order; in a checkout that belongs to another account too."""
    listing = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    command = ["git", "-c", f"safe.directory={ROOT}", *listing]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(ROOT / name for name in sorted(listed.split("\0")) if name and (ROOT / name).is_file())


@cache
def syntax(path: Path) -> ast.Module:
    """The syntax tree of a Python file, made once for all tests of this process."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of it."""
    return tuple(ast.walk(syntax(path)))


def unpack_archive(archive: tarfile.TarFile, folder: Path) -> None:
    """An archive of the tests' own; Python has the filter, and later on asks for it, since 3.11.4."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
