"""What a fleet's requests cost: one worker on this machine, over Dask and TLS.

    python benchmarks/fleet_overhead.py [--requests 200] [--size-kb 200]

Prints the times of a request that the worker answers itself, of one that its agent answers, and of a part of
a file of the size of a trial's record, there and back. A trial needs one of the second and one of the last
kind (target for both: below 50 ms); then what the idle worker and scheduler take of a processor.
"""

import argparse
import base64
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pgassay.environment.linux.processes import process_stat
from pgassay.fleet.cluster import nodes
from pgassay.fleet.cluster.cluster_connection import DaskFleet, DaskMachine

TRIAL_MS_MAX = 50.0
IDLE_S = 10.0


def main() -> None:
    """Start, measure, print, stop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--size-kb", type=int, default=200, help="of a trial's record")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgassay-fleet-") as folder:
        Path(folder).chmod(0o755)
        environment = {**os.environ, "PGASSAY_HOME": folder}
        file = Path(folder) / "fleet.toml"
        pgassay = [sys.executable, "-m", "pgassay.cli.main", "fleet"]
        subprocess.run([*pgassay, "start", "--local", "1", "--file", file], env=environment, check=True)
        try:
            with DaskFleet.open(file) as fleet:
                measure(fleet.machines()[0], arguments.requests, arguments.size_kb * 1000)
            print_idle(Path(folder))
        finally:
            subprocess.run([*pgassay, "stop", "--file", file], env=environment, check=True)


def measure(machine: DaskMachine, requests: int, size_bytes: int) -> None:
    """Time each kind of request, and print the medians and the 99th percentiles."""
    content = os.urandom(size_bytes)
    part = {
        "operation": "put",
        "sha256": hashlib.sha256(content + b"one more byte").hexdigest(),
        "offset": 0,
        "bytes": size_bytes + 1,
        "data": base64.b64encode(content).decode("ascii"),
    }
    median_ms = {
        name: timed(name, lambda asked=asked: machine.request(asked), requests)
        for name, asked in (
            ("the worker itself", nodes.PING),
            ("its agent", {"operation": "state", "id": "none"}),
            (f"a record of {size_bytes // 1000} kB", part),
        )
    }
    _, agent_ms, record_ms = median_ms.values()
    print(f"a trial: {agent_ms + record_ms:.1f} ms (target below {TRIAL_MS_MAX:g} ms)")


def timed(name: str, ask: Callable[[], object], requests: int) -> float:
    """The median in milliseconds, after some that open the connection."""
    times_ms = []
    for number in range(requests + 5):
        begun = time.perf_counter()
        answer = ask()
        if number >= 5:
            times_ms.append((time.perf_counter() - begun) * 1000)
    assert "error" not in json.loads(json.dumps(answer)), answer
    median, worst = statistics.median(times_ms), statistics.quantiles(times_ms, n=100)[-1]
    print(f"{name}: median {median:.1f} ms, 99 % within {worst:.1f} ms, of {requests}")
    return median


def print_idle(home: Path) -> None:
    """What the processes take of a processor while nobody asks them anything."""
    pids = {
        file.parent.name: int(json.loads(file.read_bytes())["pid"])
        for file in home.glob("fleet/nodes/*/*/process.json")
    }
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    time.sleep(IDLE_S)
    for name, pid in pids.items():
        print(f"{name}, idle: {(cpu_s(pid) - before[name]) / IDLE_S:.1%} of a processor")


def cpu_s(pid: int) -> float:
    stat = process_stat(pid)
    assert stat is not None
    return stat.cpu_s


if __name__ == "__main__":
    main()
