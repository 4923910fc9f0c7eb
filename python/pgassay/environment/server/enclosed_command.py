"""A command that sees nothing of the machine but what it is shown, run as a script with the standard library.

The process gets a mount namespace of its own and, in place of the root folder, an empty one: in it are the
libraries and the folders that are named, all without the right to run what lies in a folder that can be
written. There is no program of the system, so none can be started, and a shell and cp only for a command that
can't do without (pg_upgrade); no /proc, whose `root` links lead out; no socket and no file of anybody else.
Then it gives its rights up for good and becomes the command: it stays the same process, so whoever started it
waits for it. An ordinary account does it in a user namespace of its own, which brings a network namespace
without any device. Sources: mount_namespaces(7), pivot_root(2), mount_setattr(2) (Linux 5.12),
user_namespaces(7), prctl(2), landlock(7), and of Linux include/uapi/linux/{mount,sched,landlock}.h.
"""

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import TypedDict

_CLONE_NEWNS, _CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MNT_DETACH = 2
_PR_SET_NO_NEW_PRIVS = 38
# The numbers are the same on every architecture whose system calls were unified (all but alpha).
_MOUNT_SETATTR, _LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 442, 444, 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, _LANDLOCK_SCOPE_SIGNAL = 1, 2
_LANDLOCK_SCOPES_SINCE = 6
FAILED = 126  # as env(1) and others that run a command

# Where a namespace's new root is put together; its own mounts lie there and no others.
_STAGE = "/tmp"
_OLD_ROOT = "/old-root"
# Libraries, time zones, collations; a link of one of them into another stays a link.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store", "/gnu/store")
# Programs: popen(3) and system(3) find no shell, so COPY … TO PROGRAM and archive_command start nothing.
_PROGRAMS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
# What pg_upgrade starts beside PostgreSQL's programs (src/bin/pg_upgrade/pg_upgrade.c, copy_subdir_files).
_SHELL = ("/usr/bin/sh", "/usr/bin/cp")
# What loaders and libraries ask for. The size of huge pages is in meminfo (src/backend/port/sysv_shmem.c,
# GetHugePageSize), the nodes of memory in /sys.
_FILES = (
    *("/etc/ld.so.cache", "/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path", "/etc/localtime"),
    *("/etc/timezone", "/etc/alternatives", "/etc/ssl/openssl.cnf", "/proc/meminfo", "/proc/cpuinfo"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

_libc = ctypes.CDLL(None, use_errno=True)


class Seen(TypedDict):
    """What is shown: paths with their links resolved, the text of files by their path, and who to become.

    `identity`: uid and gid; None to stay what it is. `shell`: whether the command starts others by a shell;
    `folder`: where it begins.
    """

    writable: list[str]
    readable: list[str]
    files: dict[str, str]
    identity: tuple[int, int] | None
    shell: bool
    folder: str


class _Attributes(ctypes.Structure):
    """`struct mount_attr`."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd"))


def call(name: str, *values: object) -> None:
    """A function of the C library that answers 0; raises OSError with its name where it does not."""
    if getattr(_libc, name)(*values) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())


def _restrict(target: str, flags: int, *, below: bool = True) -> None:
    """Add attributes to a mount, and to those below it."""
    attributes = _Attributes(flags, 0, 0, 0)
    at = _AT_RECURSIVE if below else 0
    given = (_AT_FDCWD, target.encode(), at, ctypes.byref(attributes), ctypes.sizeof(attributes))
    call("syscall", _MOUNT_SETATTR, *given)


def _show(path: str, flags: int, *, source: str = "") -> None:
    """Let a file or folder of the old root be seen in the new one, at the same place."""
    shown, target = _OLD_ROOT + (source or path), Path(path)
    if Path(shown).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(shown, path, "", _MS_BIND | _MS_REC)
    _restrict(path, flags)


def _own_namespace() -> None:
    """As root a mount namespace; else with a user namespace, in which this account has the rights for it."""
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", _CLONE_NEWNS if uid == 0 else _CLONE_NEWNS | _CLONE_NEWUSER | CLONE_NEWNET)
    if uid != 0:
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny", encoding="ascii")
        (own / "uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
        (own / "gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")
    # What is mounted here is nobody else's; what others unmount goes here as well.
    _mount("none", "/", "", _MS_REC | _MS_SLAVE)


def _build_root(seen: Seen, program: str) -> None:
    """Put the new root together, with the old one at its side, and leave that behind."""
    # Links are followed here: in the new root they may lead to nothing.
    files = {path: os.path.realpath(path) for path in _FILES if Path(path).exists()}
    links = {path: Path(path).readlink() for path in _SYSTEM if Path(path).is_symlink()}
    folders = [path for path in _SYSTEM if path not in (*links, *_PROGRAMS) and Path(path).is_dir()]
    devices = [path for path in _DEVICES if Path(path).exists()]
    shell = {path: os.path.realpath(path) for path in _SHELL if seen["shell"]}
    _mount("tmpfs", _STAGE, "tmpfs", _NOSUID | _NODEV, "mode=0755")
    Path(_STAGE + _OLD_ROOT).mkdir()
    call("pivot_root", _STAGE.encode(), (_STAGE + _OLD_ROOT).encode())
    os.chdir("/")
    for path, link in links.items():
        Path(path).symlink_to(link)
    for path in folders:
        _show(path, _RDONLY | _NOSUID | _NODEV)
    for path in _PROGRAMS:
        if Path(path).is_dir() and not Path(path).is_symlink():
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=0755")
            if str(Path(program).parent) == path:
                _show(program, _RDONLY | _NOSUID | _NODEV)
            for name, source in shell.items():
                if str(Path(name).parent) == path:
                    _show(name, _RDONLY | _NOSUID | _NODEV, source=source)
            _restrict(path, _RDONLY)
    for path, source in files.items():
        _show(path, _RDONLY | _NOSUID | _NODEV | _NOEXEC, source=source)
    # By this link the loader finds libraries that lie beside a program (glibc, _dl_get_origin: $ORIGIN).
    Path("/proc/self").mkdir(parents=True)
    Path("/proc/self/exe").symlink_to(program)
    for path in devices:
        _show(path, _NOSUID | _NOEXEC)
    # Of its own, for the memory that parallel workers share.
    Path("/dev/shm").mkdir()
    _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777")
    _restrict("/dev/shm", _NOEXEC)
    for path in seen["readable"]:
        _show(path, _RDONLY | _NOSUID | _NODEV)
    for path in seen["writable"]:
        _show(path, _NOSUID | _NODEV | _NOEXEC)
    for path, text in seen["files"].items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    call("umount2", _OLD_ROOT.encode(), _MNT_DETACH)
    Path(_OLD_ROOT).rmdir()
    _restrict("/", _RDONLY, below=False)


def _keep_to_itself() -> None:
    """No signal to other processes of the account, nor tracing them, where the kernel has Landlock's scopes.

    It has from Linux 6.12 on. The server's own processes go on signalling each other.
    """
    create = ctypes.c_long(_LANDLOCK_CREATE_RULESET)
    version = ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION)
    if _libc.syscall(create, None, ctypes.c_size_t(0), version) < _LANDLOCK_SCOPES_SINCE:
        return
    # struct landlock_ruleset_attr: handled_access_fs, handled_access_net, scoped.
    attributes = (ctypes.c_uint64 * 3)(0, 0, _LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | _LANDLOCK_SCOPE_SIGNAL)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = _libc.syscall(create, ctypes.byref(attributes), size, ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    call("syscall", _LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def main() -> None:
    """Leave this process with what the first word describes (`Seen`), then become the command behind it."""
    seen: Seen = json.loads(sys.argv[1])
    command = sys.argv[2:]
    umask = os.umask(0o022)
    try:
        _own_namespace()
        _build_root(seen, command[0] if command else "/")
        os.umask(umask)
        if seen["identity"] is not None:
            uid, gid = seen["identity"]
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        call("prctl", _PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        _keep_to_itself()
        os.chdir(seen["folder"])
        if command:
            os.execv(command[0], command)
    except OSError as error:
        # The call's own name where it was one of the C library's; else the file's.
        sys.stderr.write(f"{error.strerror}{f' ({error.filename})' if error.filename else ''}\n")
        sys.stderr.flush()
        os._exit(FAILED)


if __name__ == "__main__":
    main()
