"""What observing a server costs: CPU of the sampling, and the throughput with it against without it.

    python benchmarks/observe_cost.py [--connections 50] [--rate 50] [--seconds 5] [--rounds 100]

Starts a private server with pgbench's data. First connections are observed, idle and with a load, and the
CPU of the native sampler and of the backend that answers it is printed as a share of one core (target: 5 %).
Then one load of select-only with 8 clients is observed and not, for three seconds each, in an order drawn for
each pair; the first second is left out, in which the sampler starts or ends. Printed are the ratio of the
throughputs and its 95 % interval over the pairs (target: within 2 %). One load, since connections made anew
differ more from each other than what is looked for.
"""

import argparse
import math
import os
import random
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import account
from pgassay.environment.server.initdb import make_cluster
from pgassay.environment.server.private_server import Server
from pgassay.model.arm import DatasetSpec
from pgassay.native.load import run_load
from pgassay.trial.observe.server_observer import LOAD_RATE_HZ, ServerObserver
from pgassay.trial.target import RunningServer

SHARE_MAX = 0.05
MARGIN = 0.02
# One state of the sampler, and how much of it is left out.
SLOT_S = 3.0
LEFT_OUT_S = 1.0
OUTPUT_S = 0.2
ACCOUNTS = (
    "CREATE TABLE pgbench_accounts AS SELECT aid, 1 AS bid, 0 AS abalance, repeat(' ', 84) AS filler "
    "FROM generate_series(1, 1000000) aid",
    "ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)",
    "VACUUM (FREEZE, ANALYZE) pgbench_accounts",
    "CHECKPOINT",
)


def load(running: RunningServer, clients: int, seconds: float, seed: int) -> dict[str, Any]:
    """The record of a load of select-only."""
    return run_load(
        {
            "connect": running.parameters(),
            "script": "select-only",
            "scale": 10,
            "clients": clients,
            "threads": 1,
            "protocol": "prepared",
            "duration_s": seconds,
            "warmup_s": 0.5,
            "seed": seed,
        }
    )


def sampling_cost(running: RunningServer, connections: int, rate_hz: float, seconds: float) -> None:
    """Print the share of a core that samples of `connections` take, idle ones and busy ones."""
    for name, busy in (("idle", False), ("busy", True)):
        sessions = [running.connect_another("pgassay") for _ in range(connections - 8 * busy)]
        with ServerObserver(running, rate_hz, OUTPUT_S) as observer:
            if busy:
                load(running, 8, seconds, 1)
            else:
                threading.Event().wait(seconds)
        for session in sessions:
            session.close()
        facts = observer.facts
        took_s = facts["samples"] / rate_hz
        shares = [facts[key] / took_s for key in ("observer_cpu_s", "server_cpu_s")]
        print(
            f"{connections} {name} connections at {rate_hz:g} Hz: {facts['samples']} samples, "
            f"{facts['missed']} left out; {shares[0]:.2%} of a core for the sampler, {shares[1]:.2%} for the "
            f"server's answers, {sum(shares):.2%} together (target {SHARE_MAX:.0%})"
        )


def equivalence(running: RunningServer, rounds: int) -> None:
    """Print the throughput with samples against without, over pairs of slots of one load."""
    draws = random.Random(1)
    rates = [rate_hz for _ in range(rounds) for rate_hz in draws.sample([0.0, LOAD_RATE_HZ], 2)]
    slots: list[tuple[int, int]] = []
    # A second more than all slots: the last one ends within the load.
    seconds = SLOT_S * len(rates) + 2.0
    with ThreadPoolExecutor(1) as background:
        running_load = background.submit(load, running, 8, seconds, 1)
        threading.Event().wait(1.0)
        begin_ns = time.monotonic_ns()
        for number, rate_hz in enumerate(rates):
            from_ns = time.monotonic_ns()
            with ServerObserver(running, rate_hz, OUTPUT_S):
                left_s = (begin_ns - time.monotonic_ns()) / 1e9 + SLOT_S * (number + 1)
                threading.Event().wait(max(0.0, left_s))
            slots.append((from_ns, begin_ns + round(1e9 * SLOT_S * (number + 1))))
        record = running_load.result()
    means = [throughput_within(record, from_ns + round(1e9 * LEFT_OUT_S), to_ns) for from_ns, to_ns in slots]
    logs = []
    for pair in range(rounds):
        by_rate = dict(zip(rates[2 * pair : 2 * pair + 2], means[2 * pair : 2 * pair + 2], strict=True))
        logs.append(math.log(by_rate[LOAD_RATE_HZ] / by_rate[0.0]))
    reach = float(stdtrit(rounds - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(rounds)
    ratio = statistics.mean(logs)
    print(
        f"select-only, 8 clients, {rounds} pairs of {SLOT_S:g} s: {math.exp(ratio):.4f} of the throughput, "
        f"95 % interval {math.exp(ratio - reach):.4f} to {math.exp(ratio + reach):.4f} (target ±{MARGIN:.0%})"
    )


def throughput_within(record: dict[str, Any], from_ns: int, to_ns: int) -> float:
    """Transactions per second of the record's seconds, each by the part of it that lies within."""
    total = weight_s = 0.0
    for number, count in enumerate(record["per_second"]):
        second_ns = record["start_ns"] + number * 10**9
        part = max(0, min(to_ns, second_ns + 10**9) - max(from_ns, second_ns)) / 1e9
        total += part * count
        weight_s += part
    return total / weight_s


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgassay-bench-") as scratch:
        owner = account()
        if owner is not None:
            os.chown(scratch, owner.uid, owner.gid)
        build, data = resolve(None), Path(scratch, "data")
        make_cluster(build, data, DatasetSpec())
        settings = {"shared_buffers": "256MB", "max_connections": str(given.connections + 30)}
        with Server(build, data, settings) as server:
            running = RunningServer(server, {})
            for statement in ACCOUNTS:
                running.control.execute(statement.encode())
            sampling_cost(running, given.connections, given.rate, given.seconds)
            equivalence(running, given.rounds)
            running.close_control()


if __name__ == "__main__":
    main()
