"""Do the finders of `pgassay tune` find what is wrong with a database, and leave alone what is right?

    python benchmarks/planted_tunes.py [--seeds 1-5] [--only NAME,NAME] [--pg 16,17,18] [--show] [--measure]

Plants each kind of defect in a small database of a real server, drawn anew by each seed (names, types,
sizes), and its decoy, which differs in one fact and needs nothing. The statements are executed under EXPLAIN,
the catalogs read, and the finders asked; what the planner's cost speaks against, with the index really built,
is taken away. A plant counts as found when its fix is among what is left, a decoy when nothing is. The
seeds take the versions in turn. --measure applies each fix and sets the gain that it was predicted to bring
beside the one measured. Exit code 1 when less than 95 % of either is as it should be.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg

from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import account, home
from pgassay.tune.candidate import Candidate
from tune_plants.base import Plant
from tune_plants.table import PLANTS
from tune_plants.trial import Laboratory, Outcome, laboratory

SHARE_MIN = 0.95


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit code."""
    arguments = _arguments(words)
    plants = [each for each in PLANTS if not arguments.only or each.name in arguments.only.split(",")]
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    versions = arguments.pg.split(",")
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
    for word, (good, all_) in counts.items():
        print(f"{word}: {good} of {all_} ({good / max(all_, 1):.1%})")
    return int(any(good < SHARE_MIN * all_ for good, all_ in counts.values()))


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
    if measure and outcome.fix is not None and not decoy and not outcome.fix.described:
        _compare(title, outcome.fix, made.measured(outcome, outcome.fix))
    return good


def _compare(title: str, fix: Candidate, measured: dict[str, float]) -> None:
    for name, ratio in measured.items():
        predicted, gain = 1 - fix.predicted[name], 1 - ratio
        near = abs(predicted - gain) <= 0.25 * max(abs(gain), 0.01)
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
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
