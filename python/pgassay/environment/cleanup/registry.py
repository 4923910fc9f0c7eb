"""What must be removed, written down before it is made, so that a crash leaves nothing behind.

One JSON file per temporary resource in home()/registry names its owner: pid, start time, boot and
pid namespace. `sweep` removes what dead owners left. Kinds and their details:

| kind | details |
|---|---|
| server | data_directory |
| pooler | folder (of a PgBouncer) |
| mount | path |
| loop | backing_file (the device's number is not known before it is attached) |
| volume | path (of the file system below a loop device; who serves it stands in the list of mounts) |
| cgroup | paths |
| folder | path |
| read_ahead | disk, value_kb to restore |
| probe | path |
"""

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pgassay.durable import flush, sync
from pgassay.environment.cleanup import imitated_devices, removal
from pgassay.environment.home import home
from pgassay.environment.linux import machine
from pgassay.environment.linux.processes import process_stat
from pgassay.errors import MeasurementError, PgassayError, UsageError

Kind = Literal["server", "mount", "loop", "volume", "cgroup", "folder", "read_ahead", "probe", "pooler"]

# What stands on something goes before it: a server runs on a mount, that on a loop device.
REMOVAL_ORDER: tuple[Kind, ...] = (
    *("pooler", "server", "mount", "read_ahead", "loop", "volume"),
    *("cgroup", "folder", "probe"),
)
_SURVIVES_REBOOT: tuple[Kind, ...] = ("folder", "probe")
_FORMAT = 1


@dataclass(frozen=True)
class CleanupToken:
    """A registered resource; give it to `forget` when the resource is gone."""

    file: Path


@dataclass(frozen=True)
class Owner:
    """A process, told apart from a later one of the same pid. `start_ticks` is field 22 of proc(5) stat."""

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: str


Details = Mapping[str, object]


@dataclass(frozen=True)
class _Entry:
    file: Path
    kind: Kind
    owner: Owner
    details: Details


def register(kind: Kind, **details: str | int | list[str] | None) -> CleanupToken:
    """Write down a resource about to be made; it is on the device when this returns.

    `details` as the module's table says. Raises MeasurementError when it can't be written: then the
    resource must not be made.
    """
    folder = _folder()
    document = {"format": _FORMAT, "kind": kind, "owner": vars(own_identity()), "details": details}
    file = folder / f"{kind}-{os.getpid()}-{secrets.token_hex(4)}.json"
    temporary = file.with_suffix(".tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            json.dump(document, opened, default=str)
            flush(opened)
        temporary.rename(file)
        sync(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MeasurementError(
            f"Could not write {file}, without which a crash would leave a {kind} behind: {error.strerror}."
        ) from error
    return CleanupToken(file)


def forget(token: CleanupToken) -> None:
    """The resource is gone (or stays on purpose); may be called twice."""
    token.file.unlink(missing_ok=True)


def sweep() -> list[str]:
    """Remove what dead owners left, and return one sentence for each thing removed or not removable.

    Never touches what a living process registered, nor anything that is not what its entry says.
    After a reboot only files are left to remove. An entry that could not be worked off stays for
    the next sweep.
    """
    sentences: list[str] = []
    entries: list[_Entry] = []
    for file in sorted(_folder().glob("*.json")):
        try:
            entries.append(_read(file))
        except (UsageError, MeasurementError) as error:
            sentences.append(str(error))
    alive = {_identity(entry) for entry in entries if is_alive(entry.owner)}
    left = [entry for entry in entries if not is_alive(entry.owner)]
    for entry in left:
        if entry.kind == "volume":
            # Whatever lies on it would else wait for it for ever; its own removal says what fails here.
            with contextlib.suppress(PgassayError, KeyError, ValueError, OSError):
                imitated_devices.stop_serving(_path(entry.details["path"]))
    for entry in sorted(left, key=lambda entry: REMOVAL_ORDER.index(entry.kind)):
        rebooted = entry.owner.boot_id != machine.boot_id() and entry.kind not in _SURVIVES_REBOOT
        # The same image, mounted again by a living process, is that process's now.
        taken_over = _identity(entry) in alive
        try:
            sentence = "" if rebooted or taken_over else _REMOVERS[entry.kind](entry.details)
        except (PgassayError, OSError) as error:
            # A disk that fails, or a program that is not there: nobody's experiment must end for it.
            said = f"{error.strerror} ({error.filename})." if isinstance(error, OSError) else str(error)
            sentences.append(f"Leftovers of process {entry.owner.pid} could not be removed: {said}")
            continue
        except (KeyError, TypeError, ValueError) as error:
            sentences.append(f"{entry.file} does not say what to remove ({error}): delete it.")
            continue
        if sentence:
            sentences.append(f"{sentence}, left by process {entry.owner.pid}.")
        entry.file.unlink(missing_ok=True)
    _remove_unfinished()
    return sentences


def _remover(key: str, remove: Callable[[Path], bool], done: str) -> Callable[[Details], str]:
    """Removes what lies at the path under `key`; `done`: the words before that path, where it was there."""

    def removed(details: Details) -> str:
        path = _path(details[key])
        return f"{done} {path}" if remove(path) else ""

    return removed


def _remove_cgroups(details: Details) -> str:
    removed = [path for path in _paths(details["paths"]) if removal.remove_cgroup(path)]
    return f"Removed the cgroup {removed[0].name}" if removed else ""


def _restore_read_ahead(details: Details) -> str:
    disk, value_kb = str(details["disk"]), int(str(details["value_kb"]))
    restored = removal.restore_read_ahead(disk, value_kb)
    return f"Set the read-ahead of {disk} back to {value_kb} kB" if restored else ""


_REMOVERS: dict[Kind, Callable[[Details], str]] = {
    "server": _remover("data_directory", removal.kill_server, "Stopped the server in"),
    "pooler": _remover("folder", removal.end_pooler, "Stopped PgBouncer in"),
    "mount": _remover("path", removal.unmount, "Unmounted"),
    "read_ahead": _restore_read_ahead,
    "loop": _remover("backing_file", removal.detach_loop, "Detached the loop device of"),
    "volume": _remover("path", imitated_devices.end_volume, "Ended the imitated volume at"),
    "cgroup": _remove_cgroups,
    "folder": _remover("path", removal.remove_folder, "Removed the folder"),
    "probe": _remover("path", removal.remove_probe_folder, "Removed the probe's files in"),
}


def _path(value: object) -> Path:
    path = Path(str(value))
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} is not an absolute path")
    return path


def _paths(value: object) -> list[Path]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list of paths")
    return [_path(each) for each in value]


def _folder() -> Path:
    """The registry's folder: only its owner may write there, since root acts on what it says."""
    folder = home() / "registry"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(
            f"The folder {folder} is writable by other accounts than the one that "
            f"runs pgassay: check it, then run chown {os.geteuid()} {folder} && chmod 700 {folder}."
        )
    return folder


def _read(file: Path) -> _Entry:
    try:
        with os.fdopen(
            os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8"
        ) as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise ValueError("it is not a file of this account")
            document = json.load(opened)
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']}")
        if document["kind"] not in get_args(Kind):
            raise ValueError(f"its kind is {document['kind']!r}")
        owner = document["owner"]
        return _Entry(
            file=file,
            kind=document["kind"],
            owner=Owner(
                int(owner["pid"]),
                int(owner["start_ticks"]),
                str(owner["boot_id"]),
                str(owner["pid_namespace"]),
            ),
            details=dict(document["details"]),
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MeasurementError(f"{file} can't be used ({error}): delete it.") from error


def own_identity() -> Owner:
    """This process."""
    return Owner(os.getpid(), _start_ticks(os.getpid()) or 0, machine.boot_id(), _pid_namespace())


def is_alive(owner: Owner) -> bool:
    """Whether the process is still there; one of another pid namespace can't be called dead."""
    if owner.boot_id != machine.boot_id():
        return False
    if owner.pid_namespace != _pid_namespace():
        return True  # its pids mean nothing here, so it can't be called dead
    return _start_ticks(owner.pid) == owner.start_ticks


def _start_ticks(pid: int) -> int | None:
    """When the process started, in ticks since boot; None when there is none (a zombie is none)."""
    stat = process_stat(pid)
    if stat is None and not Path("/proc/self/stat").exists():  # no /proc at all: "a process of that pid"
        return 0 if _exists(pid) else None
    return None if stat is None or stat.has_ended else stat.started_ticks


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _identity(entry: _Entry) -> str:
    return json.dumps([entry.kind, entry.details], sort_keys=True)


def _remove_unfinished() -> None:
    """A `.tmp` file of a dead process: it died while writing, before it made the resource."""
    for file in _folder().glob("*.tmp"):
        words = file.stem.split("-")
        if len(words) == 3 and words[1].isdigit() and _start_ticks(int(words[1])) is None:
            file.unlink(missing_ok=True)
