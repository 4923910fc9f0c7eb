"""The load generator beside the real pgbench and beside a bare epoll loop, on one server.

select-only, prepared, one thread, at 1, 8 and 50 connections. Every block runs all three once, in random
order; ratios and intervals are those of pgassay's own statistics. Printed: throughput of pgassay over
pgbench's (to be equivalent within 5 %), client CPU per transaction of all three, and pgassay's over the bare
loop's (at most 1.15).

Two placements. `apart`: the server on one half of the processors, the client on the other, so that the
client's own hunger can't take from the server: this is where the generators are compared as generators.
`together`: no pinning; on a small machine what a lean client saves becomes throughput.

Two sources of CPU time: pgassay-native and the bare loop read their thread's clock at both ends of the
measured interval; pgbench can only be measured whole (rusage of the child, its start and connections
included).

    python benchmarks/load_against_pgbench.py [--blocks 16] [--seconds 2] [--clients 1,8,50] [--bin FOLDER]
"""

import argparse
import json
import math
import os
import pwd
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgassay.analysis.eprocess import gather_evidence
from pgassay.analysis.sequence import confidence_sequence, point_estimate
from pgassay.analysis.verdict import Finding, judge
from pgassay.native import binary, run_load

SCALE = 10
MARGIN = 0.05
LEVEL = 0.05
CPU_RATIO_MAX = 1.15
WARMUP_S = 1.0
SETTINGS = ("-c shared_buffers=512MB", "-c max_connections=100", "-c listen_addresses=''", "-c fsync=off")


@dataclass(frozen=True)
class Outcome:
    """One run: transactions per second, and microseconds of client CPU per transaction."""

    throughput: float
    cpu_us: float


@dataclass(frozen=True)
class Server:
    """A running server with pgbench data of scale 10, and the programs it came with."""

    bin: Path
    folder: Path

    @property
    def parameters(self) -> dict[str, object]:
        return {"host": str(self.folder), "port": 5432, "user": "postgres", "dbname": "postgres"}


def run_pgassay(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    record = run_load(
        {
            "connect": server.parameters,
            "script": "select-only",
            "scale": SCALE,
            "clients": clients,
            "threads": 1,
        }
        | {"protocol": "prepared", "duration_s": seconds, "warmup_s": WARMUP_S, "seed": seed}
    )
    count = record["transactions"]
    return Outcome(count / record["elapsed_s"], record["client_cpu_s"] / count * 1e6)


def run_floor(server: Server, clients: int, seconds: float, _seed: int) -> Outcome:
    spec = {"connect": server.parameters, "clients": clients, "scale": SCALE}
    document = json.dumps(spec | {"duration_s": seconds, "warmup_s": WARMUP_S})
    floor = binary().with_name("pgassay-floor")
    if not floor.exists():
        raise SystemExit("The bare loop has not been built; type `cargo build --release -p pgassay-floor`.")
    answer = subprocess.run([floor], input=document, capture_output=True, text=True, check=True).stdout
    report = json.loads(answer)
    count = report["transactions"]
    return Outcome(count / report["elapsed_s"], report["client_cpu_s"] / count * 1e6)


def run_pgbench(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    command = [server.bin / "pgbench", "-S", "-M", "prepared", "-n", "-c", str(clients), "-j", "1"]
    # It has no warm-up: as many seconds as the others run altogether.
    whole = [*command, "-T", str(math.ceil(seconds + WARMUP_S)), f"--random-seed={seed}"]
    whole += ["-h", str(server.folder), "-U", "postgres", "postgres"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(whole, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count = int(_found(r"actually processed: (\d+)", output))
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(float(_found(r"tps = ([\d.]+)", output)), cpu_s / count * 1e6)


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"pgbench's output has no {pattern!r}:\n{text}")
    return match[1]


RUNNERS: dict[str, Callable[[Server, int, float, int], Outcome]] = {
    "pgassay": run_pgassay,
    "pgbench": run_pgbench,
    "floor": run_floor,
}


@dataclass(frozen=True)
class Ratio:
    """A ratio of paired values with its confidence sequence, and the word that the margin gives it."""

    ratio: float
    low: float
    high: float
    word: str

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ratio_of(numerators: list[float], denominators: list[float]) -> Ratio:
    """pgassay's paired evidence at level 0.05; words: equivalent, higher, lower, inconclusive."""
    members = np.log(np.column_stack([numerators, denominators]))
    evidence = gather_evidence(members)
    sequence = confidence_sequence(evidence, LEVEL, running=True)
    low, high = float(sequence.lower), float(sequence.upper)
    word = judge(Finding(float(point_estimate(evidence)), low, high), MARGIN).verdict
    words = {"faster": "higher", "slower": "lower"}
    estimate = math.exp(float(point_estimate(evidence)))
    return Ratio(estimate, math.exp(low), math.exp(high), words.get(word, word))


def compare(
    server: Server, placement: str, clients: int, blocks: int, seconds: float, order: random.Random
) -> None:
    """Run the blocks at one number of connections and print the ratios and the targets."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in RUNNERS}
    for block in range(blocks):
        for name in order.sample(sorted(RUNNERS), len(RUNNERS)):
            outcomes[name].append(RUNNERS[name](server, clients, seconds, block + 1))
    throughputs = {name: [outcome.throughput for outcome in runs] for name, runs in outcomes.items()}
    cpu = {name: [outcome.cpu_us for outcome in runs] for name, runs in outcomes.items()}
    here = f"{placement:8} {clients:3} connections"
    for name in RUNNERS:
        middle, cost = statistics.median(throughputs[name]), statistics.median(cpu[name])
        print(f"{here}  {name:8} {middle:9.0f} transactions/s  {cost:6.2f} µs client CPU each")
    speed = ratio_of(throughputs["pgassay"], throughputs["pgbench"])
    cost_ratio = ratio_of(cpu["pgassay"], cpu["floor"])
    for text, ratio in (
        ("throughput, pgassay / pgbench", speed),
        ("throughput, pgassay / floor", ratio_of(throughputs["pgassay"], throughputs["floor"])),
        ("client CPU, pgassay / floor", cost_ratio),
        ("client CPU, pgassay / pgbench", ratio_of(cpu["pgassay"], cpu["pgbench"])),
    ):
        print(f"{here}  {text:30} {ratio}  {ratio.word}")
    target = "met" if cost_ratio.ratio <= CPU_RATIO_MAX else "missed"
    print(f"{here}  throughput against pgbench: {speed.word} (±5 %); CPU at most 1.15 × the floor: {target}")
    sys.stdout.flush()


@contextmanager
def on_processors(processors: set[int] | None) -> Iterator[None]:
    """Let this process, and what it starts meanwhile, run on these processors only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def running_server(bin_directory: Path):
    """A server of its own, with data, as an unprivileged account; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-bench-", dir="/tmp"))
    account = {}
    if os.geteuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        with (folder / "output").open("wb") as output:
            subprocess.run(
                [bin_directory / program, *arguments],
                stdout=output,
                stderr=output,
                check=True,
                cwd=folder,
                **account,
            )

    data = ["-D", str(folder / "data")]
    options = " ".join([f"-k {folder}", *SETTINGS])
    try:
        run("initdb", *data, "-U", "postgres", "-A", "trust", "--no-sync")
        run("pg_ctl", *data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            run("pgbench", "-i", "-q", "-s", str(SCALE), "-h", str(folder), "-U", "postgres", "postgres")
            yield Server(bin_directory, folder)
        finally:
            run("pg_ctl", *data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def default_bin_directory() -> Path:
    """The newest PostgreSQL at hand: pgassay's own build of 18, else one that is installed."""
    home = Path(os.environ.get("PGASSAY_HOME", "/var/cache/pgassay"))
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [*installed, *sorted(home.glob("builds/apt/18*/usr/lib/postgresql/18/bin"))]
    if not found:
        raise SystemExit("There is no PostgreSQL on this machine; type `make setup`, or name one with --bin.")
    return found[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--blocks", type=int, default=16, help="runs of each (default 16, at least 6)")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured seconds of a run (default 2)")
    parser.add_argument("--clients", default="1,8,50", help="numbers of connections (default 1,8,50)")
    parser.add_argument("--placements", default="apart,together", help="apart, together or both")
    parser.add_argument("--bin", type=Path, default=None, help="the folder of PostgreSQL's programs")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs (default 1)")
    arguments = parser.parse_args()
    if arguments.blocks < 6:
        parser.error("--blocks must be at least 6: fewer pairs can give no verdict")
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
            print(f"{placement}: server {server.bin}; {arguments.blocks} blocks of {arguments.seconds} s")
            for number in arguments.clients.split(","):
                compare(server, placement, int(number), arguments.blocks, arguments.seconds, order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
