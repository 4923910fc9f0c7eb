"""Where pgassay keeps things on a machine, and which account runs the servers.

Standard library only: the set-up tool uses it before any package is installed. Below `home()`:

    builds/ORIGIN/VERSION/     unpacked binaries: world-readable, never writable by the servers' account
    builds/source/KEY/         built from source; source-work/ and source-trees.git/ serve the next one
    data/                      mode 0700, owned by the account that runs the servers
      snapshots/KEY/           a frozen data directory; KEY is a hash of its layers (build, dataset, prepare)
      work/VOLUME/KEY/copy-N/  a working copy: 0 for the arms, 1 for the twin, from 2 on for the factor `copy`
    images/                    loop images
    registry/                  one JSON file for each temporary resource, with its owner
    chart-library/             the JavaScript of live charts, bundled once because that takes seconds
    probes/DEVICE-KEY.json     the last whole probe of each disk; `compare` copies its ceilings
    history.json               how long trials of each kind of experiment took here, and how they spread
    ledger.json                what all experiments of this machine said of copies, positions and neighbours
    fleet/nodes/FLEET/NAME/    a process of a fleet: its keys, its settings, its log
    fleet/runs/, fleet/files/  experiments that a fleet ran here, and the files that they were given
    fleet/local/N/             the home of a worker that has a part of this machine
    volumes.toml               cloud volumes, instances and prices of the user's own, where there are any
    machine-id                 an opaque id, where the machine has none of its own

Sockets of servers lie in private folders under `/tmp`, since the path of a Unix socket is short.
"""

import os
import pwd
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.value_syntax.paths import typed_path

SYSTEM_HOME = Path("/var/cache/pgassay")
SERVER_ACCOUNTS = ("postgres", "nobody")
# Everything below data/ and images/ can be created again; results are kept elsewhere, by the user.
KEPT = ("data/snapshots", "data/work", "data/validation", "images")
# Below it the homes of workers that share this machine (`pgassay fleet start --local`), each a number.
LOCAL_WORKERS = "fleet/local"


@dataclass(frozen=True)
class SystemAccount:
    """An operating-system account that servers run as."""

    name: str
    uid: int
    gid: int


@lru_cache(maxsize=1)
def account() -> SystemAccount | None:
    """Return the account that runs the servers, or None when they run as the caller.

    PostgreSQL refuses to run as root, so root hands its servers to `postgres`, else to `nobody`.
    Raises UsageError when the caller is root and neither account exists.
    """
    if os.geteuid() != 0:
        return None
    for name in SERVER_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return SystemAccount(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise UsageError(
        "PostgreSQL does not run as root and this machine has neither an account 'postgres' nor 'nobody': "
        "create one with 'useradd --system postgres', or run pgassay as an ordinary user."
    )


def home() -> Path:
    """Return the folder for builds, data, images and the registry; make it when it is missing.

    `$PGASSAY_HOME`, else /var/cache/pgassay for root, else `$XDG_CACHE_HOME/pgassay` or
    ~/.cache/pgassay. The folder is 0755 and its `data` folder 0700, owned by the servers' account.
    Raises UsageError when it cannot be made, or when the servers' account cannot reach it.
    """
    return _prepare(home_path(), account())


def home_path() -> Path:
    """Return where home is, links followed, without making or checking anything.

    The kernel names mounts and the files of loop devices by their real paths: what is mounted below a link
    would not be found again. Raises UsageError for an account without a home of its own, where none is named.
    """
    named = os.environ.get("PGASSAY_HOME")
    if named:
        return typed_path(named).resolve()
    if os.geteuid() == 0:
        return SYSTEM_HOME.resolve()
    cache = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification tells programs to ignore a relative path here.
    if cache and Path(cache).is_absolute():
        return (Path(cache) / "pgassay").resolve()
    try:
        return (Path.home() / ".cache" / "pgassay").resolve()
    except RuntimeError as error:
        # As in a container that runs as a number without an account.
        raise UsageError(
            "this account has no home folder: set PGASSAY_HOME to a folder you can write to"
        ) from error


@lru_cache(maxsize=8)
def _prepare(path: Path, owner: SystemAccount | None) -> Path:
    data = path / "data"
    try:
        _make_open_folders(path)
        if not data.is_dir():
            data.mkdir(mode=0o700, exist_ok=True)
        if owner is not None and data.stat().st_uid != owner.uid:
            os.chown(data, owner.uid, owner.gid)
        # Both PostgreSQL and this folder's promise want 0700 whatever the umask was.
        if data.stat().st_uid == os.geteuid() or owner is not None:
            data.chmod(0o700)
    except OSError as error:
        raise UsageError(
            f"pgassay cannot use the folder {path} ({error.strerror}): "
            "set PGASSAY_HOME to a folder you can write to."
        ) from error
    closed = None if owner is None else closed_folder(path, owner)
    if owner is not None and closed is not None:
        raise UsageError(
            f"The account {owner.name}, which runs the servers, cannot enter {closed} on the way to {path}: "
            f"set PGASSAY_HOME to a folder it can reach, such as {SYSTEM_HOME}."
        )
    return path


def _make_open_folders(path: Path) -> None:
    """Make `path` and its missing parents so that every account can enter them, whatever the umask is."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def closed_folder(path: Path, owner: SystemAccount) -> Path | None:
    """Return a folder on the way to (or at) `path` that `owner` may not enter; None when all are open."""
    for folder in (path, *path.parents):
        status = folder.stat()
        if status.st_uid == owner.uid:
            bit = 0o100
        elif status.st_gid == owner.gid:
            bit = 0o010
        else:
            bit = 0o001
        if not status.st_mode & bit:
            return folder
    return None


def remove_kept() -> list[str]:
    """Remove everything kept; the caller holds the host's lock, so no experiment uses it.

    `pgassay volumes mount` holds none: what it has mounted there stays, with a sentence that says so.
    """
    from pgassay.environment.linux.mounts import mounts

    sentences = []
    points = [mount.point for mount in mounts()]
    homes = [home(), *sorted((home() / LOCAL_WORKERS).glob("*"))]
    for folder in (each / name for each in homes for name in KEPT):
        if not folder.is_dir():
            continue
        size = 0
        for entry in folder.iterdir():
            if any(point.is_relative_to(entry) for point in points):
                sentences.append(f"left {entry}, where something is mounted: end what uses it")
                continue
            is_folder = entry.is_dir() and not entry.is_symlink()
            size += sum(path.lstat().st_blocks * 512 for path in (entry, *entry.rglob("*")))
            if is_folder:
                shutil.rmtree(entry)
            else:
                entry.unlink()
        sentences.append(f"removed {folder.relative_to(home())} ({size >> 20} MB)")
    return sentences
