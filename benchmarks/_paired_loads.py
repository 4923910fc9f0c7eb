"""What the benchmarks of load generators share: a server of their own, paired blocks, ratios and their words.

Ratios and intervals are those of pgassay's own statistics. Two placements. `apart`: the server on one half of
the processors, the client on the other, so that the client's own hunger can't take from the server: this is
where generators are compared as generators. `together`: no pinning; on a small machine what a lean client
saves becomes throughput.
"""

import argparse
import math
import os
import random
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _own_server import own_server
from pgassay.analysis.statistics.eprocess import gather_evidence
from pgassay.analysis.statistics.sequence import confidence_sequence, point_estimate
from pgassay.analysis.verdicts.verdict import Finding, judge

SCALE = 10
MARGIN = 0.05
LEVEL = 0.05
WARMUP_S = 1.0
SETTINGS = "-c shared_buffers=512MB -c max_connections=1100 -c listen_addresses='' -c fsync=off"


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


Runner = Callable[[Server, int, float, int], Outcome]


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


def run_blocks(
    runners: Mapping[str, Runner],
    server: Server,
    clients: int,
    arguments: argparse.Namespace,
    order: random.Random,
) -> dict[str, list[Outcome]]:
    """Every runner once in each block, in random order; each runner's outcomes in the order of the blocks."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in runners}
    for block in range(arguments.blocks):
        for name in order.sample(sorted(runners), len(runners)):
            outcomes[name].append(runners[name](server, clients, arguments.seconds, block + 1))
    return outcomes


def times_in_turn(
    runners: Mapping[str, Callable[[], float]], pairs: int, order: random.Random
) -> dict[str, list[float]]:
    """Every runner once in each pair, in random order; the seconds that each took."""
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(pairs):
        for name in order.sample(sorted(runners), len(runners)):
            times[name].append(runners[name]())
    return times


def throughput_ratio(above: list[Outcome], below: list[Outcome]) -> Ratio:
    """Transactions per second over transactions per second."""
    return ratio_of([each.throughput for each in above], [each.throughput for each in below])


def cpu_ratio(above: list[Outcome], below: list[Outcome]) -> Ratio:
    """Client CPU per transaction over client CPU per transaction."""
    return ratio_of([each.cpu_us for each in above], [each.cpu_us for each in below])


def print_medians(here: str, outcomes: Mapping[str, list[Outcome]]) -> None:
    """One line for each runner."""
    for name, runs in outcomes.items():
        middle = statistics.median(run.throughput for run in runs)
        cost = statistics.median(run.cpu_us for run in runs)
        print(f"{here}  {name:8} {middle:9.1f} transactions/s  {cost:7.2f} µs client CPU each")


@contextmanager
def on_processors(processors: set[int] | None) -> Iterator[None]:
    """Let this process, and what it starts meanwhile, run on these processors only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _home() -> Path:
    return Path(os.environ.get("PGASSAY_HOME", "/var/cache/pgassay"))


def has_sysbench() -> bool:
    """Whether there is sysbench: the machine's own, else what `make setup` unpacked; says so if not."""
    private = _home() / "tools" / "sysbench" / "bin"
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(private)])
    found = shutil.which("sysbench") is not None
    if not found:
        print("There is no sysbench on this machine, so nothing is compared; install the package sysbench.")
    return found


def default_bin_directory() -> Path:
    """The newest PostgreSQL at hand: pgassay's own build of 18, else one that is installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [*installed, *sorted(_home().glob("builds/apt/18*/usr/lib/postgresql/18/bin"))]
    if not found:
        raise SystemExit("There is no PostgreSQL on this machine; type `make setup`, or name one with --bin.")
    return found[-1]


def paired_arguments(
    description: str | None, blocks: int, seconds: float, add: Callable[[argparse.ArgumentParser], None]
) -> argparse.Namespace:
    """The command line of paired runs, with these defaults; `add` adds the options of a benchmark's own."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", 1)[0])
    parser.add_argument(
        "--blocks", type=int, default=blocks, help=f"runs of each (default {blocks}, at least 6)"
    )
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"measured seconds of a run (default {seconds:g})"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs (default 1)")
    add(parser)
    arguments = parser.parse_args()
    if arguments.blocks < 6:
        parser.error("--blocks must be at least 6: fewer pairs can give no verdict")
    return arguments


def arguments_of(
    description: str | None,
    clients: str,
    add: Callable[[argparse.ArgumentParser], object] = lambda _: None,
) -> argparse.Namespace:
    """The command line that benchmarks of load generators share; `clients` is the default."""

    def add_all(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--clients", default=clients, help=f"numbers of connections (default {clients})")
        parser.add_argument("--placements", default="apart,together", help="apart, together or both")
        parser.add_argument("--bin", type=Path, default=None, help="the folder of PostgreSQL's programs")
        add(parser)

    return paired_arguments(description, 16, 2.0, add_all)


def run_placements(
    arguments: argparse.Namespace,
    compare: Callable[[Server, str, int, random.Random], None],
    prepare: Callable[[Server], None] = lambda _: None,
) -> None:
    """Call `compare` with a running server for each placement and number of connections."""
    order = random.Random(arguments.seed)
    processors = sorted(os.sched_getaffinity(0))
    half = max(1, len(processors) // 2)
    programs = arguments.bin or default_bin_directory()
    for placement in arguments.placements.split(","):
        apart = placement == "apart"
        with (
            on_processors(set(processors[:half]) if apart else None),
            own_server(programs, SETTINGS, SCALE) as folder,
            on_processors(set(processors[half:]) or None if apart else set(processors)),
        ):
            server = Server(programs, folder)
            prepare(server)
            print(f"{placement}: server {server.bin}; {arguments.blocks} blocks of {arguments.seconds} s")
            for number in arguments.clients.split(","):
                compare(server, f"{placement:8} {number:>3} connections", int(number), order)
                sys.stdout.flush()
