"""What observing a server costs: CPU of the sampling, and the throughput with it against without it.

    python benchmarks/observe_cost.py [--connections 50] [--rate 50] [--seconds 5] [--rounds 8]

Starts a private server with pgbench's data. First connections are observed, idle and with a load, and the
CPU of the native sampler and of the backend that answers it is printed as a share of one core (target: 5 %).
Then select-only with 8 clients runs in pairs, observed and not, in an order drawn for each pair; printed
are the ratio of the throughputs and its 95 % interval over the pairs (target: within 2 %).
"""

import argparse
import math
import os
import random
import statistics
import tempfile
import threading
from pathlib import Path

from scipy.special import stdtrit

from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import account
from pgassay.environment.initdb import make_cluster
from pgassay.environment.server import Server
from pgassay.model.arm import DatasetSpec
from pgassay.native import run_load
from pgassay.trial.observe.server_observer import LOAD_RATE_HZ, ServerObserver
from pgassay.trial.running import RunningServer

SHARE_MAX = 0.05
MARGIN = 0.02
OUTPUT_S = 0.2
ACCOUNTS = (
    "CREATE TABLE pgbench_accounts AS SELECT aid, 1 AS bid, 0 AS abalance, repeat(' ', 84) AS filler "
    "FROM generate_series(1, 1000000) aid",
    "ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)",
    "VACUUM (FREEZE, ANALYZE) pgbench_accounts",
    "CHECKPOINT",
)


def load(running: RunningServer, clients: int, seconds: float, seed: int) -> float:
    """Transactions per second of select-only."""
    record = run_load(
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
    return float(record["transactions"]) / float(record["elapsed_s"])


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


def equivalence(running: RunningServer, rounds: int, seconds: float) -> None:
    """Print the throughput with samples against without, over pairs of runs."""
    draws = random.Random(1)
    logs = []
    for number in range(rounds):
        rates = {0.0: 0.0, LOAD_RATE_HZ: 0.0}
        for rate_hz in draws.sample(sorted(rates), 2):
            with ServerObserver(running, rate_hz, OUTPUT_S):
                rates[rate_hz] = load(running, 8, seconds, number)
        logs.append(math.log(rates[LOAD_RATE_HZ] / rates[0.0]))
    reach = float(stdtrit(rounds - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(rounds)
    ratio = statistics.mean(logs)
    print(
        f"select-only, 8 clients, {rounds} pairs of {seconds:g} s: {math.exp(ratio):.4f} of the throughput, "
        f"95 % interval {math.exp(ratio - reach):.4f} to {math.exp(ratio + reach):.4f} (target ±{MARGIN:.0%})"
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=8)
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
            equivalence(running, given.rounds, given.seconds)
            running.close_control()


if __name__ == "__main__":
    main()
