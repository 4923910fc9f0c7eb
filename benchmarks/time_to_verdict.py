"""How soon a warm comparison has its verdict: a trial of each arm, and starts in which the arms take turns.

    python benchmarks/time_to_verdict.py [--rounds 1] [--cases sort,sql-5,sql-20,index] [--max-time 5m]
    python benchmarks/time_to_verdict.py --earlier ~/pgassay-before/.venv/bin/pgassay
    python benchmarks/time_to_verdict.py --aa 2000

Each case is one comparison, run whole by `--restart each` and by `--restart needed`, one after the other in
an order that is drawn for each round, so that load of the machine meets both. Printed are the verdict of
each, the seconds of its trials, and in the end for each case the medians and their ratio (targets: 3 times as
soon, 10 times for the index). One that ends undecided counts with the seconds that it had, and is marked.

--earlier runs each case with another version of pgassay as well, as one command, and compares whole commands:
from the start of each to its end, with its data made before.

--aa measures no speed: two arms that are alike (a setting that their statement does not meet) take turns in
so many starts that there are N rounds of each. Of these starts experiments are made, in each of which one of
the three arms that are alike stands for the arm, another for the control and the rest for the twin: those of
starts in a row, in all roles, and such of starts and roles that are drawn. Printed is in how many of them a
direction is found at level 0.05, with its 95 % interval (target: at most 5 %), and by how much starts differ.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import beta

from pgassay.analysis.statistics.start_rounds import start_figures
from pgassay.analysis.statistics.starts import STARTS_MIN, gather_start_evidence
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.options import duration
from pgassay.environment.builds.registry import resolve
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import run_new
from pgassay.model.experiment import Restart
from pgassay.progress import NullProgress
from pgassay.record.experiment import StoredExperiment

DATA = """
CREATE TABLE events (id integer PRIMARY KEY, account integer NOT NULL, kind text NOT NULL,
    note text NOT NULL);
INSERT INTO events SELECT i, hashint4(i) & 65535, md5(i::text), repeat('n', 40 + i % 40)
FROM generate_series(1, 400000) i;
"""
# In the C locale some 300 ms on a machine with nothing else to do; below 64 MB it spills.
SORT = "SELECT kind, note FROM events WHERE id <= 200000 ORDER BY kind OFFSET 199990"
# Rows that are made one by one, in no memory whose size would decide.
LOOP = "SELECT sum(v) FROM (SELECT 0 * hashint8(generate_series(1, {})) AS v) s"
LOOPS = 500_000
FIND = "SELECT count(*), max(kind) FROM events WHERE account = 4711"
INDEX = "CREATE INDEX ON events (account);"
ALPHA = 0.05
# Some milliseconds, so that a start has many rounds.
SHORT = LOOP.format(20_000)
AA_LOOKS, AA_DRAWN = 12, 4000


@dataclass(frozen=True)
class Case:
    """A comparison: its factor as typed, the statement of all arms where the factor is not the statement."""

    factor: str
    workload: str | None
    soon: float


def cases(folder: Path) -> dict[str, Case]:
    """The comparisons by name, with their files in `folder`."""
    texts = {
        "data": DATA,
        "sort": SORT,
        "find": FIND,
        "index": INDEX,
        "loop": LOOP.format(LOOPS),
        "short": SHORT,
    }
    for more in (5, 20):
        texts[f"loop-{more}"] = LOOP.format(round(LOOPS * (1 + more / 100)))
    files = {name: folder / f"{name}.sql" for name in texts}
    for name, text in texts.items():
        files[name].write_text(
            f"-- name: {name.partition('-')[0]}\n{text.strip(';')};\n" if name != "data" else text
        )
    return {
        "sort": Case("work_mem=4MB,64MB", f"sql:{files['sort']}", 3.0),
        "sql-5": Case(f"sql={files['loop']},{files['loop-5']}", None, 3.0),
        "sql-20": Case(f"sql={files['loop']},{files['loop-20']}", None, 3.0),
        "index": Case(f"prepare=none,{files['index']}", f"sql:{files['find']}", 10.0),
        "aa": Case("enable_tidscan=on,off", f"sql:{files['short']}", 1.0),
    }


def run(
    folder: Path,
    case: Case,
    restart: Restart,
    words: argparse.Namespace,
    seed: int,
    blocks: int | None = None,
) -> StoredExperiment:
    """One comparison, whole; so many blocks where they are given."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        request = CompareRequest(
            factors=(case.factor,),
            dataset=f"script:{folder / 'data.sql'}",
            cache="warm-buffers",
            settings=("shared_buffers=256MB", "max_parallel_workers_per_gather=0"),
            build=resolve(words.pg).bin_directory,
            max_time_s=words.max_time if blocks is None else 36_000.0,
            blocks=blocks,
            seed=seed,
            restart=restart,
            plans="estimate",
            out=Path(out) / "out",
            **({} if case.workload is None else {"workload": case.workload}),
        )
        return run_new(request, NullProgress(), wait=True, until_decided=blocks is None)


def command_line(program: list[str], folder: Path, case: Case, words: argparse.Namespace) -> list[str]:
    """The comparison as one command of this or an earlier version, whose options both have."""
    options = {
        "--dataset": f"script:{folder / 'data.sql'}",
        "--cache": "warm-buffers",
        "--pg": str(resolve(words.pg).bin_directory),
        "--max-time": f"{words.max_time:g}s",
        "--plans": "estimate",
    }
    if case.workload is not None:
        options["--workload"] = case.workload
    settings = ["--set", "shared_buffers=256MB", "--set", "max_parallel_workers_per_gather=0"]
    return [*program, "compare", case.factor, *(word for pair in options.items() for word in pair), *settings]


def compare_versions(folder: Path, words: argparse.Namespace) -> None:
    """Every case by this and by the earlier version, as whole commands, in an order that is drawn."""
    known, draw = cases(folder), random.Random(words.seed)
    programs = {"this": [sys.executable, "-m", "pgassay.cli.main"], "earlier": [words.earlier]}
    # The earlier version may store its data and builds in another way; root's servers run as postgres.
    folder.chmod(0o755)
    homes = {"this": dict(os.environ), "earlier": {**os.environ, "PGASSAY_HOME": str(folder / "home")}}
    took_s: dict[tuple[str, str], list[float]] = {}
    # Round 0 makes the data of both, and does not count.
    for number in range(words.rounds + 1):
        for name in words.cases.split(","):
            for version in draw.sample(sorted(programs), 2):
                with tempfile.TemporaryDirectory(dir=folder) as out:
                    options = ["--out", f"{out}/out", "--seed", str(draw.randrange(2**31)), "--json"]
                    line = command_line(programs[version], folder, known[name], words)
                    begun = time.monotonic()
                    ran = subprocess.run(
                        [*line, *options], env=homes[version], stdout=subprocess.PIPE, text=True, check=False
                    )
                    seconds = time.monotonic() - begun
                if ran.returncode:
                    raise SystemExit(f"{version}, {name}: the command ended with {ran.returncode}")
                arms = json.loads(ran.stdout)["arms"]
                verdicts = ", ".join(each["verdict"] for each in arms if each["verdict"] != "control")
                print(f"round {number}, {name}, {version}: {verdicts}, {seconds:.1f} s", flush=True)
                if number:
                    took_s.setdefault((name, version), []).append(seconds)
    print()
    for name in words.cases.split(","):
        this_s, earlier_s = (statistics.median(took_s[name, version]) for version in ("this", "earlier"))
        print(
            f"{name}: {earlier_s:.1f} s by the earlier version, {this_s:.1f} s by this one: "
            f"{earlier_s / this_s:.1f} times as soon (target {known[name].soon:g})"
        )


def compare_designs(folder: Path, words: argparse.Namespace) -> None:
    """Every case by both designs, as often as asked, and what came of it."""
    known, draw = cases(folder), random.Random(words.seed)
    took_s: dict[tuple[str, str], list[float]] = {}
    undecided: set[tuple[str, str]] = set()
    designs: tuple[Restart, ...] = ("each", "needed")
    for number in range(1, words.rounds + 1):
        for name in words.cases.split(","):
            for restart in draw.sample(designs, 2):
                stored = run(folder, known[name], restart, words, draw.randrange(2**31))
                arm = next(each for each in analyse(stored).arms if each.verdict != "control")
                took_s.setdefault((name, restart), []).append(stored.seconds_used)
                if arm.verdict == "inconclusive":
                    undecided.add((name, restart))
                ratio = f"{arm.ratio:.3f}" if arm.ratio is not None else "no ratio"
                print(
                    f"round {number}, {name}, --restart {restart}: {arm.verdict}, {ratio}, "
                    f"{stored.seconds_used:.1f} s, {arm.blocks} blocks, {stored.stopped}",
                    flush=True,
                )
    print()
    for name in words.cases.split(","):
        each_s, needed_s = (statistics.median(took_s[name, restart]) for restart in designs)
        marks = ["> " if (name, restart) in undecided else "" for restart in designs]
        print(
            f"{name}: {marks[0]}{each_s:.1f} s by trials of each arm, {marks[1]}{needed_s:.1f} s by starts "
            f"of all: {marks[0]}{each_s / needed_s:.1f} times as soon (target {known[name].soon:g})"
        )


def start_logs(stored: StoredExperiment) -> Iterator[np.ndarray]:
    """The log speeds in each start, (rounds, arms), in one order of the arms."""
    ids = [arm.id for arm in stored.experiment.arms]
    blocks: dict[int, dict[str, list[float]]] = {}
    for trial in stored.trials:
        if trial.record.status == "ok":
            rounds = zip(*(each.rounds_s for each in trial.record.statements), strict=True)
            blocks.setdefault(trial.record.block, {})[trial.record.arm_id] = [
                math.fsum(each) for each in rounds
            ]
    for block in sorted(blocks):
        if len(blocks[block]) == len(ids):
            yield -np.log(np.array([blocks[block][name] for name in ids]).T)


def directions(values: np.ndarray) -> np.ndarray:
    """Whether each experiment, (experiments, starts, arms) with the arm first, finds a direction."""
    evidence = gather_start_evidence(values)
    highest = np.maximum(evidence.log_highest_above(0.0), evidence.log_highest_below(0.0))
    found: np.ndarray = (highest[:, STARTS_MIN - 1 :] >= math.log(2 / ALPHA)).any(axis=-1)
    return found


def interval(count: int, of: int) -> str:
    """The 95 % interval of a rate (Clopper and Pearson), in words."""
    lower = beta.ppf(0.025, count, of - count + 1) if count else 0.0
    upper = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
    return f"{count} of {of}, {count / of:.1%} ({lower:.1%} to {upper:.1%})"


def compare_equals(folder: Path, words: argparse.Namespace) -> None:
    """Starts of arms that are alike, until there are enough rounds, and the directions found in them."""
    known, draw = cases(folder), random.Random(words.seed)
    logs: list[np.ndarray] = []
    rounds = 0
    while rounds < words.aa:
        stored = run(folder, known["aa"], "needed", words, draw.randrange(2**31), blocks=AA_LOOKS)
        found = list(start_logs(stored))
        logs += found
        rounds += sum(len(each) for each in found)
        print(f"{len(logs)} starts, {rounds} rounds of each arm", flush=True)
    figures = np.array([start_figures(each).values for each in logs])
    roles = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    whole = len(figures) // AA_LOOKS
    consecutive = figures[: whole * AA_LOOKS].reshape(whole, AA_LOOKS, 3)
    measured = directions(np.concatenate([consecutive[..., list(role)] for role in roles]))
    random_numbers = np.random.default_rng(words.seed)
    drawn = figures[random_numbers.integers(len(figures), size=(AA_DRAWN, AA_LOOKS))]
    order = np.argsort(random_numbers.random(drawn.shape), axis=-1)
    resampled = directions(np.take_along_axis(drawn, order, axis=-1))
    # Each round taken for a unit: what would be claimed of starts if rounds were.
    spread = np.std(figures[:, 0] - figures[:, 1:].mean(axis=-1), ddof=1)
    print(f"\nstarts differ by {spread:.2%} (standard deviation of an arm's ratio to its controls)")
    print(f"false directions, {AA_LOOKS} starts in a row: {interval(int(measured.sum()), len(measured))}")
    print(f"false directions, starts and roles drawn: {interval(int(resampled.sum()), AA_DRAWN)}")


def main() -> None:
    """Run the cases, or the arms that are alike."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often each case is run by each design")
    parser.add_argument("--cases", default="sort,sql-5,sql-20,index")
    parser.add_argument("--earlier", metavar="COMMAND", help="the pgassay command of an earlier version")
    parser.add_argument("--aa", type=int, default=0, metavar="N", help="rounds of arms that are alike")
    parser.add_argument("--max-time", type=duration, default=300.0, metavar="TIME", help="of each comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pg", default="18")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if words.aa:
            compare_equals(Path(name), words)
        elif words.earlier:
            compare_versions(Path(name), words)
        else:
            compare_designs(Path(name), words)


if __name__ == "__main__":
    main()
