"""`pgassay sysbench … prepare` beside sysbench's own, on one server with PostgreSQL's default settings.

Each pair makes and drops the same tables by both, in random order, with as many jobs or threads as there are
tables at most. Printed: the median times and the ratio with its interval. The native loader is timed from its
start to its end, as sysbench is; the command around it starts an interpreter as well, which is printed too.

    python benchmarks/sysbench_prepare.py [--pairs 8] [--tables 1,4] [--rows 500000] [--bin FOLDER]
"""

import argparse
import functools
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _own_server import own_server
from _paired_loads import default_bin_directory, has_sysbench, ratio_of, times_in_turn

# PostgreSQL's own settings, but for the size of its memory and of its WAL.
SETTINGS = "-c shared_buffers=1GB -c max_wal_size=8GB -c listen_addresses='' -c autovacuum=off"
TARGET = 0.33


def prepared_by_sysbench(folder: Path, tables: int, rows: int, threads: int) -> float:
    """Seconds that sysbench's prepare takes; the tables are dropped after it."""
    return _timed(["sysbench", *_words(folder, tables, rows, threads), "--db-driver=pgsql"])


def prepared_by_pgassay(folder: Path, tables: int, rows: int, threads: int) -> float:
    """Seconds that ours takes, its interpreter's start included."""
    return _timed(
        [sys.executable, "-m", "pgassay.cli.main", "sysbench", *_words(folder, tables, rows, threads)]
    )


def _words(folder: Path, tables: int, rows: int, threads: int) -> list[str]:
    return [
        "oltp_read_write",
        f"--pgsql-host={folder}",
        "--pgsql-user=postgres",
        "--pgsql-db=postgres",
        f"--tables={tables}",
        f"--table-size={rows}",
        f"--threads={threads}",
        "--rand-type=uniform",
    ]


def _timed(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run([*command, "prepare"], check=True, capture_output=True)
    took_s = time.monotonic() - started
    subprocess.run([*command, "cleanup"], check=True, capture_output=True)
    return took_s


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--tables", default="1,4", help="numbers of tables, each in turn")
    parser.add_argument("--rows", type=int, default=500_000, help="of each table")
    parser.add_argument("--bin", type=Path, default=None, help="PostgreSQL's programs")
    arguments = parser.parse_args()
    if not has_sysbench():
        return 0
    order = random.Random(1)
    with own_server(arguments.bin or default_bin_directory(), SETTINGS) as folder:
        for tables in (int(text) for text in arguments.tables.split(",")):
            threads = min(tables, os.cpu_count() or 1)
            what = (folder, tables, arguments.rows, threads)
            runners = {
                "sysbench": functools.partial(prepared_by_sysbench, *what),
                "pgassay": functools.partial(prepared_by_pgassay, *what),
            }
            times = times_in_turn(runners, arguments.pairs, order)
            ratio = ratio_of(times["pgassay"], times["sysbench"])
            medians = ", ".join(f"{name} {statistics.median(each):.2f} s" for name, each in times.items())
            print(f"{tables} tables of {arguments.rows} rows, {threads} threads: {medians}; ratio {ratio}")
            print(f"  target {TARGET}: {'reached' if ratio.ratio <= TARGET else 'not reached'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
