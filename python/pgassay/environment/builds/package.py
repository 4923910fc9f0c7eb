"""What the origins that unpack somebody's package share: run its client, place files, keep them whole.

The servers run as another account when pgassay runs as root, so folders are 0755 and files 0644 or
0755 whatever the umask and whatever the archive says.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from pgassay.environment.atomic_folder import PARTIAL_SUFFIX, locked, made_whole
from pgassay.environment.home import home
from pgassay.environment.linux.settle import sync_tree
from pgassay.errors import UsageError

# A slow line must be able to bring 30 MB; a client that hangs must end.
CLIENT_TIMEOUT_S = 900


def run_client(command: Sequence[str], purpose: str, remedy: str) -> str:
    """Run a package client and return its standard output.

    Raises UsageError with the client's own last complaint when it fails: `purpose` says what could not
    be done, `remedy` what to do.
    """
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLIENT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{purpose} failed ({error}): {remedy}.") from error
    if result.returncode != 0:
        raise UsageError(f"{purpose} failed ({_complaint(result.stderr, command[0])}): {remedy}.")
    return result.stdout


def _complaint(text: str, program: str) -> str:
    """The line of a client's complaint that says most: the first that names an error, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.casefold() and "log of this run" not in line]
    found = (errors or lines)[:1] if errors else lines[-1:]
    return found[0][:300].rstrip(".") if found else f"{Path(program).name} gave no reason"


def origin_folder(origin: str) -> Path:
    """Where the unpacked packages of an origin stand (it need not exist)."""
    return home() / "builds" / origin


def whole_folders(origin: str) -> list[Path]:
    """The finished packages of an origin, sorted by name."""
    folders = sorted(origin_folder(origin).glob("*"))
    return [path for path in folders if path.is_dir() and PARTIAL_SUFFIX not in path.name]


def unpack_whole(origin: str, name: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder of a package, filled by `fill(root)` and synced first when it isn't there yet.

    It appears under its name whole or not at all; another process that unpacks the same is waited for.
    """
    parent = origin_folder(origin)
    make_open_folder(parent)
    final = parent / name
    with locked(_builds() / f"{origin}.lock"):
        if not final.is_dir():
            with made_whole(final) as partial:
                make_open_folder(partial)
                fill(partial)
                sync_tree(partial)
    return final


def write_package_file(root: Path, name: str, content: bytes, *, executable: bool) -> None:
    """Write one file of an archive below `root`; raises UsageError for a name that leads out of it."""
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise UsageError(f"The package holds a file named {name}, outside its own folder: it is not used.")
    path = root / relative
    _make_parents(root, path.parent)
    path.write_bytes(content)
    path.chmod(0o755 if executable else 0o644)


def link(root: Path, name: str, target: str) -> None:
    """Make the link `name` to `target`, both below `root` and in one folder, where there is nothing."""
    path, source = root / name, root / target
    if ".." in PurePosixPath(name).parts or path.parent != source.parent or not source.is_file():
        raise UsageError(
            f"The package names a link {name} to {target}, which is not in the package: it is not used."
        )
    if not path.exists() and not path.is_symlink():
        path.symlink_to(source.name)


def make_open_folder(path: Path) -> None:
    """Make a folder that every account can enter, whatever the umask is."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)


def _make_parents(root: Path, folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(root) and not path.is_dir()]
    for path in reversed(missing):
        make_open_folder(path)


def _builds() -> Path:
    folder = home() / "builds"
    make_open_folder(folder)
    return folder


def machine_name() -> tuple[str, str]:
    """(system, processor) in lower case, as `uname` has them: ('linux', 'x86_64')."""
    names = os.uname()
    return names.sysname.lower(), names.machine.lower()
