"""What stands between a build and io_uring on this machine: three gates, each with its remedy.

build  → the binary must take the setting (PostgreSQL 18 or newer, built with liburing);
kernel → io_uring_setup(2) must be allowed to the account that runs the server;
limits → the postmaster makes one ring per process slot at start, so it needs as many descriptors.

The gates are judged in that order by `judge`, a pure function of what was observed.
"""

import ctypes
import errno
import os
import re
import resource
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.builds.base import way_to_install
from pgassay.environment.builds.inspect import IO_METHOD_MAJOR_MIN
from pgassay.environment.debian import has_apt
from pgassay.environment.home import SystemAccount, account
from pgassay.model.build import Build, Gate

DISABLED_SETTING = Path("/proc/sys/kernel/io_uring_disabled")
GROUP_SETTING = Path("/proc/sys/kernel/io_uring_group")

# PostgreSQL 18, MaxBackends: max_connections + autovacuum_worker_slots (16) + max_worker_processes (8)
# + max_wal_senders (10) + 2 special workers; and 6 auxiliary processes that are not io workers
# (src/backend/utils/init/postinit.c, src/include/storage/proc.h).
OTHER_SLOTS = 16 + 8 + 10 + 2 + 6
# What the postmaster has open besides its rings, with room for a few listening sockets, and what it
# insists on having free: FD_MINFREE (48) + NUM_RESERVED_FDS (10), src/backend/storage/file/fd.c.
OTHER_DESCRIPTORS = 16 + 48 + 10
MAX_FILES_PER_PROCESS = 1000
DEFAULT_CONNECTIONS = 100
# From this kernel on a ring's memory counts against the memory cgroup, not RLIMIT_MEMLOCK.
KERNEL_WITHOUT_MEMLOCK = (5, 12)
# A ring of 64 entries: 64 submission entries of 64 bytes, and the two index rings, in whole pages.
RING_LOCKED_BYTES = 3 * 4096
# The same number on every Linux architecture but alpha.
SYS_IO_URING_SETUP = 425
PARAMETERS_BYTES = 120
ENTRIES = 8
NOT_IMPLEMENTED = (errno.ENOSYS,)
NOT_ALLOWED = (errno.EPERM, errno.EACCES)
OUT_OF_MEMORY = errno.ENOMEM
# What the child answers when it cannot even take the account on; no system call gives this number.
_CHILD_FAILED = 255


@dataclass(frozen=True)
class IoUringFacts:
    """What was observed on this machine.

    `setup_errno` is 0 when the server's account may call io_uring_setup(2), else its error;
    `disabled_setting` is kernel.io_uring_disabled (None where the kernel has no such setting).
    Limits are the soft and hard limits of this process, which the server inherits; -1 is unlimited.
    `has_apt`: another build can be unpacked here.
    """

    setup_errno: int
    disabled_setting: int | None
    group_setting: int | None
    kernel: tuple[int, int]
    open_files_soft: int
    open_files_hard: int
    locked_bytes_soft: int
    account: SystemAccount | None
    has_apt: bool


def io_uring_gate(build: Build, max_connections: int = DEFAULT_CONNECTIONS) -> Gate | None:
    """Return the first gate that keeps a server of `build` from io_uring here, or None.

    `max_connections` is what the server will be started with. Really tries io_uring_setup(2), as
    the account that runs the server, in a child process.
    """
    if _lacks_io_uring(build):
        return _build_gate(build, has_apt())
    return judge(build, observe(), max_connections)


def judge(build: Build, facts: IoUringFacts, max_connections: int = DEFAULT_CONNECTIONS) -> Gate | None:
    """Return the first gate that `facts` close, or None."""
    if _lacks_io_uring(build):
        return _build_gate(build, facts.has_apt)
    rings = max_connections + OTHER_SLOTS
    return _kernel_gate(facts) or _open_files_gate(facts, rings) or _locked_memory_gate(facts, rings)


def observe() -> IoUringFacts:
    """Return what this machine allows the account that runs the servers."""
    owner = account()
    open_files_soft, open_files_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked_bytes_soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return IoUringFacts(
        setup_errno=try_io_uring_setup(owner),
        disabled_setting=_read_number(DISABLED_SETTING),
        group_setting=_read_number(GROUP_SETTING),
        kernel=kernel_version(os.uname().release),
        open_files_soft=open_files_soft,
        open_files_hard=open_files_hard,
        locked_bytes_soft=locked_bytes_soft,
        account=owner,
        has_apt=has_apt(),
    )


def kernel_version(release: str) -> tuple[int, int]:
    """Return (major, minor) of a kernel release such as 6.18.0-rc1; (0, 0) when it has none."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _lacks_io_uring(build: Build) -> bool:
    return build.major < IO_METHOD_MAJOR_MIN or not build.has_io_uring


def _build_gate(build: Build, with_apt: bool) -> Gate:
    if build.major < IO_METHOD_MAJOR_MIN:
        reason = f"PostgreSQL {build.version} has no asynchronous I/O; it came with {IO_METHOD_MAJOR_MIN}"
    else:
        reason = f"this PostgreSQL {build.version} was built without liburing"
    wanted = f"apt:{max(build.major, IO_METHOD_MAJOR_MIN)}"
    return Gate(
        name="build",
        reason=reason,
        remedy=f"use a build that has it: {way_to_install(wanted, with_apt=with_apt, liburing=True)}",
    )


def _kernel_gate(facts: IoUringFacts) -> Gate | None:
    if facts.setup_errno in (0, OUT_OF_MEMORY):
        return None
    name = facts.account.name if facts.account else "this account"
    if facts.setup_errno in NOT_IMPLEMENTED:
        return Gate(
            name="kernel",
            reason=f"the kernel {facts.kernel[0]}.{facts.kernel[1]} does not know io_uring_setup(2), or a "
            "sandbox (seccomp) hides it",
            remedy="use a kernel of 5.1 or newer built with CONFIG_IO_URING, outside sandboxes that filter "
            "it",
        )
    if facts.setup_errno in NOT_ALLOWED and facts.disabled_setting == 2:
        return Gate(
            name="kernel",
            reason="kernel.io_uring_disabled is 2: the kernel forbids io_uring to every process",
            remedy="type 'sysctl kernel.io_uring_disabled=0' as root",
        )
    if facts.setup_errno in NOT_ALLOWED and facts.disabled_setting == 1:
        return Gate(
            name="kernel",
            reason="kernel.io_uring_disabled is 1: the kernel keeps io_uring to privileged processes, and "
            f"the server runs as {name}",
            remedy="type 'sysctl kernel.io_uring_disabled=0' as root, or add the account to the group that "
            f"kernel.io_uring_group names (now {facts.group_setting})",
        )
    return Gate(
        name="kernel",
        reason=f"io_uring_setup(2) is refused to {name} ({os.strerror(facts.setup_errno)}) though the "
        "kernel's settings allow it: a seccomp filter or security module blocks it",
        remedy="run outside the container, or allow io_uring in its profile (for Docker: "
        "--security-opt seccomp=PROFILE that allows io_uring_setup, io_uring_enter and io_uring_register)",
    )


def _open_files_gate(facts: IoUringFacts, rings: int) -> Gate | None:
    needed = rings + OTHER_DESCRIPTORS
    if facts.open_files_soft < 0 or facts.open_files_soft >= needed:
        return None
    # PostgreSQL's own hint: as many as its rings plus max_files_per_process.
    wished = rings + MAX_FILES_PER_PROCESS
    hard_is_enough = facts.open_files_hard < 0 or facts.open_files_hard >= wished
    return Gate(
        name="limits",
        reason=f"the limit of open files (RLIMIT_NOFILE) is {facts.open_files_soft}, and the server needs "
        f"{needed}: one ring for each of its {rings} process slots and {OTHER_DESCRIPTORS} others",
        remedy=f"type 'ulimit -n {wished}' before pgassay"
        + ("" if hard_is_enough else f" after raising the hard limit (now {facts.open_files_hard}) as root")
        + ", or lower max_connections",
    )


def _locked_memory_gate(facts: IoUringFacts, rings: int) -> Gate | None:
    needed = rings * RING_LOCKED_BYTES
    counts = facts.kernel < KERNEL_WITHOUT_MEMLOCK
    is_low = counts and 0 <= facts.locked_bytes_soft < needed
    if not is_low and facts.setup_errno != OUT_OF_MEMORY:
        return None
    return Gate(
        name="limits",
        reason=f"the limit of locked memory (RLIMIT_MEMLOCK) is {facts.locked_bytes_soft} bytes, and on this "
        f"kernel ({facts.kernel[0]}.{facts.kernel[1]}) {rings} rings count about {needed} bytes against it",
        remedy=f"type 'ulimit -l {needed // 1024 + 1024}' before pgassay, as root or after root has raised "
        "the hard limit",
    )


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def try_io_uring_setup(owner: SystemAccount | None) -> int:
    """Return 0 when `owner` (None: the caller) may make a ring, else the error's number.

    Answers ENOSYS on systems that are not Linux.
    """
    if os.uname().sysname != "Linux":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if child == 0:
        code = _CHILD_FAILED
        try:
            code = _attempt(library, owner)
        finally:
            # Never return into the caller's program: its buffers and its locks are not the child's.
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        # A filter may kill instead of refusing.
        return errno.EPERM
    code = os.waitstatus_to_exitcode(status)
    return errno.EPERM if code == _CHILD_FAILED else code


def _attempt(library: ctypes.CDLL, owner: SystemAccount | None) -> int:
    if owner is not None:
        os.setgroups([owner.gid])
        os.setgid(owner.gid)
        os.setuid(owner.uid)
    parameters = ctypes.create_string_buffer(PARAMETERS_BYTES)
    descriptor = library.syscall(SYS_IO_URING_SETUP, ENTRIES, parameters)
    return 0 if descriptor >= 0 else ctypes.get_errno()
