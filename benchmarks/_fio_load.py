"""A load by fio on one file: its rate, each request's latency, and what others took of the processors.

fio's own percentiles are steps of up to 1.6 % apart; here they are those of all requests, from its log.
"""

import json
import math
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.linux.machine import CpuTimes, cpu_times
from pgassay.environment.linux.processes import TICKS_PER_SECOND

# So much of the processors may go to others without a figure's being doubted.
STEAL_SHARE_MAX, OTHERS_SHARE_MAX = 0.005, 0.02
# fio waits for a processor before other programs do: that wait is none of the volume's. A nice value does not
# suffice, as who has the processor keeps it for milliseconds all the same. The volume's server comes first.
_FIRST = ("chrt", "--fifo", "1")


@dataclass(frozen=True)
class Load:
    """fio's mode, bytes of a request, requests at once, further options; `file_bytes` of it are used."""

    mode: str
    request_bytes: int
    depth: int
    file_bytes: int
    options: tuple[str, ...] = ()

    def command(self, file: Path, seconds: float | None) -> list[str]:
        """Around the page cache. Where it flushes, each of its clients waits for its own."""
        is_blocking = self.depth == 1 or "--fdatasync=1" in self.options
        clients = ("--ioengine=psync", f"--numjobs={self.depth}", "--thread", "--group_reporting")
        timed = () if seconds is None else ("--time_based", f"--runtime={seconds}", "--norandommap")
        return [
            *("fio", "--name=load", f"--filename={file}", f"--size={self.file_bytes}", f"--rw={self.mode}"),
            *(f"--bs={self.request_bytes}", "--direct=1", "--randrepeat=0", "--output-format=json"),
            *(clients if is_blocking else ("--ioengine=libaio", f"--iodepth={self.depth}")),
            *(*timed, *self.options),
        ]


@dataclass(frozen=True)
class Done:
    """What a load got: reads and writes a second, and the latency of each of them, the shortest first.

    `ended_s`: when each was done, from the load's beginning. `idle_s`: how long after the call that was.
    """

    rate: float
    latencies_ns: Sequence[int]
    ended_s: Sequence[float]
    idle_s: float

    def percentile_ms(self, percent: float) -> float:
        """The least latency that so many percent of the requests don't exceed."""
        rank = math.ceil(len(self.latencies_ns) * percent / 100)
        return self.latencies_ns[max(rank, 1) - 1] / 1e6


@dataclass(frozen=True)
class Beside:
    """Shares of all processors: what the hypervisor gave to others, and what other programs computed here."""

    steal: float
    others: float

    @property
    def disturbs(self) -> bool:
        """Whether the figures may be those of the others."""
        return self.steal > STEAL_SHARE_MAX or self.others > OTHERS_SHARE_MAX


class Watch:
    """Tells what others took between its making and `beside`; the process `server` is none of them.

    The kernel's own threads compute no time outside of the kernel, so that is where others are seen.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._began_s = time.monotonic()
        self._began = self._now()

    def beside(self) -> Beside:
        """Since this was made."""
        machine, own_s = self._now()
        spent = machine - self._began[0]
        all_s = (time.monotonic() - self._began_s) * (os.cpu_count() or 1)
        others_s = spent.user_s + spent.nice_s - (own_s - self._began[1])
        return Beside(spent.steal_s / all_s, max(0.0, others_s) / all_s)

    def _now(self) -> tuple[CpuTimes, float]:
        machine = cpu_times()
        assert machine is not None, "no /proc/stat"
        words = Path(f"/proc/{self._server}/stat").read_text().rpartition(")")[2].split()
        whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        own_s = sum(resource.getrusage(each).ru_utime for each in whose)
        return machine, own_s + int(words[11]) / TICKS_PER_SECOND


def fill(file: Path, file_bytes: int) -> None:
    """Write all of it."""
    command = Load("write", 1 << 20, 8, file_bytes).command(file, None)
    subprocess.run(command, check=True, capture_output=True)


def run(load: Load, file: Path, seconds: float) -> Done:
    """Run it for so long."""
    with tempfile.TemporaryDirectory(prefix="pgassay-load-") as folder:
        log = Path(folder) / "load"
        logged = (f"--write_lat_log={log}", "--log_entries=1048576", "--disable_slat=1", "--disable_clat=1")
        called_ms = time.time() * 1e3
        command = [*_FIRST, *load.command(file, seconds), *logged]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        ended_s, latencies_ns = [], []
        for each in sorted(Path(folder).glob("load_lat.*.log")):
            for line in each.read_text().splitlines():
                ended_ms, latency_ns, *_ = line.split(",", 2)
                ended_s.append(int(ended_ms) / 1e3)
                latencies_ns.append(int(latency_ns))
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return Done(
        job["read"]["iops"] + job["write"]["iops"],
        sorted(latencies_ns),
        sorted(ended_s),
        max(0.0, float(job.get("job_start", called_ms)) - called_ms) / 1e3,
    )
