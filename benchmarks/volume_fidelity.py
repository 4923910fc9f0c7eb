"""How truly imitated volumes behave: fio on the block device, beside what the same model answers alone.

    .venv/bin/python benchmarks/volume_fidelity.py [--seconds 5] [--rounds 3] [gp3,size=100GiB …]

A line for each volume, load and depth: the rate that fio got over that of the model simulated (within 2 %),
and the same of the median and the 99th percentile of latency (within 5 %). Each is the median of the rounds,
with the least and the largest; a round is all cells, once each, so that a cell's rounds are minutes apart.
Then which answers came later than by 5 % of their own latency, the server's CPU time for each request, and
what others took of the processors: where that is much, the cell is run again (`--repeats`, twice at most in
its round), and the run with the least of it counts. Then the second in which a burst ends (within 1 %), and
the rates that the imitation must reach. The cells of a volume that this machine refuses as above its ceiling
are shown and neither pass nor fail. Needs root, FUSE and fio, and a quarter of an hour for the volumes named
here, where nobody disturbs it.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from _fio_load import Beside, Done, Load, Watch, fill, run
from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.cloud_volumes.explain import text_of
from pgassay.cloud_volumes.parse import parse_volume
from pgassay.cloud_volumes.volume_limits import model_of
from pgassay.model.volumes.offer import VolumeModel
from pgassay.native.simulate import PatternSpec, simulate
from pgassay.native.volume import Second
from pgassay.storage.image import size_for
from pgassay.storage.imitated_device import ServedImage, ceiling_refusal, why_not

VOLUMES = (
    "gp2,size=100GiB",
    "gp3,size=100GiB",
    "gp3,size=400GiB,iops=12000,throughput=500",
    "io2,size=100GiB,iops=16000",
)
FILE_BYTES = 1 << 30
RATE_TOLERANCE, LATENCY_TOLERANCE, BURST_TOLERANCE = 0.02, 0.05, 0.01
CPU_US_MAX = 25.0
# 120 operations a second and 3,000 in a burst: these credits last 5 s of one.
BURST_VOLUME, BURST_PEAK, BURST_BASE, BURST_CREDITS = "gp2,size=40GiB,credits=14400", 3000, 120, 14400
BURST_SECONDS = 8
# What the imitation must reach: fio's mode, bytes of a request, and the limit of a model with nothing else.
GOALS: tuple[tuple[str, int, str, int], ...] = (
    ("randread", 8192, "operations", 20_000),
    ("read", 1 << 17, "bytes", 500_000_000),
)


class Keys(TypedDict, total=False):
    """What a load adds to the pattern of the simulation."""

    order: str
    write_share: float
    flush_after: int


# fio's mode, bytes of a request, depths, further options of fio, further keys of the simulation.
Kind = tuple[str, int, tuple[int, ...], tuple[str, ...], Keys]
LOADS: dict[str, Kind] = {
    "random 8 kB": ("randread", 8192, (1, 8, 32), (), {}),
    "sequential 128 kB": ("read", 131072, (1, 8, 32), (), {"order": "sequential"}),
    "mixed 70/30": ("randrw", 8192, (1, 8, 32), ("--rwmixread=70",), {"write_share": 0.3}),
    "fdatasync": ("randwrite", 8192, (1, 8), ("--fdatasync=1",), {"write_share": 1.0, "flush_after": 1}),
}


@dataclass(frozen=True)
class Run:
    """What one run of a cell gave: a value for each of its bounds, and what it took."""

    values: tuple[float, ...]
    late: float
    cpu_us: float
    beside: Beside


@dataclass
class Cell:
    """What is measured in each round. `bounds`: the least and the most that passes, for each value."""

    name: str
    bounds: tuple[tuple[float, float], ...]
    measure: Callable[[int], Run]
    refused: str | None = None
    runs: list[Run] = field(default_factory=list)
    repeated: int = 0

    def round(self, number: int, repeats: int) -> None:
        """Measure it, again where others took processors, at most so often."""
        runs = [self.measure(number)]
        while runs[-1].beside.disturbs and len(runs) <= repeats:
            runs.append(self.measure(number))
        self.repeated += len(runs) - 1
        self.runs.append(min(runs, key=lambda each: each.beside.steal + each.beside.others))

    def medians(self) -> list[float]:
        """Of the rounds, of each value."""
        return [
            statistics.median(values) for values in zip(*(each.values for each in self.runs), strict=True)
        ]

    def passes(self) -> bool:
        """Whether the medians are within their bounds."""
        pairs = zip(self.medians(), self.bounds, strict=True)
        return all(least <= value <= most for value, (least, most) in pairs)

    def line(self) -> str:
        """Its outcome and its figures, each with its range."""
        words = []
        of_rounds = zip(*(each.values for each in self.runs), strict=True)
        for value, values in zip(self.medians(), of_rounds, strict=True):
            digits = 3 if value < 100 else 0
            spread = f"[{min(values):,.{digits}f} {max(values):,.{digits}f}]" if len(values) > 1 else ""
            words.append(f"{value:7,.{digits}f} {spread:13}")
        late, cpu_us, steal, others = (
            statistics.median(values)
            for values in zip(
                *((each.late, each.cpu_us, each.beside.steal, each.beside.others) for each in self.runs),
                strict=True,
            )
        )
        outcome = "none" if self.refused is not None else "pass" if self.passes() else "FAIL"
        disturbed = sum(each.beside.disturbs for each in self.runs)
        told = ((self.repeated, "repeated"), (disturbed, "disturbed all the same"))
        doubts = ", ".join(f"{count} {words}" for count, words in told if count)
        served = f"{late:5.1%} {cpu_us:6.1f} {steal:6.1%} {others:6.1%}"
        return f"{outcome} {self.name:62} {' '.join(words):65} {served}  {doubts}".rstrip()


def main() -> None:
    """Print a line for each cell, and how many passed."""
    parser = argparse.ArgumentParser(description="Imitated volumes against their models.")
    parser.add_argument("--seconds", type=int, default=5, help="of each run of a cell")
    parser.add_argument("--rounds", type=int, default=3, help="how often each cell is measured")
    parser.add_argument("--repeats", type=int, default=2, help="of a run that others disturbed")
    parser.add_argument("--load", choices=LOADS, help="this one alone")
    parser.add_argument("--depth", type=int, help="this one alone")
    parser.add_argument("volumes", nargs="*", default=VOLUMES)
    arguments = parser.parse_args()
    reason = why_not() or ("" if shutil.which("fio") else "fio is missing: type apt-get install fio")
    if reason:
        sys.exit(reason)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pgassay-fidelity-") as folder:
        served = ServedImage(Path(folder), size_for(2 * FILE_BYTES), FILE_BYTES, None, is_users=True)
        try:
            bench = Bench(served, arguments.seconds)
            cells = bench.cells(arguments.volumes, arguments.load, arguments.depth)
            for number in range(1, arguments.rounds + 1):
                for cell in cells:
                    cell.round(number, arguments.repeats)
                    print(
                        f"round {number}: {cell.line()}" if number < arguments.rounds else cell.line(),
                        flush=True,
                    )
            bench.tell_free()
        finally:
            served.remove()
    tell(cells, time.monotonic() - began)


def tell(cells: Sequence[Cell], elapsed_s: float) -> None:
    """How many passed, and which volumes this machine refuses."""
    for refused in dict.fromkeys(cell.refused for cell in cells if cell.refused is not None):
        print(f"not imitable here: {refused}")
    judged = [cell for cell in cells if cell.refused is None]
    print(
        f"{sum(cell.passes() for cell in judged)} of {len(judged)} pass, {len(cells) - len(judged)} are not "
        f"imitable here: rates within {RATE_TOLERANCE:.0%}, latencies within {LATENCY_TOLERANCE:.0%}, the "
        f"burst's end within {BURST_TOLERANCE:.0%}; {elapsed_s:.0f} s in all"
    )


class Bench:
    """The device, and what is measured on it."""

    def __init__(self, served: ServedImage, seconds: int) -> None:
        self.served = served
        served.mount()
        self.seconds = seconds
        self.file = served.root / "file"
        fill(self.file, FILE_BYTES)
        way = served.measure_overhead()
        rounds = f"{way['low_ns'] / 1e3:.0f} to {way['high_ns'] / 1e3:.0f}"
        print(f"way through the kernel: {way['p50_ns'] / 1e3:.0f} µs ({rounds} in its rounds)")

    def cells(self, volumes: Sequence[str], only: str | None, only_depth: int | None) -> list[Cell]:
        """All of them, below a line of headings."""
        print(
            f"     {'fio over the model':62} {'rate':21} {'p50':21} {'p99':21}  late CPU µs  steal others",
            flush=True,
        )
        ceiling = self.served.ceiling()
        cells = []
        for text in volumes:
            model = named_model(text)
            refused = ceiling_refusal(model, ceiling)
            for name, (mode, size, depths, options, keys) in LOADS.items():
                if only not in (None, name):
                    continue
                for depth in depths:
                    if only_depth not in (None, depth):
                        continue
                    load = Load(mode, size, depth, FILE_BYTES, options)
                    cells.append(self.fidelity(f"{text} {name}, {depth}", model, load, keys, refused))
        if only is None and only_depth is None:
            cells.append(self.burst())
            cells += [self.goal(*goal) for goal in GOALS]
        return cells

    def fidelity(self, name: str, model: VolumeModel, load: Load, keys: Keys, refused: str | None) -> Cell:
        """fio's figures over the model's. Both draw the same latencies, others in each round."""
        document = model.model_dump(mode="json")
        is_flushed = model.latency.flush.median_ns > 0
        pattern: PatternSpec = {
            "depth": load.depth,
            "request_bytes": load.request_bytes,
            "order": "random",
            "duration_s": float(self.seconds),
            "span_bytes": FILE_BYTES,
            **keys,
        }
        if not is_flushed:
            # The device holds nothing back, so that the kernel sends no flush.
            pattern["flush_after"] = 0

        def measure(number: int) -> Run:
            self.served.set_write_cache(is_volatile=is_flushed)
            done, told, beside = self.run(document, load, self.seconds, number)
            (expected,) = simulate([document], pattern=pattern, seed=number)
            latency_ms = expected["latency_ms"]
            assert latency_ms is not None, "nothing was done"
            ratios = (
                done.rate / expected["requests_per_s"],
                done.percentile_ms(50) / latency_ms["p50"],
                done.percentile_ms(99) / latency_ms["p99"],
            )
            return Run(ratios, late_share(told), cpu_us(told), beside)

        bounds = (
            (1 - RATE_TOLERANCE, 1 + RATE_TOLERANCE),
            *((1 - LATENCY_TOLERANCE, 1 + LATENCY_TOLERANCE),) * 2,
        )
        return Cell(name, bounds, measure, refused)

    def burst(self) -> Cell:
        """The second in which the credits of a burst are gone, over that of the closed form: those that it
        began with, and what flowed in before the first request, over what it spends."""
        document = named_model(BURST_VOLUME).model_dump(mode="json")

        def measure(number: int) -> Run:
            load = Load("randread", 8192, 32, FILE_BYTES)
            done, told, beside = self.run(document, load, BURST_SECONDS, number)
            expected_s = (BURST_CREDITS + BURST_BASE * done.idle_s) / (BURST_PEAK - BURST_BASE)
            # Completions come every third of a millisecond until then, every eighth millisecond afterwards.
            ahead, slow_s = 5, 5 / BURST_BASE / 2
            pairs = zip(done.ended_s, done.ended_s[ahead:], strict=False)
            ended_s = next((now for now, later in pairs if later - now > slow_s), done.ended_s[-1])
            return Run((ended_s / expected_s,), late_share(told), cpu_us(told), beside)

        return Cell(
            f"{BURST_VOLUME} end of the burst", ((1 - BURST_TOLERANCE, 1 + BURST_TOLERANCE),), measure
        )

    def goal(self, mode: str, size: int, unit: str, rate: int) -> Cell:
        """Whether a volume with one limit gives all of it, at no more CPU time a request than is allowed."""
        latency = {"median_ns": 500_000.0, "sigma": 0.0}
        limiter = {"name": unit, "unit": unit, "rate": rate}
        if unit == "operations":
            limiter["quantum_bytes"] = 1 << 18
        document: dict[str, object] = {
            "name": "goal",
            "limiters": [limiter],
            "latency": {"read": latency, "write": latency, "flush": latency},
        }

        def measure(number: int) -> Run:
            done, told, beside = self.run(document, Load(mode, size, 32, FILE_BYTES), self.seconds, number)
            got = done.rate * (size if unit == "bytes" else 1)
            return Run((got, cpu_us(told)), late_share(told), cpu_us(told), beside)

        name = f"{rate:,} {unit} a second ({mode} of {size} bytes): rate, CPU µs"
        return Cell(name, ((rate * (1 - RATE_TOLERANCE), float("inf")), (0.0, CPU_US_MAX)), measure)

    def run(
        self, document: dict[str, object], load: Load, seconds: int, seed: int
    ) -> tuple[Done, list[Second], Beside]:
        """A load while a model holds."""
        self.served.impose(document, seed=seed)
        watch = Watch(self.served.server.pid)
        try:
            done = run(load, self.file, seconds)
            beside = watch.beside()
        finally:
            told = self.served.release()
        return done, told, beside

    def tell_free(self) -> None:
        """What passes without a model."""
        random, ordered = (
            run(Load(mode, size, 32, FILE_BYTES), self.file, 3).rate * size for mode, size, *_ in GOALS
        )
        print(f"without a model: {random / 8192:,.0f} random reads a second, {ordered / 1e6:,.0f} MB/s")


def named_model(text: str) -> VolumeModel:
    """The catalogue's."""
    catalogue = load_catalogue().catalogue
    ordered = parse_volume(text, catalogue)
    return model_of(ordered, catalogue, text_of(ordered))


def cpu_us(told: Sequence[Second]) -> float:
    """The server's CPU time for each request, in microseconds."""
    requests = max(1, sum(second["reads"] + second["writes"] for second in told))
    return sum(second["cpu_s"] for second in told) / requests * 1e6


def late_share(told: Sequence[Second]) -> float:
    """How many answers came late."""
    answers = max(1, sum(second["reads"] + second["writes"] + second["flushes"] for second in told))
    return sum(second["late"] for second in told) / answers


if __name__ == "__main__":
    main()
