"""Does the probe rank the I/O methods as PostgreSQL does?

    python benchmarks/probe_ranking.py [--seconds 240] [--max-time 6m] [--cell NAME ...] [--pg 18]
                                       [--folder FOLDER]

For each cell (throttled volumes, several read-aheads, cached data) the storage is probed, inside the same
limits, and then `pgassay compare io_method=sync,worker,io_uring` measures a real cold (or cached) scan
on a storage of the same description. A core that others use slows both, but not alike: run it on a quiet
machine. Prints prediction and measurement side by side, and for each pair of methods
whose measured verdict is not "equivalent" or "inconclusive" whether the probe ranked it alike (target: all of
them, over at least four cells).

Cold scans read a table of several times the memory that their server has, and the probe's memory is capped
as well: both read into memory that the scan itself gave back. A hypervisor that takes free memory back
decides otherwise what a read into it costs (600 to 1400 MB/s, by how long it was free), which is no property
of a method.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pgassay.environment.cgroup.group import Cgroup, memory_limit
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide

PGASSAY = Path(sys.executable).with_name("pgassay")
METHODS = ("sync", "worker", "io_uring")
MB, GB = 1 << 20, 1 << 30
# Room for 16 reads of 128 kB ahead: a backend may pin its share of the buffers, by the number of backends.
SETTINGS = ("shared_buffers=256MB", "max_connections=20")


@dataclass(frozen=True)
class Cell:
    """One storage and cache state; `work` is the probe's name of the scan; `scale` as pgbench's."""

    name: str
    storage: str
    cache: str
    work: str
    scale: int
    parallel_workers: int = 0
    memory_bytes: int | None = None
    probe_memory_bytes: int | None = None


def cold(name: str, storage: str, work: str = "cold-scan", parallel_workers: int = 0) -> Cell:
    """A scan of 2.1 GB by a server of 640 MB: all but the first sixth is read into memory given back."""
    return Cell(
        name,
        storage,
        "cold-each",
        work,
        scale=160,
        parallel_workers=parallel_workers,
        memory_bytes=640 * MB,
        # A cell of the probe reads less than a scan does, and is to fill its memory as early.
        probe_memory_bytes=256 * MB,
    )


# A short read-ahead is what tells the methods apart: sync has no other look-ahead. A limit does only where it
# is above what sync reaches.
CELLS = (
    cold("throttled", "loop:read_ahead=16,read_mb_s=700"),
    cold("throttled-far", "loop:read_ahead=8192,read_mb_s=400"),
    cold("throttled-iops", "loop:read_ahead=16,read_iops=16000"),
    cold("read-ahead-16", "loop:read_ahead=16"),
    cold("read-ahead-128", "loop:read_ahead=128"),
    cold("read-ahead-8192", "loop:read_ahead=8192"),
    cold("parallel-16", "loop:read_ahead=16", "parallel-cold-scan", 2),
    Cell("cached", "host", "warm-pages", "cached-scan", scale=20),
)


def within(cell: Cell, folder: Path | None) -> Cell:
    """The cell with its image, or its data, in a folder of the user's."""
    if folder is None:
        return cell
    folder.mkdir(exist_ok=True)
    kind, separator, keys = cell.storage.partition(":")
    return replace(cell, storage=f"{kind}:path={folder}{',' if separator else ''}{keys}")


def probed(cell: Cell, seconds: float, build: list[str]) -> dict[str, Any]:
    """The probe's document for the cell's storage, measured inside its limits."""
    volume = provide(parse_storage(cell.storage), 4 * GB)
    try:
        volume.activate()
        limits = dict(volume.limits_cgroup())
        if cell.probe_memory_bytes is not None:
            limits |= memory_limit(cell.probe_memory_bytes)
        group = Cgroup.create("probe-ranking", limits) if limits else None
        try:
            command = [*(group.join_command() if group else ()), str(PGASSAY), "probe", str(volume.root)]
            options = ["--seconds", f"{seconds:g}", "--keep-read-ahead", "--json", "--quiet", *build]
            finished = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=True)
        finally:
            if group:
                group.remove()
    finally:
        volume.remove()
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


def compared(cell: Cell, max_time: str, build: list[str], folder: Path) -> dict[str, Any]:
    """What PostgreSQL does on a storage of the same description."""
    words = ["compare", f"io_method={','.join(METHODS)}", "--workload", "full-scan:only=read-table"]
    words += ["--scale", str(cell.scale), "--cache", cell.cache, "--storage", cell.storage]
    settings = (*SETTINGS, f"max_parallel_workers_per_gather={cell.parallel_workers}")
    words += [word for setting in settings for word in ("--set", setting)]
    if cell.memory_bytes is not None:
        words += ["--memory", f"{cell.memory_bytes // MB}MB"]
    # What samples threads competes for processors with the methods that use all of them.
    words += ["--max-time", max_time, "--observe", "off"]
    finished = subprocess.run(
        [str(PGASSAY), *words, *build, "--json", "--quiet", "--out", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


def predicted_s(probe: dict[str, Any], work: str) -> dict[str, dict[str, Any]]:
    """Method → its prediction for one connection."""
    return {
        each["method"]: each
        for each in probe["predictions"]
        if each["work"] == work and each["connections"] == 1
    }


def judge(cell: Cell, probe: dict[str, Any], result: dict[str, Any], table_gb: float) -> tuple[int, int]:
    """Print the cell's figures; returns how many pairs were told apart, and how many were ranked alike."""
    predictions = predicted_s(probe, cell.work)
    print(f"\n{cell.name}: {cell.storage}, {cell.cache}")
    measured = {}
    for arm in result["arms"]:
        method = arm["levels"]["io_method"]
        measured[method] = arm
        each = predictions.get(method)
        told = "no prediction"
        if each is not None:
            low, high = (end * table_gb for end in each["interval"])
            told = f"predicted {each['time_s'] * table_gb:.3f} s ({low:.3f} to {high:.3f})"
        print(f"  {method:9} {told}; measured {arm['median']:.3f} s, {arm['verdict']}")
    pairs = alike = 0
    for method, arm in measured.items():
        if arm["verdict"] not in ("faster", "slower") or not {method, "sync"} <= predictions.keys():
            continue
        pairs += 1
        quicker = predictions[method]["time_s"] < predictions["sync"]["time_s"]
        same = quicker == (arm["verdict"] == "faster")
        alike += same
        first, second = sorted((predictions[method]["interval"], predictions["sync"]["interval"]))
        sure = "" if first[1] < second[0] else " (the probe's own intervals overlap)"
        print(
            f"  {method} against sync: measured {arm['verdict']}, "
            f"{'ranked alike' if same else 'RANKED WRONGLY'}{sure}"
        )
    return pairs, alike


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--max-time", default="6m")
    parser.add_argument("--cell", action="append", choices=[cell.name for cell in CELLS])
    parser.add_argument(
        "--folder", type=Path, help="where the images and the data lie (default: as for pgassay)"
    )
    parser.add_argument("--pg", help="the build, as for pgassay compare")
    arguments = parser.parse_args()
    build = ["--pg", arguments.pg] if arguments.pg else []
    pairs = alike = told_apart = 0
    for cell in CELLS:
        if arguments.cell and cell.name not in arguments.cell:
            continue
        cell = within(cell, arguments.folder)
        # A page of pgbench_accounts holds 61 rows.
        table_gb = cell.scale * 100_000 / 61 * 8192 / GB
        probe = probed(cell, arguments.seconds, build)
        with tempfile.TemporaryDirectory(prefix="pgassay-bench-") as scratch:
            result = compared(cell, arguments.max_time, build, Path(scratch, "out"))
        made = judge(cell, probe, result, table_gb)
        pairs, alike, told_apart = pairs + made[0], alike + made[1], told_apart + (made[0] > 0)
    print(
        f"\n{alike} of {pairs} measured differences ranked alike, in {told_apart} cells (target: all, 4 "
        "cells)"
    )


if __name__ == "__main__":
    main()
