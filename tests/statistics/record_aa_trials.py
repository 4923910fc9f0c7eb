"""Records real A/A trials: `python tests/statistics/record_aa_trials.py FOLDER_OF_BINARIES`.

A private PostgreSQL server runs the same work over and over, in 60 blocks of three trials: a scan of a
table (elapsed seconds) and pgbench's TPC-B-like transaction (transactions per second). Nothing differs
between the trials of a block, so any labels put on them are a true null hypothesis with real noise.
"""

import json
import os
import pwd
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

BLOCKS, TRIALS = 60, 3
OUTPUT = Path(__file__).with_name("aa_trials.json")
SCAN = "SELECT count(filler), sum(abalance) FROM pgbench_accounts"


def demoted() -> Callable[[], None] | None:
    """What a server's process does before it starts: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam("postgres")

    def demote() -> None:
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)

    return demote


def run(*command: str | Path) -> str:
    """Run one of PostgreSQL's programs and return its output."""
    done = subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True, preexec_fn=demoted()
    )
    return done.stdout


def record_scan(connection: psycopg.Connection) -> float:
    """Elapsed seconds of five scans."""
    begin = time.perf_counter()
    for _ in range(5):
        connection.execute(SCAN).fetchall()
    return time.perf_counter() - begin


def record_transactions(binaries: Path, socket: Path) -> float:
    """Transactions per second of a short pgbench run."""
    output = run(binaries / "pgbench", "-n", "-t", "400", "-h", socket, "-U", "postgres", "postgres")
    line = next(line for line in output.splitlines() if line.startswith("tps ="))
    return float(line.split()[2])


def main() -> int:
    """Record both sets and write them beside this file."""
    binaries = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        socket = Path(name)
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(socket, account.pw_uid, account.pw_gid)
        data = socket / "data"
        run(binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N")
        options = f"-k {socket} -c listen_addresses='' -c autovacuum=off -c shared_buffers=256MB"
        run(binaries / "pg_ctl", "-D", data, "-w", "-o", options, "-l", socket / "log", "start")
        try:
            run(binaries / "pgbench", "-i", "-s", "3", "-q", "-h", socket, "-U", "postgres", "postgres")
            with psycopg.connect(
                f"host={socket} user=postgres dbname=postgres", autocommit=True
            ) as connection:
                version = connection.info.parameter_status("server_version")
                record_scan(connection)
                scans = [[record_scan(connection) for _ in range(TRIALS)] for _ in range(BLOCKS)]
            rates = [[record_transactions(binaries, socket) for _ in range(TRIALS)] for _ in range(BLOCKS)]
        finally:
            run(binaries / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop")
    document = {
        "postgresql": version,
        "scan_elapsed_s": [[round(value, 6) for value in block] for block in scans],
        "transactions_per_s": [[round(value, 3) for value in block] for block in rates],
    }
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
