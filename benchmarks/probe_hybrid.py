"""The probe's engine `hybrid` beside sync, worker and io_uring, on one file.

Every block runs all four once in each cell, in random order: cached and cold sequential scans, direct ones,
a bitmap scan's gaps, and scans beside as many busy threads as cores. Printed: the rate of hybrid over that of
the method with the highest median in the cell (target: never lower; higher where one core's checksum and copy
is the limit), with CPU per request over the same method's, and the ways in which its runs ended.

    python benchmarks/probe_hybrid.py [--blocks 12] [--seconds 1] [--mb 1024] [--cells WORD] [--folder F]
"""

import argparse
import os
import random
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from _paired_loads import Outcome, cpu_ratio, throughput_ratio
from _probed_file import PAGE, Probe, arguments_of, probe_of_a_file

METHODS = ("sync", "worker", "io_uring")
GAP = 0.1
SCAN: dict[str, Any] = {"pattern": "sequential"}
BITMAP: dict[str, Any] = {"pattern": "gaps", "gap": GAP}


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def all_cells() -> dict[str, dict[str, Any]]:
    """Name → what is asked for; a cold one ends with the file."""
    busy = {"competing_cpus": cores()}
    return {
        "cached scan": SCAN,
        "cold scan": SCAN,
        "direct scan": SCAN | {"direct": True},
        "cold bitmap scan": BITMAP,
        "cached scan, busy cores": SCAN | busy,
        "cold scan, busy cores": SCAN | busy,
    }


def run(probe: Probe, file: Path, name: str, engine: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run in the state of the page cache that the cell's name tells."""
    cell: dict[str, Any] = all_cells()[name]
    size_bytes = arguments.mb << 20
    if "cached" in name:
        probe.ask(warm={"file": str(file), "bytes": size_bytes})
    else:
        probe.ask(evict={"file": str(file)})
    most = {"bytes_max": int(size_bytes * cell.get("gap", 1.0))} if "cold" in name else {}
    return probe.ask(
        cell={
            "file": str(file),
            "engine": engine,
            "request_bytes": 16 * PAGE,
            "depth": 16,
            "duration_s": arguments.seconds,
            "execute_ns_per_page": arguments.executor_ns,
            "advise": engine == "sync",
            **most,
            **cell,
        }
    )


def outcome(record: dict[str, Any]) -> Outcome:
    """Requests per second, and microseconds of CPU each."""
    return Outcome(record["iops"], sum(record["cpu_s"].values()) / record["operations"] * 1e6)


def compare(probe: Probe, file: Path, name: str, arguments: argparse.Namespace, order: random.Random) -> None:
    """Run all in every block and print what they say."""
    outcomes: dict[str, list[Outcome]] = {engine: [] for engine in (*METHODS, "hybrid")}
    ways: Counter[str] = Counter()
    for _ in range(arguments.blocks):
        for engine in order.sample(sorted(outcomes), len(outcomes)):
            record = run(probe, file, name, engine, arguments)
            outcomes[engine].append(outcome(record))
            if engine == "hybrid":
                ways[record["path"][-1]["way"]] += 1
    rates = {engine: statistics.median(each.throughput for each in runs) for engine, runs in outcomes.items()}
    best = max(METHODS, key=lambda method: rates[method])
    told = ", ".join(f"{engine} {rate:.0f}" for engine, rate in rates.items())
    speed = throughput_ratio(outcomes["hybrid"], outcomes[best])
    cost = cpu_ratio(outcomes["hybrid"], outcomes[best])
    print(f"{name:24}  requests/s: {told}")
    ended = ", ".join(f"{way} {count}" for way, count in ways.most_common())
    print(f"{name:24}  hybrid / {best:8}  {speed}  {speed.word}; CPU {cost.ratio:.2f}; ended {ended}")
    sys.stdout.flush()


def main() -> int:
    """Run and print."""
    arguments = arguments_of(
        __doc__,
        "busy",
        lambda parser: parser.add_argument(
            "--executor-ns", type=int, default=1500, help="work on a page (default 1500)"
        ),
    )
    order = random.Random(arguments.seed)
    with probe_of_a_file(arguments.folder, arguments.mb) as (probe, file):
        for name in all_cells():
            if arguments.cells in name:
                compare(probe, file, name, arguments, order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
