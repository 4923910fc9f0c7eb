"""What plants do from outside: to the client, to the processors, to the limit of a device.

Which of the two arms is running is read off the titles of the server's processes: `cluster_name` stands in
them.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pgassay.environment.cgroup.group import capabilities
from pgassay.environment.cleanup.removal import CGROUP_PREFIX
from plants.base import MARK, Outside

_TITLE = f"postgres: {MARK}: ".encode()
_POLL_S = 0.1
MEGABYTE = 1 << 20


@contextmanager
def _repeatedly(step: Callable[[], None], every_s: float = _POLL_S) -> Iterator[None]:
    """Call `step` again and again in a thread of its own."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _processes() -> Iterator[tuple[int, bytes]]:
    """Number and command line of every process that can be read."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), Path(entry.path, "cmdline").read_bytes()


def planted_process(home: Path) -> int | None:
    """A process of the planted arm's server below `home`; None while it does not run."""
    for pid, line in _processes():
        with suppress(OSError):
            if line.startswith(_TITLE) and Path(f"/proc/{pid}/cwd").readlink().is_relative_to(home):
                return pid
    return None


def starved_client(stopped_s: float, running_s: float) -> Outside:
    """The load's client of the planted arm is stopped again and again."""

    def clients(home: Path) -> list[int]:
        found = []
        for pid, line in _processes():
            words = line.split(b"\0")
            if words[0].endswith(b"pgassay-native") and words[1:2] == [b"load"]:
                with suppress(OSError):
                    if os.fsencode(f"PGASSAY_HOME={home}") in Path(f"/proc/{pid}/environ").read_bytes():
                        found.append(pid)
        return found

    @contextmanager
    def starve(home: Path) -> Iterator[Mapping[str, str]]:
        def step() -> None:
            if planted_process(home) is None:
                return
            stopped = clients(home)
            for number, pause_s in ((signal.SIGSTOP, stopped_s), (signal.SIGCONT, 0.0)):
                for pid in stopped:
                    with suppress(OSError):
                        os.kill(pid, number)
                threading.Event().wait(pause_s)

        with _repeatedly(step, running_s):
            yield {}

    return starve


def burners(count: int) -> Outside:
    """So many processes that only compute, while the planted arm's server runs."""

    @contextmanager
    def burn(home: Path) -> Iterator[Mapping[str, str]]:
        running: list[subprocess.Popen[bytes]] = []

        def stop() -> None:
            while running:
                process = running.pop()
                process.kill()
                process.wait()

        def step() -> None:
            if planted_process(home) is None:
                stop()
            elif not running:
                # Each in a session of its own: the scheduler may share processors out by sessions
                # (sched(7), autogroup), and all together would be one.
                command = [sys.executable, "-S", "-c", "while True: pass"]
                running.extend(subprocess.Popen(command, start_new_session=True) for _ in range(count))

        try:
            with _repeatedly(step):
                yield {}
        finally:
            stop()

    return burn


def burst_credit(credit_mb: float, slow_mb_s: float) -> Outside:
    """A device whose rate drops once the planted arm's server has read so many bytes from it."""

    @contextmanager
    def spend(home: Path) -> Iterator[Mapping[str, str]]:
        def step() -> None:
            pid = planted_process(home)
            folder = None if pid is None else _io_group(pid)
            if folder is not None:
                with suppress(OSError, ValueError):
                    _drop(folder, credit_mb * MEGABYTE, round(slow_mb_s * MEGABYTE))

        with _repeatedly(step, 0.05):
            yield {}

    return spend


def _io_group(pid: int) -> Path | None:
    """The folder of pgassay's group that limits the process's I/O; None while it is in none of pgassay's."""
    capability = capabilities()["io"]
    controller = "blkio" if capability.version == 1 else ""
    root = capability.parent
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            name = Path(path).name
            is_own = name.startswith(CGROUP_PREFIX)
            # What is written to a group of the machine's holds for others too, and nobody takes it back.
            if root is not None and is_own and controller in controllers.split(","):
                return root / name
    return None


def _drop(folder: Path, credit_bytes: float, slow_bytes_s: int) -> None:
    """Lower the limit of reads once the credit is used up; does nothing the second time."""
    limits = folder / "blkio.throttle.read_bps_device"
    if limits.exists():
        number, rate = limits.read_text().split()[:2]
        lines = (folder / "blkio.throttle.io_service_bytes").read_text().splitlines()
        read = sum(int(line.split()[2]) for line in lines if line.startswith(f"{number} Read "))
        change = f"{number} {slow_bytes_s}"
    else:
        limits = folder / "io.max"
        number, *words = limits.read_text().split()
        rate = dict(word.split("=") for word in words)["rbps"]
        lines = (folder / "io.stat").read_text().splitlines()
        stat = next(line.split() for line in lines if line.startswith(f"{number} "))
        read = int(dict(word.split("=") for word in stat[1:])["rbytes"])
        change = f"{number} rbps={slow_bytes_s}"
    if read >= credit_bytes and int(rate) != slow_bytes_s:
        limits.write_text(change)
