"""One experiment per machine: two at once would measure each other.

On Linux the lock is an abstract Unix socket: the kernel frees it whatever happens to its holder, it
leaves no file, and whoever connects learns the holder's pid. Who waits stands in the socket's own
queue, and gets the socket itself when its turn comes. It counts within one network namespace; processes
of two that share a home are kept apart by a lock on a file there, since they would share its working copies.
Elsewhere it is a lock on a file alone.
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from pgassay.environment.home import home
from pgassay.errors import UsageError

LOCK_NAME = "pgassay-host"
_RETRY_S = 0.2
_PEER_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
OnWait = Callable[[int | None], None]

_held: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()
_held_files: set[int] = set()


def _drop_in_child() -> None:
    # A forked child that does not exec would keep the lock alive after its parent.
    for listener in list(_held):
        listener.close()
    for descriptor in _held_files:
        os.close(descriptor)
    _held_files.clear()


os.register_at_fork(after_in_child=_drop_in_child)


@contextlib.contextmanager
def acquire(wait: bool, on_wait: OnWait, name: str | None = None) -> Iterator[None]:
    """Hold the machine's lock for the length of the `with` block.

    When another process holds it: with `wait`, call `on_wait(pid)` (None when the pid is not known)
    and go on when all have had it who came before; otherwise raise UsageError naming the holder.
    A holder that dies hands nothing on: those who wait then queue anew, and `on_wait` is called again.
    """
    name = name or LOCK_NAME
    if sys.platform != "linux":
        with _locked_file(wait, on_wait, name):
            yield
        return
    folder = home() / "locks"
    folder.mkdir(exist_ok=True)
    # The socket first: who waits for the file is then the only one of its namespace.
    with _abstract_socket(wait, on_wait, name), _locked_file(wait, on_wait, name, folder):
        yield


@contextlib.contextmanager
def _abstract_socket(wait: bool, on_wait: OnWait, name: str) -> Iterator[None]:
    listener = _listener(f"\0{name}", wait, on_wait)
    _held.add(listener)
    try:
        yield
    finally:
        _pass_socket_on(listener)
        listener.close()


def _listener(address: str, wait: bool, on_wait: OnWait) -> socket.socket:
    while (listener := _try_listen(address)) is None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
            visitor.setblocking(False)
            refused = visitor.connect_ex(address)
            holder = None if refused else _pid_of_peer(visitor)
            if refused == errno.ECONNREFUSED:
                time.sleep(_RETRY_S)  # it was let go at this moment, or its holder has only begun
            elif not wait:
                raise _refusal(holder)
            else:
                on_wait(holder)
                if refused:
                    time.sleep(_RETRY_S)  # the queue is full
                elif handed_on := _wait_for_turn(visitor, address):
                    return handed_on
    return listener


def _try_listen(address: str) -> socket.socket | None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return listener


def _pid_of_peer(visitor: socket.socket) -> int | None:
    """The holder's pid (unix(7), SO_PEERCRED), which never has to answer; None in another pid namespace."""
    credentials = visitor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    pid: int = _PEER_CREDENTIALS.unpack(credentials)[0]
    return pid or None


def _wait_for_turn(visitor: socket.socket, address: str) -> socket.socket | None:
    """Sleep until the holder hands its socket on; None when it ended without, which hangs up on everybody."""
    poll = select.poll()
    poll.register(visitor, select.POLLIN)
    poll.poll()
    try:
        # A child that this process starts must not keep the lock.
        _, descriptors, _, _ = socket.recv_fds(visitor, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    for descriptor in descriptors:
        listener = socket.socket(fileno=descriptor)
        # Anybody may have called itself the holder: only the socket of this name is the lock.
        if listener.getsockname() == address.encode():
            listener.listen(socket.SOMAXCONN)  # from now on visitors are told this process's pid
            return listener
        listener.close()
    return None


def _pass_socket_on(listener: socket.socket) -> None:
    """Give the socket, with the rest of its queue, to the first in it who still waits; else do nothing."""
    listener.setblocking(False)
    with contextlib.suppress(OSError):  # nobody is left
        while True:
            visitor, _ = listener.accept()
            with visitor, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(visitor, [b"!"], [listener.fileno()])
                return


@contextlib.contextmanager
def _locked_file(wait: bool, on_wait: OnWait, name: str, folder: Path = Path("/tmp")) -> Iterator[None]:
    file = folder / f"{name}.lock"
    descriptor = _open_for_all(file)
    _held_files.add(descriptor)
    announced: int | None = -1
    try:
        while not _try_lock(descriptor):
            text = os.pread(descriptor, 32, 0).strip()
            holder = int(text) if text.isdigit() else None
            if not wait:
                raise _refusal(holder)
            if holder != announced:
                on_wait(holder)
                announced = holder
            time.sleep(_RETRY_S)
        # The file stays: removing it would let two processes lock two files of the same name.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        _held_files.remove(descriptor)
        os.close(descriptor)


def _open_for_all(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        os.fchmod(descriptor, 0o666)  # whatever the umask: every account shares the machine
        return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def waiting_for(holder: int | None) -> str:
    """What is said while the lock is waited for."""
    return f"waiting for {_named(holder)}"


def _named(holder: int | None) -> str:
    return f"process {holder}" if holder else "another process"


def _refusal(holder: int | None) -> UsageError:
    return UsageError(
        f"An experiment is running on this machine ({_named(holder)}), and two at the same time would "
        "disturb each other: wait for it to end and try again."
    )
