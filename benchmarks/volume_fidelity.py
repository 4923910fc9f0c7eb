"""How truly imitated volumes behave: fio on the block device, beside what the same model answers alone.

    .venv/bin/python benchmarks/volume_fidelity.py [--seconds 7] [gp3,size=100GiB …]

A line for each volume, load and depth: the rate that fio got over that of the model simulated (within 2 %),
and the same of the median and the 99th percentile of latency (within 5 %); which answers came later than by
5 % of their own latency, and the server's CPU time for each request. Where other programs took processors,
the line says nothing of the imitation. Then the second in which a burst ends (within 1 %), and the rates that
the imitation must reach. Needs root, FUSE and fio, and seven minutes for the volumes named here.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from pgassay.environment.storage.image import size_for
from pgassay.environment.storage.served import ServedImage, why_not
from pgassay.native.simulate import PatternSpec, simulate
from pgassay.native.volume import Second
from pgassay.volumes.catalogue import load_catalogue
from pgassay.volumes.explain import text_of
from pgassay.volumes.limits import model_of
from pgassay.volumes.parse import parse_volume

VOLUMES = (
    "gp2,size=100GiB",
    "gp3,size=100GiB",
    "gp3,size=400GiB,iops=12000,throughput=500",
    "io2,size=100GiB,iops=16000",
)
FILE_BYTES = 1 << 30
RATE_TOLERANCE, LATENCY_TOLERANCE, BURST_TOLERANCE = 0.02, 0.05, 0.01
CPU_US_MAX = 25.0
# 120 operations a second and 3,000 in a burst: these credits last 5 s of one.
BURST_VOLUME, BURST_PEAK, BURST_BASE, BURST_CREDITS = "gp2,size=40GiB,credits=14400", 3000, 120, 14400
# What the imitation must reach: fio's mode, bytes of a request, and the limit of a model with nothing else.
GOALS: tuple[tuple[str, int, str, int], ...] = (
    ("randread", 8192, "operations", 20_000),
    ("read", 1 << 17, "bytes", 500_000_000),
)


class Keys(TypedDict, total=False):
    """What a load adds to the pattern of the simulation."""

    order: str
    write_share: float
    flush_after: int


# fio's mode, bytes of a request, depths, further options of fio, further keys of the simulation.
Load = tuple[str, int, tuple[int, ...], tuple[str, ...], Keys]
LOADS: dict[str, Load] = {
    "random 8 kB": ("randread", 8192, (1, 8, 32), (), {}),
    "sequential 128 kB": ("read", 131072, (1, 8, 32), (), {"order": "sequential"}),
    "mixed 70/30": ("randrw", 8192, (1, 8, 32), ("--rwmixread=70",), {"write_share": 0.3}),
    "fdatasync": ("randwrite", 8192, (1, 8), ("--fdatasync=1",), {"write_share": 1.0, "flush_after": 1}),
}


@dataclass(frozen=True)
class Figures:
    """What a load got: requests a second, and latencies of its reads (without any, of its writes)."""

    rate: float
    p50_ms: float
    p99_ms: float


def main() -> None:
    """Print a line for each cell, and how many passed."""
    parser = argparse.ArgumentParser(description="Imitated volumes against their models.")
    parser.add_argument("--seconds", type=int, default=7, help="of each cell")
    parser.add_argument("--load", choices=LOADS, help="this one alone")
    parser.add_argument("volumes", nargs="*", default=VOLUMES)
    arguments = parser.parse_args()
    reason = why_not() or ("" if shutil.which("fio") else "fio is missing: type apt-get install fio")
    if reason:
        sys.exit(reason)
    loads = {name: load for name, load in LOADS.items() if arguments.load in (None, name)}
    with tempfile.TemporaryDirectory(prefix="pgassay-fidelity-") as folder:
        served = ServedImage(Path(folder), size_for(2 * FILE_BYTES), FILE_BYTES, None, is_users=True)
        try:
            measure(served, arguments.volumes, loads, arguments.seconds)
        finally:
            served.remove()


def measure(served: ServedImage, volumes: Sequence[str], loads: Mapping[str, Load], seconds: int) -> None:
    """All figures, on one device."""
    began = time.monotonic()
    file = served.root / "file"
    run_fio(file, "write", 1 << 20, 8, ())
    served.measure_overhead()
    served.set_write_cache(is_volatile=False)
    print(f"way through the kernel: median {served.overhead_ns[0] / 1e3:.0f} µs")
    print(f"     {'fio over the model':60}   rate    p50    p99   late  CPU µs a request")
    catalogue = load_catalogue().catalogue
    cells = []
    for text in volumes:
        ordered = parse_volume(text, catalogue)
        model = model_of(ordered, catalogue, text_of(ordered)).model_dump(mode="json")
        for name, (mode, size, depths, options, keys) in loads.items():
            for depth in depths:
                served.impose(model, seed=1)
                got = run_fio(file, mode, size, depth, (*timed(seconds), *options))
                told = served.release()
                pattern: PatternSpec = {
                    "depth": depth,
                    "request_bytes": size,
                    "order": "random",
                    "duration_s": float(seconds),
                    "span_bytes": FILE_BYTES,
                    **keys,
                }
                cells.append(is_close(f"{text} {name}, {depth}", got, simulated(model, pattern), told))
    cells.append(burst_ends_in_time(served, file))
    cells += [reaches_goal(served, file, seconds, *goal) for goal in GOALS]
    free = [run_fio(file, mode, size, 32, timed(3)).rate * size for mode, size, *_ in GOALS]
    print(f"without a model: {free[0] / 8192:,.0f} random reads a second, {free[1] / 1e6:,.0f} MB/s")
    print(
        f"{sum(cells)} of {len(cells)} pass: rates within {RATE_TOLERANCE:.0%}, latencies within "
        f"{LATENCY_TOLERANCE:.0%}, the burst's end within {BURST_TOLERANCE:.0%}; "
        f"{time.monotonic() - began:.0f} s in all"
    )


def simulated(model: Mapping[str, object], pattern: PatternSpec) -> Figures:
    """What the model answers."""
    (answer,) = simulate([model], pattern=pattern)
    latency = answer["latency_ms"]
    assert latency is not None, "nothing was done"
    return Figures(answer["requests_per_s"], latency["p50"], latency["p99"])


def timed(seconds: int) -> tuple[str, ...]:
    """fio's options for a load of so long."""
    return ("--time_based", f"--runtime={seconds}", "--norandommap", "--randrepeat=0")


def run_fio(file: Path, mode: str, size: int, depth: int, options: Sequence[str]) -> Figures:
    """A load around the page cache. Where it flushes, each of its clients waits for its own."""
    is_blocking = depth == 1 or "--fdatasync=1" in options
    clients = ("--ioengine=psync", f"--numjobs={depth}", "--thread", "--group_reporting")
    command = [
        *("fio", "--name=load", f"--filename={file}", f"--size={FILE_BYTES}", f"--rw={mode}", f"--bs={size}"),
        *(clients if is_blocking else ("--ioengine=libaio", f"--iodepth={depth}")),
        *("--direct=1", "--lat_percentiles=1", "--percentile_list=50:99", "--output-format=json", *options),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    timed_part = job["read"] if job["read"]["total_ios"] else job["write"]
    percentiles = timed_part["lat_ns"]["percentile"]
    return Figures(
        job["read"]["iops"] + job["write"]["iops"],
        percentiles["50.000000"] / 1e6,
        percentiles["99.000000"] / 1e6,
    )


def is_close(name: str, got: Figures, expected: Figures, told: Sequence[Second]) -> bool:
    """Print a cell, and say whether it is within the tolerances."""
    ratios = [
        got.rate / expected.rate,
        got.p50_ms / expected.p50_ms,
        got.p99_ms / expected.p99_ms,
    ]
    bounds = (RATE_TOLERANCE, LATENCY_TOLERANCE, LATENCY_TOLERANCE)
    passes = all(abs(ratio - 1) <= bound for ratio, bound in zip(ratios, bounds, strict=True))
    print_line(name, passes, " ".join(f"{ratio:6.3f}" for ratio in ratios), told)
    return passes


def burst_ends_in_time(served: ServedImage, file: Path) -> bool:
    """Whether the credits of a burst are gone when the closed form says: those that it began with, and what
    flowed in before the first request, over what it spends."""
    catalogue = load_catalogue().catalogue
    ordered = parse_volume(BURST_VOLUME, catalogue)
    model = model_of(ordered, catalogue, text_of(ordered)).model_dump(mode="json")
    with tempfile.TemporaryDirectory(prefix="pgassay-burst-") as folder:
        log = Path(folder) / "burst"
        imposed_ms = time.time() * 1e3
        served.impose(model, seed=1)
        command = [
            *("fio", "--name=load", f"--filename={file}", f"--size={FILE_BYTES}", "--rw=randread", "--bs=8k"),
            *("--ioengine=libaio", "--iodepth=32", "--direct=1", f"--write_lat_log={log}"),
            *(*timed(8), "--output-format=json"),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        told = served.release()
        lines = Path(f"{log}_lat.1.log").read_text().splitlines()
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    idle_s = max(0.0, float(job.get("job_start", imposed_ms)) - imposed_ms) / 1e3
    expected_s = (BURST_CREDITS + BURST_BASE * idle_s) / (BURST_PEAK - BURST_BASE)
    times_s = sorted(int(line.split(",")[0]) / 1e3 for line in lines)
    # Completions come every third of a millisecond until then, and every eighth millisecond afterwards.
    ahead, slow_s = 5, 5 / BURST_BASE / 2
    ended_s = next(
        (now for now, later in zip(times_s, times_s[ahead:], strict=False) if later - now > slow_s),
        times_s[-1],
    )
    passes = abs(ended_s / expected_s - 1) <= BURST_TOLERANCE
    words = f"{ended_s:.3f} s, and {expected_s:.3f} s by the closed form"
    print_line(f"{BURST_VOLUME} the burst ends after", passes, words, told)
    return passes


def reaches_goal(
    served: ServedImage, file: Path, seconds: int, mode: str, size: int, unit: str, rate: int
) -> bool:
    """Whether a volume with one limit gives all of it, at no more CPU time a request than is allowed."""
    latency = {"median_ns": 500_000.0, "sigma": 0.0}
    limiter = {"name": unit, "unit": unit, "rate": rate}
    if unit == "operations":
        limiter["quantum_bytes"] = 1 << 18
    model = {
        "name": "goal",
        "limiters": [limiter],
        "latency": {"read": latency, "write": latency, "flush": latency},
    }
    served.impose(model, seed=1)
    got = run_fio(file, mode, size, 32, timed(seconds)).rate * (size if unit == "bytes" else 1)
    told = served.release()
    passes = got >= rate * (1 - RATE_TOLERANCE) and cpu_us(told) <= CPU_US_MAX
    print_line(f"{rate:,} {unit} a second ({mode} of {size} bytes)", passes, f"{got:,.0f}", told)
    return passes


def cpu_us(told: Sequence[Second]) -> float:
    """The server's CPU time for each request, in microseconds."""
    requests = max(1, sum(second["reads"] + second["writes"] for second in told))
    return sum(second["cpu_s"] for second in told) / requests * 1e6


def print_line(name: str, passes: bool, words: str, told: Sequence[Second]) -> None:
    """A cell: whether it passes, its figures, how many answers came late, and what serving them took."""
    answers = max(1, sum(second["reads"] + second["writes"] + second["flushes"] for second in told))
    late = sum(second["late"] for second in told) / answers
    print(f"{'pass' if passes else 'FAIL'} {name:60} {words}  {late:5.1%}  {cpu_us(told):8.1f}", flush=True)


if __name__ == "__main__":
    main()
