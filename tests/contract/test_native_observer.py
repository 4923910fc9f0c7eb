"""The observer that trials, `watch` and `diagnose` share, on a process in place of a server."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from pgassay.errors import MeasurementError, UsageError
from pgassay.native.observer import ObservedServer, Observer, named
from pgassay.watch.reading.thread_windows import ProcessWatch

LONG_S = 60.0


@pytest.fixture
def server() -> Iterator[ObservedServer]:
    """A process in place of a server's first one."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield {"connect": None, "postmaster_pid": process.pid}
        process.kill()


def kill(observer: Observer) -> None:
    """As the kernel does for want of memory; returns when the client has heard of it."""
    assert observer._process is not None
    os.kill(observer._process.pid, signal.SIGKILL)
    deadline = time.monotonic() + LONG_S
    while observer.failure is None and time.monotonic() < deadline:
        time.sleep(0.005)


def test_it_says_what_it_sees_and_gives_each_window_once(server: ObservedServer) -> None:
    with Observer(server, 50.0, LONG_S) as observer:
        assert observer.ready is not None
        assert (observer.ready.activity, observer.ready.backend_pid) == (False, None)
        (first,) = observer.take()
        assert first.edge
        assert {row["pid"] for row in named(first.threads, observer.ready.thread_columns)} == {
            server["postmaster_pid"]
        }
        assert observer.edge()
        (second,) = observer.take()
        assert second.from_ns == first.clock_ns
        assert observer.take() == []
    assert [window.from_ns for window in observer.windows] == [second.clock_ns]
    assert observer.cpu_s > 0
    assert (observer.failure, observer.warnings) == (None, [])


def test_another_server_is_followed(server: ObservedServer) -> None:
    with Observer(server, 50.0, LONG_S) as observer:
        before = observer.take()
        assert observer.follow({"connect": None, "postmaster_pid": os.getpid()})
        assert observer.edge()
    assert os.getpid() not in {row[0] for window in before for row in window.threads}
    assert os.getpid() in {row[0] for row in observer.windows[-1].threads}


def test_a_killed_observer_costs_what_it_would_have_said_and_nothing_else(server: ObservedServer) -> None:
    with Observer(server, 50.0, LONG_S) as observer:
        kill(observer)
        assert not observer.edge()
        assert not observer.follow(server)
    assert len(observer.windows) == 1
    (warning,) = observer.warnings
    assert "no longer observed" in warning
    assert "was killed" in warning


def test_one_that_stands_still_is_not_waited_for(server: ObservedServer) -> None:
    with Observer(server, 50.0, LONG_S) as observer:
        assert observer._process is not None
        os.kill(observer._process.pid, signal.SIGSTOP)
        began = time.monotonic()
        assert not observer.edge(timeout_s=0.05)
    assert time.monotonic() - began < LONG_S
    assert observer.failure is None
    assert not any(thread.name == "observer" and thread.is_alive() for thread in threading.enumerate())


def test_watch_is_told_why_there_is_no_more(server: ObservedServer) -> None:
    with ProcessWatch(server, 50.0) as watch:
        watch.read()
        assert watch.threads is not None
        kill(watch._observer)
        with pytest.raises(MeasurementError, match="no longer observed: The native binary was killed"):
            watch.read()


def test_watch_is_told_why_there_is_nothing_at_all() -> None:
    nothing: ObservedServer = {"connect": None, "postmaster_pid": None}
    with pytest.raises(MeasurementError, match=r"can't be observed: .*there is nothing to observe"):
        ProcessWatch(nothing, 50.0).__enter__()


def test_without_a_binary_nothing_is_begun(server: ObservedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGASSAY_NATIVE", "/nowhere/pgassay-native")
    with pytest.raises(UsageError, match="there is no file"):
        Observer(server, 50.0, LONG_S).__enter__()
