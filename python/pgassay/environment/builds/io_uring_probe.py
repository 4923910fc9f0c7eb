"""Tries io_uring_setup(2) as the account that runs the server. The system call itself, not a guess.

A filter (seccomp), a security module or a sysctl may refuse it to one account and not to another,
so a child process takes the account on first. `struct io_uring_params` is 120 bytes (linux/io_uring.h).
"""

import ctypes
import errno
import os

from pgassay.environment.home import Account

# The same number on every Linux architecture but alpha.
SYS_IO_URING_SETUP = 425
PARAMETERS_BYTES = 120
ENTRIES = 8
NOT_IMPLEMENTED = (errno.ENOSYS,)
NOT_ALLOWED = (errno.EPERM, errno.EACCES)
OUT_OF_MEMORY = errno.ENOMEM
# What the child answers when it cannot even take the account on; no system call gives this number.
_CHILD_FAILED = 255


def try_io_uring_setup(owner: Account | None) -> int:
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


def _attempt(library: ctypes.CDLL, owner: Account | None) -> int:
    if owner is not None:
        os.setgroups([owner.gid])
        os.setgid(owner.gid)
        os.setuid(owner.uid)
    parameters = ctypes.create_string_buffer(PARAMETERS_BYTES)
    descriptor = library.syscall(SYS_IO_URING_SETUP, ENTRIES, parameters)
    return 0 if descriptor >= 0 else ctypes.get_errno()
