"""How truly imitated volumes behave: fio on the block device, beside what the same model answers alone.

    .venv/bin/python benchmarks/volume_fidelity.py [--seconds 3] [gp3,size=100GiB …]

For each volume and load: the rate that fio got over that of the model simulated (within 2 %), and the same
of the median and the 99th percentile of latency (within 5 %); how late the server's answers were, and its CPU
time for each request. Then what passes without a model. Needs root, FUSE and fio; another program that wants
the processors shows in every figure.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
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
RATE_TOLERANCE, LATENCY_TOLERANCE = 0.02, 0.05
CEILINGS = (("randread", 8192), ("read", 1 << 18))


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
    """Print a row for each volume, load and depth, and the ceiling."""
    parser = argparse.ArgumentParser(description="Imitated volumes against their models.")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("volumes", nargs="*", default=VOLUMES)
    arguments = parser.parse_args()
    reason = why_not() or ("" if shutil.which("fio") else "fio is missing: type apt-get install fio")
    if reason:
        sys.exit(reason)
    with tempfile.TemporaryDirectory(prefix="pgassay-fidelity-") as folder:
        served = ServedImage(Path(folder), size_for(2 * FILE_BYTES), FILE_BYTES, None, is_users=True)
        try:
            measure(served, arguments.volumes, arguments.seconds)
        finally:
            served.remove()


def measure(served: ServedImage, volumes: Sequence[str], seconds: int) -> None:
    """All figures, on one device."""
    file = served.root / "file"
    run_fio(file, "write", 1 << 20, 8, ())
    served.measure_overhead()
    served.set_write_cache(is_volatile=False)
    print(f"way through the kernel: median {served.overhead_ns[0] / 1e3:.0f} µs")
    print(f"{'fio over the model':66}   rate    p50    p99  own p50/p99 µs  CPU µs a request")
    catalogue = load_catalogue().catalogue
    passed = cells = 0
    for text in volumes:
        ordered = parse_volume(text, catalogue)
        model = model_of(ordered, catalogue, text_of(ordered)).model_dump(mode="json")
        for name, (mode, size, depths, options, keys) in LOADS.items():
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
                cells += 1
                passed += is_close(f"{text} {name}, {depth}", got, simulated(model, pattern), told)
    print(f"{passed} of {cells} within {RATE_TOLERANCE:.0%} (rate) and {LATENCY_TOLERANCE:.0%} (latency)")
    ceiling = [run_fio(file, mode, size, 32, timed(seconds)).rate * size for mode, size in CEILINGS]
    print(f"without a model: {ceiling[0] / 8192:,.0f} random reads a second, {ceiling[1] / 1e6:,.0f} MB/s")


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
    """A load around the page cache."""
    command = [
        *("fio", "--name=load", f"--filename={file}", f"--size={FILE_BYTES}", f"--rw={mode}", f"--bs={size}"),
        *("--ioengine=libaio", "--direct=1", f"--iodepth={depth}", "--lat_percentiles=1"),
        *("--percentile_list=50:99", "--output-format=json", *options),
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
    requests = max(1, sum(second["reads"] + second["writes"] for second in told))
    cpu_us = sum(second["cpu_s"] for second in told) / requests * 1e6
    busiest = max(told, key=lambda second: second["reads"] + second["writes"])["own_delay_us"]
    figures = " ".join(f"{ratio:6.3f}" for ratio in ratios)
    mark = " " if passes else "*"
    print(
        f"{mark}{name:65} {figures}  {busiest['p50']:6.1f} /{busiest['p99']:6.1f}  {cpu_us:8.1f}", flush=True
    )
    return passes


if __name__ == "__main__":
    main()
