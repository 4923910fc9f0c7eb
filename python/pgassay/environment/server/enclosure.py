"""Servers of somebody's data, enclosed: what functions in the data do reaches nothing of this machine.

A superuser's function may run programs, read and write files and connect to Unix sockets, all as the account
that the servers run as. So a server is shown its data, its binaries with their libraries, and the folder of
its socket, and nothing else (`enclosed_command.py`). Who is to be enclosed is decided for the whole process:
a copy's servers are started in many places, those of loads, trials and preparations among them.
"""

import json
import os
import pwd
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from pgassay.environment.home import account, home
from pgassay.environment.server import enclosed_command as enclosed

# Below these everything is shown anyway (`enclosed_command.py`).
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_LIBRARY = re.compile(r"(?:=>\s*|^\s*)(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
# Settings whose values name files of libraries.
_NAMING_LIBRARIES = (
    *("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"),
    *("dynamic_library_path", "extension_control_path"),
)
_is_on = threading.Event()


@contextmanager
def isolated(*, leaves_network: bool) -> Iterator[tuple[str, ...]]:
    """Enclose every server that is started meanwhile; yields what could not be had, as sentences.

    `leaves_network`: as root take this process off the network too, for good, with all that it starts. The
    lock of the host is one within a network namespace (`environment/lock.py`): it is to be held before.
    """
    missing = []
    refusal = why_not_enclosed()
    if refusal:
        missing.append(
            f"the copy's server is not enclosed ({refusal}): a function of the data may read files, run "
            "programs and connect to Unix sockets, as the account that the server runs as"
        )
    # An ordinary account's enclosure has no network; root's is taken off it with the process.
    if leaves_network and (os.geteuid() == 0 or refusal):
        missing += filter(None, [without_network()])
    was_on = _is_on.is_set()
    if not refusal:
        _is_on.set()
    try:
        yield tuple(missing)
    finally:
        if not was_on:
            _is_on.clear()


def without_network() -> str:
    """Leave the network for good, with all processes that are started from now on; '' when that was done.

    Else why it could not be, as a sentence. A Unix socket's path is reached from any network namespace.
    """
    if os.geteuid() != 0:
        return (
            "the copy's server listens on a Unix socket alone, but what it runs could reach the network "
            "(foreign tables, dblink): only root can take that away"
        )
    try:
        enclosed.call("unshare", enclosed.CLONE_NEWNET)
    except OSError as error:
        return (
            f"the copy's server could not be taken off the network ({error.strerror}): it listens on a Unix "
            "socket"
        )
    return ""


def why_not_enclosed() -> str:
    """Why this account can't enclose a server here, in a few words; '' where it can (it is tried: 30 ms)."""
    if sys.platform != "linux":
        return "only Linux has mount namespaces"
    try:
        tried = subprocess.run(_words((), ()), capture_output=True, text=True, check=False)
    except OSError as error:
        return error.strerror or "it can't be tried"
    return tried.stderr.strip() or ("" if tried.returncode == 0 else f"exit code {tried.returncode}")


def is_enclosing() -> bool:
    """Whether what is started now is enclosed."""
    return _is_on.is_set()


def enclosed_command(
    argv: Sequence[str],
    writable: Sequence[Path],
    readable: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
    *,
    starts: Sequence[str] = (),
    stays: Path | None = None,
) -> list[str]:
    """The command line that runs a program of PostgreSQL enclosed, as the servers' account.

    Start it as the caller, without `user=`: leaving takes rights that the account does not have. `settings`:
    a server's, some of which name libraries. `starts`: programs of other builds that it starts, which it does
    by a shell; `stays`: the folder where it begins.
    """
    program = os.path.realpath(argv[0])
    others = [path for other in starts for path in _of_build(Path(os.path.realpath(other)))]
    libraries = [*_of_build(Path(program)), *others, *_named_in(settings or {}), *_search_path()]
    words = _words(writable, (*libraries, *readable), shell=bool(starts), folder=str(stays or "/"))
    return [*words, program, *argv[1:]]


def _words(
    writable: Iterable[Path], readable: Iterable[Path | str], *, shell: bool = False, folder: str = "/"
) -> list[str]:
    owner = account()
    seen: enclosed.Seen = {
        "writable": list(dict.fromkeys(os.path.realpath(path) for path in writable)),
        "readable": list(dict.fromkeys(path for path in map(os.path.realpath, readable) if _is_hidden(path))),
        "files": _accounts(),
        "identity": None if owner is None else (owner.uid, owner.gid),
        "shell": shell,
        "folder": folder,
    }
    return [sys.executable, "-I", "-S", enclosed.__file__, json.dumps(seen)]


def _accounts() -> dict[str, str]:
    """The account of the server and that of its client, which peer authentication compares by their names."""
    owner = account()
    ids = dict.fromkeys([os.geteuid(), *([owner.uid] if owner else [])])
    users = [user for uid in ids for user in [_user(uid)] if user is not None]
    return {
        "/etc/passwd": "".join(f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}::/:/\n" for user in users),
        "/etc/group": "".join(f"{user.pw_name}:x:{user.pw_gid}:\n" for user in users),
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


def _user(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _is_hidden(path: str) -> bool:
    return path != "/" and not any(path == folder or path.startswith(f"{folder}/") for folder in _SYSTEM)


def _named_in(settings: Mapping[str, str]) -> list[str]:
    """The folders of libraries that settings name with their whole path."""
    words = [word for name in _NAMING_LIBRARIES for word in re.split(r"[,:]", settings.get(name, ""))]
    paths = [Path(path) for word in words if (path := word.strip(" \"'")).startswith("/")]
    return [str(path if path.is_dir() else path.parent) for path in paths]


def _search_path() -> list[str]:
    return [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path and Path(path).is_dir()]


@lru_cache(maxsize=32)
def _of_build(program: Path) -> tuple[str, ...]:
    """The folders that a build's program needs: all builds that pgassay installed, or its own one's."""
    builds = home() / "builds"
    if program.is_relative_to(os.path.realpath(builds)):
        return (str(builds),)
    return (str(program.parent), *_folders_of(program), *_libraries_of(program))


def _folders_of(program: Path) -> list[str]:
    """Where a build has its libraries and shared files, as its own pg_config says, or beside its programs."""
    found = [str(program.parents[1] / name) for name in ("lib", "lib64", "share")]
    config = program.parent / "pg_config"
    if config.exists():
        options = ("--libdir", "--pkglibdir", "--sharedir", "--localedir")
        found += [_answer([str(config), option]).strip() for option in options]
    return [path for path in found if path.startswith("/") and Path(path).is_dir()]


def _libraries_of(program: Path) -> list[str]:
    """The folders of the libraries that it is linked with."""
    found = _LIBRARY.findall(_answer(["ldd", str(program)]))
    return list(dict.fromkeys(str(Path(path).parent) for path in found if _is_hidden(os.path.realpath(path))))


def _answer(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
