"""Loading the pgbench data: pgassay against `pgbench -i` on a stock server of the same build.

Both start on a running, empty server. pgassay's time ends with the frozen snapshot on the device
(stopped and synced); pgbench's ends when `pgbench -i` returns. The two take turns.

    .venv/bin/python benchmarks/load_dataset.py [--scale 100] [--rounds 3] [--pg 18]
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pgassay.environment import datasets
from pgassay.environment.builds.registry import resolve
from pgassay.environment.cleanup import registry
from pgassay.environment.home import home
from pgassay.environment.linux.settle import sync_tree, wait_until_settled
from pgassay.environment.server.initdb import make_cluster
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import identity
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

TARGET_RATIO = 0.75


def main() -> int:
    """Print each time and the ratio of the medians; exit 1 when it misses the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pg", default=None, help="the build, as in pgassay compare --pg")
    arguments = parser.parse_args()
    build = resolve(arguments.pg)
    print(f"PostgreSQL {build.version} ({build.origin}), scale {arguments.scale}")
    loaders: dict[str, Callable[[Build, Path, int], float]] = {
        "pgbench -i": by_pgbench,
        "pgassay": by_pgassay,
    }
    times: dict[str, list[float]] = {name: [] for name in loaders}
    for number in range(arguments.rounds):
        # Each goes first in turn, so that neither always meets the machine as the other left it.
        names = list(loaders) if number % 2 == 0 else list(reversed(loaders))
        for name in names:
            seconds = in_fresh_cluster(build, arguments.scale, loaders[name])
            times[name].append(seconds)
            print(f"  round {number + 1}  {name:<10}  {seconds:6.2f} s", flush=True)
    ratios = [ours / theirs for ours, theirs in zip(times["pgassay"], times["pgbench -i"], strict=True)]
    ratio = statistics.median(ratios)
    shown = ", ".join(f"{value:.2f}" for value in ratios)
    print(f"ratio pgassay / pgbench -i: {ratio:.2f} (rounds: {shown}); target at most {TARGET_RATIO}")
    return 0 if ratio <= TARGET_RATIO else 1


def in_fresh_cluster(build: Build, scale: int, load: Callable[[Build, Path, int], float]) -> float:
    """Run one loader on a new cluster and remove it again; the machine is quiet before it starts."""
    folder = home() / "data" / "benchmark-load"
    token = registry.register("folder", path=str(folder))
    try:
        make_cluster(build, folder, DatasetSpec(scale=scale))
        sync_tree(folder)
        wait_until_settled(60)
        return load(build, folder, scale)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        registry.forget(token)


def by_pgbench(build: Build, folder: Path, scale: int) -> float:
    """Load with `pgbench -i` on a server with initdb's defaults; return seconds."""
    with Server(build, folder, {}) as server:
        command = [f"{build.bin_directory}/pgbench", "-i", "-q", "-s", str(scale)]
        command += ["-h", str(server.socket_directory), "-U", "postgres", "postgres"]
        begun = time.monotonic()
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **identity()
        )
        return time.monotonic() - begun


def by_pgassay(build: Build, folder: Path, scale: int) -> float:
    """Load, freeze, stop and sync as a snapshot is made; return seconds."""
    with Server(build, folder, datasets.bulk_settings(build)) as server:
        begun = time.monotonic()
        datasets.load(server, DatasetSpec(scale=scale), lambda *_: None)
        datasets.install_extensions(server, build)
        datasets.freeze(server, lambda *_: None)
    sync_tree(folder)
    return time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
