"""A network namespace of a worker's own, where only the loopback device is, and commands that run in it.

The host's lock counts within a network namespace: a worker that has a part of a host gets a lock of its own
by it, and its experiments reach nothing outside. The worker itself stays outside, since it talks to the
scheduler. Run as a script, with the standard library alone, this becomes the command that follows, in that
namespace: the process stays the same one, so whoever started it waits for it and is its parent. Sources:
namespaces(7), setns(2), unshare(2), netdevice(7), include/uapi/linux/{sched,if}.h of Linux.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 0x1
_REQUEST = struct.Struct("16sH14x")  # struct ifreq: the device's name, its flags
NEW = "new"
_FAILED = 126  # as env(1) and others that run a command


def command_prefix(python: str, namespace: str = NEW) -> tuple[str, ...]:
    """What begins a command of that Python, so that it runs in a namespace: a file of one, or a new one."""
    return (python, "-I", "-S", __file__, namespace, python)


def open_namespace(home: Path) -> int:
    """A descriptor of the namespace of a home: the one in which something of it still runs, or a new one.

    An experiment of a worker that was killed takes seconds to end, and whoever comes next must meet its lock.
    Raises OSError where this account may not make one.
    """
    own = Path("/proc/self/ns/net").readlink()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            is_of_home = (entry / "cwd").readlink().is_relative_to(home)
            if is_of_home and (entry / "ns/net").readlink() != own:
                return os.open(entry / "ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it has ended, or is another account's
    return _make_namespace()


def _make_namespace() -> int:
    """Made by a thread, for which alone it then is; the descriptor keeps it when the thread has ended."""
    made: list[int | OSError] = []

    def make() -> None:
        try:
            _leave()
            made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _leave() -> None:
    """This thread gets a namespace of its own, with the loopback device up."""
    _call("unshare", _CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, _REQUEST.pack(b"lo", 0))
        flags = _REQUEST.unpack(answer)[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _REQUEST.pack(b"lo", flags | _IFF_UP))


def _call(name: str, *numbers: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*numbers) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main() -> None:
    """Enter the namespace that the first word names, then become the command."""
    namespace, *command = sys.argv[1:]
    try:
        if namespace == NEW:
            _leave()
        else:
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            _call("setns", descriptor, _CLONE_NEWNET)
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"pgassay: no network namespace of its own ({error.strerror}): this needs root\n")
        sys.stderr.flush()
        os._exit(_FAILED)


if __name__ == "__main__":
    main()
