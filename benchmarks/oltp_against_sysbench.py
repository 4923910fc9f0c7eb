"""oltp_read_only of pgassay's load generator beside sysbench's own, on one server and the same tables.

Prepared statements, uniform ids, at 1 and 10 connections: pgassay on one thread, sysbench on one for each
connection (it has no other way). Every block runs both once, in random order; ratios and intervals are those
of pgassay's own statistics. Printed: throughput of pgassay over sysbench's (to be equivalent within 5 %), and
client CPU per transaction of both.

Two placements, as in load_against_pgbench.py. `apart`: the server on one half of the processors, the client
on the other. `together`: no pinning; on a small machine what a lean client saves becomes throughput.

CPU time has two sources: pgassay-native reads its threads' clocks at both ends of the measured interval;
sysbench can only be measured whole (rusage of the child, its start and connections included).

    python benchmarks/oltp_against_sysbench.py [--blocks 16] [--seconds 2] [--clients 1,10] [--bin FOLDER]
"""

import argparse
import math
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from load_against_pgbench import (
    WARMUP_S,
    Outcome,
    Server,
    default_bin_directory,
    on_processors,
    ratio_of,
    running_server,
)
from pgassay.native import run_load

TABLES = 4
TABLE_SIZE = 10_000


def sysbench(server: Server, *words: str) -> str:
    """Run sysbench's oltp_read_only against the server; its output."""
    command = ["sysbench", "oltp_read_only", "--db-driver=pgsql", f"--pgsql-host={server.folder}"]
    command += ["--pgsql-user=postgres", "--pgsql-db=postgres", f"--tables={TABLES}"]
    command += [f"--table_size={TABLE_SIZE}", "--rand-type=uniform", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run_sysbench(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    # Its warm-up has a report of its own only in the newest versions: as many seconds as pgassay altogether.
    duration = f"--time={math.ceil(seconds + WARMUP_S)}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = sysbench(server, f"--threads={clients}", duration, f"--rand-seed={seed}", "run")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    match = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", output)
    if match is None:
        raise SystemExit(f"sysbench's output tells no transactions:\n{output}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(float(match[2]), cpu_s / int(match[1]) * 1e6)


def run_pgassay(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    options = {"tables": TABLES, "table_size": TABLE_SIZE}
    spec = {"connect": server.parameters, "script": "oltp_read_only", "oltp_read_only": options}
    spec |= {"clients": clients, "threads": 1, "protocol": "prepared", "seed": seed}
    record = run_load(spec | {"duration_s": seconds, "warmup_s": WARMUP_S})
    count = record["transactions"]
    return Outcome(count / record["elapsed_s"], record["client_cpu_s"] / count * 1e6)


RUNNERS: dict[str, Callable[[Server, int, float, int], Outcome]] = {
    "pgassay": run_pgassay,
    "sysbench": run_sysbench,
}


def compare(
    server: Server, placement: str, clients: int, blocks: int, seconds: float, order: random.Random
) -> None:
    """Run the blocks at one number of connections and print the ratios."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in RUNNERS}
    for block in range(blocks):
        for name in order.sample(sorted(RUNNERS), len(RUNNERS)):
            outcomes[name].append(RUNNERS[name](server, clients, seconds, block + 1))
    here = f"{placement:8} {clients:3} connections"
    for name, runs in outcomes.items():
        middle = statistics.median(run.throughput for run in runs)
        cost = statistics.median(run.cpu_us for run in runs)
        print(f"{here}  {name:8} {middle:8.1f} transactions/s  {cost:7.1f} µs client CPU each")
    ours, theirs = outcomes["pgassay"], outcomes["sysbench"]
    speed = ratio_of([run.throughput for run in ours], [run.throughput for run in theirs])
    cost_ratio = ratio_of([run.cpu_us for run in ours], [run.cpu_us for run in theirs])
    print(f"{here}  throughput, pgassay / sysbench  {speed}  {speed.word} (±5 %)")
    print(f"{here}  client CPU, pgassay / sysbench  {cost_ratio}  {cost_ratio.word}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--blocks", type=int, default=16, help="runs of each (default 16, at least 6)")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured seconds of a run (default 2)")
    parser.add_argument("--clients", default="1,10", help="numbers of connections (default 1,10)")
    parser.add_argument("--placements", default="apart,together", help="apart, together or both")
    parser.add_argument("--bin", type=Path, default=None, help="the folder of PostgreSQL's programs")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs (default 1)")
    arguments = parser.parse_args()
    if arguments.blocks < 6:
        parser.error("--blocks must be at least 6: fewer pairs can give no verdict")
    if shutil.which("sysbench") is None:
        print("There is no sysbench on this machine, so nothing is compared; install the package sysbench.")
        return 0
    order = random.Random(arguments.seed)
    processors = sorted(os.sched_getaffinity(0))
    half = max(1, len(processors) // 2)
    for placement in arguments.placements.split(","):
        apart = placement == "apart"
        with (
            on_processors(set(processors[:half]) if apart else None),
            running_server(arguments.bin or default_bin_directory()) as server,
            on_processors(set(processors[half:]) or None if apart else set(processors)),
        ):
            sysbench(server, "prepare")
            vacuum = [
                "-h",
                str(server.folder),
                "-U",
                "postgres",
                "-c",
                "VACUUM (FREEZE, ANALYZE)",
                "postgres",
            ]
            subprocess.run([server.bin / "psql", *vacuum], check=True, capture_output=True)
            print(f"{placement}: server {server.bin}; {arguments.blocks} blocks of {arguments.seconds} s")
            for number in arguments.clients.split(","):
                compare(server, placement, int(number), arguments.blocks, arguments.seconds, order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
