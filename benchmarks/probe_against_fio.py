"""The probe's engines beside fio on one file: psync and io_uring, direct and buffered, at several depths.

Every block runs both once in each cell, in random order, on the same file: pages of the probe's own making,
none of them verified; completions are deferred and taken in any order, and every request is submitted by
itself, as fio does and PostgreSQL does not. Buffered reads find the file in the page
cache; fio has `fadvise_hint=0`, `norandommap` and aligned buffers. Printed: operations per second of the
probe over fio's (to be equivalent within 5 %), and CPU per operation over fio's (at most 1). CPU time: the
probe's threads and the kernel's workers for it; fio's own figures of its job.

Both have the same surroundings, which tell more than either program on a virtual machine of two processors:
- huge pages for the buffers of direct reads, reserved for fio while it runs (this needs root). A disk is told
  of a buffer by its ranges of physical memory: with small pages, of which some follow each other and some
  don't, fio read the same file at 1.65 GB/s ± 12 % from start to start, with huge ones at 2.3 ± 7 %.
- one processor, the last. The disk's interrupts come to one of them, and there it answered 12 000 reads a
  second, on the other 7 000: the scheduler's choice would be what is compared.
- a thread that wakes every 2 ms, more often than the kernel's tick (4 ms): else a processor that goes idle
  stops its tick for each read and starts it again, which a hypervisor makes dear; fio's main thread, which
  wakes every 10 ms, spares it a part of that. A loop of nothing but `pread` made 10 200 reads a second at
  37 µs of CPU each alone, 11 300 at 28 µs in such company; fio 10 800 at 32 µs alone, 11 400 at 28 µs.

    python benchmarks/probe_against_fio.py [--blocks 12] [--seconds 1] [--mb 1024] [--cells WORD] [--folder F]
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from _paired_loads import Outcome, cpu_ratio, on_processors, throughput_ratio
from _probed_file import PAGE, Probe, arguments_of, probe_of_a_file
from pgassay.environment.linux.machine import meminfo_number

DEPTHS = (1, 8, 32, 128)
# Less than a tick of 250 Hz.
COMPANY_S = 0.002
# For 128 buffers of 8 kB or 8 of 128 kB, wherever fio begins.
HUGE_PAGES = 4


@dataclass(frozen=True)
class Cell:
    """One way of reading; `method` is sync or io_uring."""

    method: str
    direct: bool
    pattern: str
    request_bytes: int
    depth: int

    def __str__(self) -> str:
        where = "direct" if self.direct else "buffered"
        return f"{self.method} {where} {self.pattern} {self.request_bytes // 1024} kB depth {self.depth}"


def all_cells() -> list[Cell]:
    """psync knows no depth; sequences are asked for in PostgreSQL's largest default request."""
    cells = []
    for direct in (True, False):
        cells.append(Cell("sync", direct, "random", PAGE, 1))
        cells += [Cell("io_uring", direct, "random", PAGE, depth) for depth in DEPTHS]
        cells.append(Cell("sync", direct, "sequential", 16 * PAGE, 1))
        cells.append(Cell("io_uring", direct, "sequential", 16 * PAGE, 8))
    return cells


def run_probe(probe: Probe, file: Path, cell: Cell, seconds: float, seed: int) -> Outcome:
    record = probe.ask(
        cell={
            "file": str(file),
            "engine": cell.method,
            "direct": cell.direct,
            "pattern": cell.pattern,
            "request_bytes": cell.request_bytes,
            "depth": cell.depth,
            "duration_s": seconds,
            "verify": False,
            "in_order": False,
            "kernel_workers": False,
            "defer_completions": True,
            "submit_batch": 1,
            "seed": seed,
        }
    )
    cpu_s = sum(record["cpu_s"].values())
    return Outcome(record["iops"], cpu_s / record["operations"] * 1e6)


def run_fio(file: Path, cell: Cell, seconds: float, seed: int) -> Outcome:
    engine = {"sync": "psync", "io_uring": "io_uring"}[cell.method]
    command = ["fio", "--name=read", f"--filename={file}", "--readonly", "--output-format=json"]
    command += [f"--ioengine={engine}", f"--direct={int(cell.direct)}", f"--bs={cell.request_bytes}"]
    command += [f"--rw={'randread' if cell.pattern == 'random' else 'read'}", f"--iodepth={cell.depth}"]
    command += ["--time_based", f"--runtime={round(seconds * 1e3)}ms", "--fadvise_hint=0", "--norandommap"]
    # Without it fio evicts the file before a buffered job.
    command += ["--invalidate=0", f"--randseed={seed}"]
    # Buffers aligned as PostgreSQL's are: the kernel's copy depends on it. No session of its own: the
    # scheduler would treat it as another group.
    command += ["--iomem_align=4096", "--thread"]
    if cell.direct:
        command += ["--mem=mmaphuge", f"--hugepage-size={meminfo_number('Hugepagesize')}k"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    (job,) = json.loads(finished.stdout[finished.stdout.index("{") :])["jobs"]
    read = job["read"]
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * read["runtime"] / 1e3
    return Outcome(read["iops"], cpu_s / read["total_ios"] * 1e6)


@contextmanager
def reserved_huge_pages(count: int) -> Iterator[None]:
    """So many free huge pages; those that had to be reserved for it are given back."""
    setting = Path("/proc/sys/vm/nr_hugepages")
    before, free = int(setting.read_text()), (meminfo_number("HugePages_Free") or 0)
    wanted = before + max(count - free, 0)
    remedy = f"fio's buffers need {count} free huge pages: type `sysctl vm.nr_hugepages={wanted}` as root"
    try:
        if wanted > before:
            setting.write_text(str(wanted))
    except OSError as error:
        raise SystemExit(f"{remedy} ({error.strerror})") from error
    try:
        if (meminfo_number("HugePages_Free") or 0) < count:
            raise SystemExit(f"{remedy}, after `sysctl vm.compact_memory=1`")
        yield
    finally:
        if wanted > before:
            setting.write_text(str(before))


@contextmanager
def company() -> Iterator[None]:
    """A thread that wakes often and does nothing."""
    is_over = threading.Event()

    def wake() -> None:
        while not is_over.wait(COMPANY_S):
            pass

    thread = threading.Thread(target=wake, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def compare(
    probe: Probe, file: Path, cell: Cell, arguments: argparse.Namespace, order: random.Random
) -> None:
    """Run both in every block and print what they say."""
    outcomes: dict[str, list[Outcome]] = {"pgassay": [], "fio": []}
    if not cell.direct:
        probe.ask(warm={"file": str(file), "bytes": arguments.mb << 20})
    for block in range(1, arguments.blocks + 1):
        for name in order.sample(sorted(outcomes), len(outcomes)):
            if name == "fio":
                outcomes[name].append(run_fio(file, cell, arguments.seconds, block))
            else:
                outcomes[name].append(run_probe(probe, file, cell, arguments.seconds, block))
    here = f"{cell!s:42}"
    for name, runs in outcomes.items():
        rate = statistics.median(run.throughput for run in runs)
        cpu_us = statistics.median(run.cpu_us for run in runs)
        print(f"{here}  {name:7} {rate:10.1f} operations/s  {cpu_us:6.2f} µs CPU each")
    speed = throughput_ratio(outcomes["pgassay"], outcomes["fio"])
    cost = cpu_ratio(outcomes["pgassay"], outcomes["fio"])
    print(f"{here}  operations/s, pgassay / fio  {speed}  {speed.word} (±5 %)")
    met = "met" if cost.ratio <= 1 else "missed"
    print(f"{here}  CPU each,     pgassay / fio  {cost}  at most 1: {met}")
    sys.stdout.flush()


def main() -> int:
    """Run and print."""
    arguments = arguments_of(__doc__, "direct random")
    if shutil.which("fio") is None:
        raise SystemExit("fio is not installed (Debian: apt-get install fio)")
    # `timeout` ends a program so: what was reserved is given back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    order = random.Random(arguments.seed)
    cells = [cell for cell in all_cells() if arguments.cells in str(cell)]
    with (
        on_processors({max(os.sched_getaffinity(0))}),
        company(),
        reserved_huge_pages(HUGE_PAGES if any(cell.direct for cell in cells) else 0),
        probe_of_a_file(arguments.folder, arguments.mb) as (probe, file),
    ):
        for cell in cells:
            compare(probe, file, cell, arguments, order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
