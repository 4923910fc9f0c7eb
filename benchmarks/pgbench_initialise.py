"""`pgassay pgbench -i` beside the real one, on one server with its own settings.

Each pair makes the same tables by both, in random order, and drops them untimed. Printed: the median times
and the ratio with its interval. Both are timed from their start to their end, pgassay's interpreter included.

    python benchmarks/pgbench_initialise.py [--pairs 6] [--scale 20,100] [--bin FOLDER]
"""

import argparse
import functools
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _own_server import own_server
from _paired_loads import default_bin_directory, ratio_of, times_in_turn

# PostgreSQL's own settings, but that nobody connects from outside.
SETTINGS = "-c listen_addresses=''"
TARGET = 0.7


def _timed(program: list[str], folder: Path, scale: int) -> float:
    command = [*program, "-h", str(folder), "-U", "postgres", "-i", "-q"]
    subprocess.run([*command, "-I", "d", "postgres"], check=True, capture_output=True)
    started = time.monotonic()
    subprocess.run([*command, "-s", str(scale), "postgres"], check=True, capture_output=True)
    return time.monotonic() - started


def main() -> int:
    """Run and print; exit 1 when a scale misses the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--scale", default="20,100", help="scales, each in turn")
    parser.add_argument("--bin", type=Path, default=None, help="PostgreSQL's programs")
    arguments = parser.parse_args()
    programs = arguments.bin or default_bin_directory()
    order, missed = random.Random(1), False
    with own_server(programs, SETTINGS) as folder:
        for scale in (int(text) for text in arguments.scale.split(",")):
            runners = {
                "pgbench": functools.partial(_timed, [str(programs / "pgbench")], folder, scale),
                "pgassay": functools.partial(
                    _timed, [sys.executable, "-m", "pgassay.cli.main", "pgbench"], folder, scale
                ),
            }
            times = times_in_turn(runners, arguments.pairs, order)
            ratio = ratio_of(times["pgassay"], times["pgbench"])
            medians = ", ".join(f"{name} {statistics.median(each):.2f} s" for name, each in times.items())
            print(f"scale {scale}: {medians}; ratio {ratio}")
            print(f"  target {TARGET}: {'reached' if ratio.ratio <= TARGET else 'not reached'}", flush=True)
            missed |= ratio.ratio > TARGET
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
