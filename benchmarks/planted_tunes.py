"""Do the finders of `pgassay tune` find what is wrong with a database, and leave alone what is right?

    python benchmarks/planted_tunes.py [--seeds 1-5] [--only NAME,NAME] [--pg 16,17,18] [--show] [--measure]
    python benchmarks/planted_tunes.py --whole [--search] [--max-time 90s] [--seeds 1] [--only NAME,NAME]
        [--kinds 6] [--draw 1] [--within 15m] [--no-decoys] [--pg 18] [--out FOLDER]

Plants each kind of defect in a small database of a real server, drawn anew by each seed (names, types,
sizes), and its decoy, which differs in one fact and needs nothing. The statements are executed under EXPLAIN,
the catalogs read, and the finders asked; what the planner's cost speaks against, with the index really built,
is taken away. A plant counts as found when its fix is among what is left, a decoy when nothing is. The
seeds take the versions in turn. --measure applies each fix and sets the gain that it was predicted to bring
beside the one measured. --whole runs the whole of tune instead, with its search and its proof: a plant counts
when its fix is recommended and stands first (or is told, where it is one that is never tried), a decoy when
nothing is recommended; what the search predicted is set beside what the proof measured. --search ends before
the proof, for a machine that is busy: a plant counts when its fix is the first that would be proved, or is
told, a decoy when nothing would be proved. --out keeps each one's tune.json and search.json. --kinds takes so
many of the kinds, drawn by --draw, and --within begins none that could end later. What was found is printed
for each kind at the end. Exit code 1 when less than 95 % of either is as it should be, or less than 80 % of
the gains are within 25 % of what was predicted.
"""

import argparse
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg

from pgassay.cli.options import duration
from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import account, home
from pgassay.errors import PgassayError
from pgassay.record.layout import SEARCH_FILE, TUNE_FILE
from pgassay.tune.candidate import Candidate
from tune_plants.base import Plant
from tune_plants.table import PLANTS
from tune_plants.tally import NEAR, SHARE_MIN, Ran, Tally
from tune_plants.trial import Laboratory, Outcome, laboratory
from tune_plants.whole import Whole, tuned


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit code."""
    arguments = _arguments(words)
    plants = [each for each in PLANTS if not arguments.only or each.name in arguments.only.split(",")]
    if arguments.kinds is not None:
        plants = random.Random(arguments.draw).sample(plants, min(arguments.kinds, len(plants)))
        print(f"drawn by {arguments.draw}: {', '.join(each.name for each in plants)}", flush=True)
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    versions = arguments.pg.split(",")
    if arguments.whole:
        return _all_whole(plants, seeds, versions, arguments)
    counts = {"found": [0, 0], "clean": [0, 0]}
    folder = Path(tempfile.mkdtemp(prefix="tunes-", dir=home() / "data"))
    owner = account()
    if owner is not None:
        os.chown(folder, owner.uid, owner.gid)
    with ExitStack() as undone:
        undone.callback(shutil.rmtree, folder)
        # The versions in turn, one server at a time.
        for number, version in enumerate(versions):
            mine = [seed for seed in seeds if seed % len(versions) == number]
            if not mine:
                continue
            with laboratory(resolve(version), folder) as made:
                for plant in plants:
                    for seed in mine:
                        for decoy in (False, True):
                            good = _one(
                                made, plant, seed, version, decoy=decoy, show=arguments.show,
                                measure=arguments.measure,
                            )  # fmt: skip
                            counts["clean" if decoy else "found"][0] += good
                            counts["clean" if decoy else "found"][1] += 1
    return _judged(counts)


def _judged(counts: dict[str, list[int]]) -> int:
    for word, (good, all_) in counts.items():
        print(f"{word}: {good} of {all_} ({good / max(all_, 1):.1%})")
    return int(any(good < SHARE_MIN * all_ for good, all_ in counts.values()))


def _all_whole(plants: list[Plant], seeds: range, versions: list[str], arguments: argparse.Namespace) -> int:
    begun, tally = time.monotonic(), Tally()
    for seed in seeds:
        version = versions[seed % len(versions)]
        for plant in plants:
            needed = plant.drawn(seed, decoy=False).processors_min
            if needed > (os.cpu_count() or 1):
                print(f"left out  {plant.name}: its fix needs {needed} processors", flush=True)
                continue
            if time.monotonic() + 2 * arguments.max_time > begun + (arguments.within or math.inf):
                print(f"left out  {plant.name} seed {seed}: no time is left for it", flush=True)
                continue
            for decoy in (False,) if arguments.no_decoys else (False, True):
                tally.add(_whole(plant, seed, version, arguments, decoy=decoy))
    print(tally.text(), flush=True)
    return int(not tally.is_reached)


def _whole(plant: Plant, seed: int, version: str, arguments: argparse.Namespace, *, decoy: bool) -> Ran:
    title = f"{plant.name} seed {seed} on {version}{' (decoy)' if decoy else ''}"
    drawn = plant.drawn(seed, decoy=decoy)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            whole = tuned(Path(temporary), drawn, version, arguments.max_time, proves=not arguments.search)
        except PgassayError as error:
            print(f"FAILED    {title}: {error}", flush=True)
            return Ran(plant.name, seed, decoy=decoy, word="FAILED")
        if arguments.out is not None:
            kept = arguments.out / title.replace(" ", "-")
            kept.mkdir(parents=True, exist_ok=True)
            for file in (SEARCH_FILE, TUNE_FILE):
                if (Path(whole.result.folder) / file).exists():
                    shutil.copy(Path(whole.result.folder) / file, kept)
    if arguments.search:
        word: str = whole.chosen(drawn) if not decoy else "proves" if whole.search else "nothing"
        said = ", ".join(f"{name} {gain:.2f}" for name, gain in whole.search.items())
    else:
        is_wrong = any(fix.verdict == "recommended" for fix in whole.result.fixes)
        word = ("WRONG" if is_wrong else "nothing") if decoy else whole.found(drawn)
        said = whole.result.verdict
    proof = whole.result.proof
    ran = Ran(
        plant.name,
        seed,
        decoy=decoy,
        word=word,
        predicted=proof.predicted_gain if proof else None,
        gained=proof.gain if proof else None,
        blocks=proof.blocks if proof else 0,
    )
    print(f"{word:9} {title}, {whole.result.seconds_used:.0f} s: {said}", flush=True)
    if not ran.is_good:
        _tell_fixes(whole)
    if ran.is_near is not None:
        print(f"          {ran.prediction}", flush=True)
    return ran


def _tell_fixes(whole: Whole) -> None:
    for fix in whole.result.fixes:
        gain = "" if fix.gain is None else f" {fix.gain:.2f}"
        print(f"          {fix.rank}. {fix.verdict} by {fix.evidence}{gain}: {fix.id} {fix.note}", flush=True)


def _one(
    made: Laboratory, plant: Plant, seed: int, version: str, *, decoy: bool, show: bool, measure: bool
) -> bool:
    title = f"{plant.name} seed {seed} on {version}{' (decoy)' if decoy else ''}"
    try:
        outcome = made.run(plant, seed, decoy=decoy)
    except psycopg.Error as error:
        print(f"FAILED  {title}: {error}", flush=True)
        return False
    good = not outcome.left if decoy else outcome.fix is not None
    if not good or show:
        print(f"{'ok     ' if good else 'WRONG  '} {title}", flush=True)
        _tell(outcome)
    is_tried = outcome.fix is not None and not decoy and not outcome.fix.described
    # What more processors than this machine has would gain can't be measured here.
    has_processors = (outcome.symptom.machine.processors or 1) <= (os.cpu_count() or 1)
    if measure and outcome.fix is not None and is_tried and has_processors:
        _compare(title, outcome.fix, made.measured(outcome, outcome.fix))
    return good


def _compare(title: str, fix: Candidate, measured: dict[str, float]) -> None:
    for name, ratio in measured.items():
        predicted, gain = 1 - fix.predicted[name], 1 - ratio
        near = abs(predicted - gain) <= NEAR * max(abs(gain), 0.01)
        print(
            f"{'near   ' if near else 'far    '} {title} {name}: predicted {predicted:.2f}, gained "
            f"{gain:.2f}",
            flush=True,
        )


def _tell(outcome: Outcome) -> None:
    for statement in outcome.symptom.statements:
        print(f"          {statement.sql}")
        for plan in outcome.symptom.plans[statement.name]:
            print(f"            {plan.execution_ms} ms")
            for node in plan.nodes:
                print(
                    f"            {'  ' * node.depth}{node.type} {node.relation or ''} "
                    f"{node.index or ''} est "
                    f"{node.rows_estimated} rows {node.rows} x {node.loops} own {node.own_ms} "
                    f"{node.conditions}"
                )
    for each in outcome.offered:
        gone = " (cost says no)" if each.id in outcome.screened else ""
        print(f"          - {each.kind}{gone}: {each.id} {each.predicted} {each.bytes} {each.settings or ''}")
        print(f"            {each.reason}")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-5")
    parser.add_argument("--only", default="")
    parser.add_argument("--pg", default="16,17,18")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--max-time", type=duration, default=90.0)
    parser.add_argument("--no-decoys", action="store_true")
    parser.add_argument("--kinds", type=int)
    parser.add_argument("--draw", type=int, default=1)
    parser.add_argument("--within", type=duration)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
