"""One experiment per machine, with real processes."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment import lock
from pgassay.errors import UsageError

HOLDER = """
import sys, subprocess, time
from pgassay.environment import lock
with lock.acquire(True, lambda pid: print("waiting", flush=True), sys.argv[1]):
    child = subprocess.Popen(["sleep", sys.argv[2]])
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Locks of these names leave their files in no other home."""
    with tempfile.TemporaryDirectory(prefix="pgassay-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("PGASSAY_HOME", folder)
        yield


def start(name: str, *before: str) -> "subprocess.Popen[str]":
    """A process that takes the lock, in its turn, and holds it until its standard input ends."""
    words = [*before, sys.executable, "-c", HOLDER, name, "600"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def holder(name: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds the lock, and the pid of a child it started meanwhile."""
    process = start(name)
    child = int(line_of(process))
    try:
        yield process, child
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def never(pid: int | None) -> None:
    pytest.fail(f"waited for {pid}")


def test_a_second_process_is_refused_and_told_who_holds_it() -> None:
    name = f"pgassay-test-{os.getpid()}-a"
    with (
        holder(name) as (process, _),
        pytest.raises(UsageError, match=f"process {process.pid}"),
        lock.acquire(False, never, name),
    ):
        pass
    with lock.acquire(False, never, name):
        pass
    with lock.acquire(False, never, name):
        pass


def test_a_waiter_goes_on_when_the_holder_is_killed_although_its_child_lives() -> None:
    name = f"pgassay-test-{os.getpid()}-b"
    heard: list[int | None] = []
    with holder(name) as (process, child):

        def kill_when_waited_for(pid: int | None) -> None:
            heard.append(pid)
            threading.Timer(0.2, process.kill).start()

        with lock.acquire(True, kill_when_waited_for, name):
            assert process.wait(60) == -signal.SIGKILL
            os.kill(child, 0)  # the child outlives its parent and must not keep the lock
    assert heard[0] == process.pid


def test_who_waits_gets_it_in_the_order_of_coming() -> None:
    """And before one who has had it already, however quickly that one comes again."""
    name = f"pgassay-test-{os.getpid()}-d"
    order: list[int] = []
    threads = []

    def take(number: int, waits: threading.Event) -> None:
        with lock.acquire(True, lambda _: waits.set(), name):
            order.append(number)

    with lock.acquire(False, never, name):
        for number in range(8):
            waits = threading.Event()
            threads.append(threading.Thread(target=take, args=(number, waits)))
            threads[-1].start()
            assert waits.wait(60)
    with lock.acquire(True, lambda _: None, name):
        order.append(8)
    for thread in threads:
        thread.join()
    assert order == list(range(9))


def test_one_who_got_it_handed_on_is_the_holder() -> None:
    """Visitors are told its pid, those who gave up are passed over, and its death frees the lock."""
    name = f"pgassay-test-{os.getpid()}-e"
    with lock.acquire(False, never, name):
        gave_up, process = start(name), None
        try:
            assert line_of(gave_up) == "waiting"
            process = start(name)
            assert line_of(process) == "waiting"
        finally:
            gave_up.kill()
            gave_up.wait()
    assert process is not None
    child = int(line_of(process))
    try:
        with pytest.raises(UsageError, match=f"process {process.pid}"), lock.acquire(False, never, name):
            pass
        process.kill()
        process.wait()
        with lock.acquire(False, never, name):
            os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_socket_of_another_name_is_not_the_lock() -> None:
    """Who bound the name and hands on something else has not let anybody in."""
    name = f"pgassay-test-{os.getpid()}-f"
    entered, waits = threading.Event(), threading.Event()

    def take() -> None:
        with lock.acquire(True, lambda _: waits.set(), name):
            entered.set()

    thread = threading.Thread(target=take)
    with socket.socket(socket.AF_UNIX) as impostor, socket.socket(socket.AF_UNIX) as other:
        impostor.bind(f"\0{name}")
        impostor.listen()
        other.bind(f"\0{name}-other")
        thread.start()
        assert waits.wait(60)
        waits.clear()
        visitor, _ = impostor.accept()
        with visitor:
            socket.send_fds(visitor, [b"!"], [other.fileno()])
            assert waits.wait(60)  # it stands in the queue again
        assert not entered.is_set()
    thread.join(60)
    assert entered.is_set()


def test_a_forked_child_does_not_keep_the_lock() -> None:
    name = f"pgassay-test-{os.getpid()}-c"
    with lock.acquire(False, never, name):
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writable, b"!")
            time.sleep(600)
            os._exit(0)
        os.read(readable, 1)
        os.close(readable)
        os.close(writable)
    try:
        with lock.acquire(False, never, name):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="another network namespace needs root")
def test_one_home_is_used_by_one_network_namespace_at_a_time() -> None:
    """Each has its own sockets, so both would have the lock, and the same working copies."""
    name = f"pgassay-test-{os.getpid()}-g"
    process = start(name, "unshare", "--net")
    heard: list[int | None] = []
    try:
        child = int(line_of(process))
        os.kill(child, signal.SIGKILL)
        with pytest.raises(UsageError, match=r"process \d+"), lock.acquire(False, never, name):
            pass
        with lock.acquire(True, lambda pid: (heard.append(pid), process.kill())[0], name):
            assert heard == [process.pid]
    finally:
        process.kill()
        process.wait()


def test_the_file_lock_of_other_systems(tmp_path: Path) -> None:
    holding: Callable[..., contextlib.AbstractContextManager[None]] = lock._locked_file
    with (
        holding(False, never, "host", tmp_path),
        pytest.raises(UsageError, match=f"process {os.getpid()}"),
        holding(False, never, "host", tmp_path),
    ):
        pass
    heard: list[int | None] = []
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with holding(False, never, "host", tmp_path):
            held.set()
            release.wait(300)

    thread = threading.Thread(target=hold)
    thread.start()
    # To try the lock, so as to see that it is held, would be to hold it for a moment.
    assert held.wait(300)

    def release_when_waited_for(pid: int | None) -> None:
        heard.append(pid)
        threading.Timer(0.2, release.set).start()

    with holding(True, release_when_waited_for, "host", tmp_path):
        assert heard
    thread.join()


def test_a_holder_of_another_pid_namespace_has_no_number() -> None:
    assert lock.waiting_for(4711) == "waiting for process 4711"
    assert lock.waiting_for(None) == "waiting for another process"
