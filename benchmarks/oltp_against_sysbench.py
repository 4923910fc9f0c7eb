"""A script of sysbench's by pgassay's load generator and by sysbench, on one server and the same tables.

Prepared statements, uniform ids, at 1 and 10 connections: sysbench on one thread for each connection (it has
no other way), pgassay on as many, and on one. Every block runs each once, in random order; ratios and
intervals are those of pgassay's own statistics. Printed: throughput of pgassay over sysbench's (to be
equivalent within 5 %), and client CPU per transaction, in the two placements of _paired_loads.py.

All are measured after a warm-up of one second: of sysbench's own report by the second the first is left out.
CPU time has two sources: pgassay-native reads its threads' clocks at both ends of the measured interval;
sysbench can only be measured whole (rusage of the child, its start and connections included).

    python benchmarks/oltp_against_sysbench.py [--blocks 16] [--seconds 2] [--clients 1,10] [--bin FOLDER]
                                              [--range-size 100] [--script oltp_read_only]
"""

import argparse
import math
import random
import re
import resource
import statistics
import subprocess
import sys
from functools import partial

from _paired_loads import (
    WARMUP_S,
    Outcome,
    Runner,
    Server,
    arguments_of,
    cpu_ratio,
    has_sysbench,
    print_medians,
    run_blocks,
    run_placements,
    throughput_ratio,
)
from pgassay.native.load import run_load

TABLES = 4
TABLE_SIZE = 10_000
RANGE_SIZE = 100


def sysbench(server: Server, script: str, *words: str) -> str:
    """Run sysbench's script against the server; its output."""
    command = ["sysbench", script, "--db-driver=pgsql", f"--pgsql-host={server.folder}"]
    command += ["--pgsql-user=postgres", "--pgsql-db=postgres", f"--tables={TABLES}"]
    command += [f"--table_size={TABLE_SIZE}", "--rand-type=uniform", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run_sysbench(
    server: Server, clients: int, seconds: float, seed: int, *, range_size: int, script: str
) -> Outcome:
    # Its warm-up has a report of its own only in the newest versions. One second more than is read: the
    # last one ends together with the program, which may leave out its line.
    first, end = math.ceil(WARMUP_S), math.ceil(seconds + WARMUP_S)
    duration = [f"--time={end + 1}", "--report-interval=1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [f"--threads={clients}", *duration, f"--rand-seed={seed}", f"--range_size={range_size}"]
    output = sysbench(server, script, *words, "run")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    match = re.search(r"transactions:\s+(\d+)\s", output)
    per_second = [float(each) for each in re.findall(r"^\[ \d+s \].* tps: ([\d.]+)", output, re.M)]
    measured = per_second[first:end]
    if match is None or not measured:
        raise SystemExit(f"sysbench's output tells no transactions:\n{output}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(statistics.mean(measured), cpu_s / int(match[1]) * 1e6)


def run_pgassay(
    server: Server,
    clients: int,
    seconds: float,
    seed: int,
    *,
    range_size: int,
    script: str,
    threads: int | None = None,
) -> Outcome:
    options = {"script": script, "tables": TABLES, "table_size": TABLE_SIZE, "range_size": range_size}
    spec: dict[str, object] = {"connect": server.parameters, "script": "sysbench", "sysbench": options}
    spec |= {"clients": clients, "threads": threads or clients, "protocol": "prepared", "seed": seed}
    record = run_load(spec | {"duration_s": seconds, "warmup_s": WARMUP_S})
    count = record["transactions"]
    return Outcome(count / record["elapsed_s"], record["client_cpu_s"] / count * 1e6)


def load_tables(server: Server) -> None:
    """sysbench's own tables, vacuumed, as both read them."""
    sysbench(server, "oltp_read_write", "prepare")
    vacuum = ["-h", str(server.folder), "-U", "postgres", "-c", "VACUUM (FREEZE, ANALYZE)", "postgres"]
    subprocess.run([server.bin / "psql", *vacuum], check=True, capture_output=True)


def main() -> int:
    """Run and print."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--range-size", type=int, default=RANGE_SIZE)
        parser.add_argument("--script", default="oltp_read_only")

    arguments = arguments_of(__doc__, "1,10", add)
    if not has_sysbench():
        return 0

    def compare(server: Server, here: str, clients: int, order: random.Random) -> None:
        size, script = arguments.range_size, arguments.script
        runners: dict[str, Runner] = {
            "pgassay": partial(run_pgassay, range_size=size, script=script),
            "sysbench": partial(run_sysbench, range_size=size, script=script),
        }
        if clients > 1:
            runners["one thread"] = partial(run_pgassay, range_size=size, script=script, threads=1)
        outcomes = run_blocks(runners, server, clients, arguments, order)
        print_medians(here, outcomes)
        theirs = outcomes.pop("sysbench")
        for name, ours in outcomes.items():
            speed, cost = throughput_ratio(ours, theirs), cpu_ratio(ours, theirs)
            print(f"{here}  throughput, {name} / sysbench  {speed}  {speed.word} (±5 %)")
            print(f"{here}  client CPU, {name} / sysbench  {cost}  {cost.word}")

    run_placements(arguments, compare, load_tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
