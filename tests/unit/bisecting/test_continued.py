"""A search that is continued knows what it knew: the line is parted where it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_examples as examples
from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.bisection.search import Search
from pgassay.bisecting import run_bisection
from pgassay.bisecting.commit_line import CommitLine
from pgassay.bisecting.run_bisection import STATE_FILE, BisectOptions, _Run
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.further_results.bisection import BisectionRound, BisectionState, Place
from pgassay.progress import NullProgress
from pgassay.record import layout
from pgassay.record.documents import to_json
from samples.searches.simulated import World

LAST = 60
# Of the commits about a third change what is built.
CHANGING = 0.35
ENDS_BLOCKS = 6


def searched(seed: int) -> tuple[Search, BisectionState, dict[str, list[MeasuredBlock]]]:
    """A search for two steps among commits of which most build what the one before them does."""
    random = np.random.default_rng(seed)
    steps = random.choice(np.arange(3, LAST - 3), 2, replace=False)
    changes = (random.random(LAST) < CHANGING) | np.isin(np.arange(1, LAST + 1), steps)
    builds = [0, *np.cumsum(changes).tolist()]
    world = World(LAST, lambda place: -0.2 * float((steps <= place).sum()), 0.015)
    search, known = Search(LAST), {0: builds[0], LAST: builds[LAST]}
    blocks: dict[str, list[MeasuredBlock]] = {}
    rounds: list[BisectionRound] = []

    def measured(found: BisectionRound) -> None:
        rounds.append(found)
        for _ in range(found.blocks):
            block = world.block((found.low, found.low, *found.places, found.high), random)
            blocks.setdefault(found.folder, []).append(block)
            for part in [each for each in search.parts if (each.low, each.high) == (found.low, found.high)]:
                search.observe(part, block)

    measured(
        BisectionRound(folder="ends", low=0, high=LAST, places=(), blocks=ENDS_BLOCKS, alike=0, untestable=0)
    )
    while (step := search.next_round()) is not None:
        for place in step.places:
            for other in [other for other, built in known.items() if built == builds[place]]:
                if other != place:
                    search.alike(*sorted((place, other)))
            known[place] = builds[place]
        kept = [
            place
            for place in step.places
            if builds[place] not in (builds[step.part.low], builds[step.part.high])
        ]
        if kept or not step.places:
            measured(
                BisectionRound(
                    folder=f"round-{len(rounds):03d}",
                    low=step.part.low,
                    high=step.part.high,
                    places=tuple({builds[place]: place for place in kept}.values()),
                    blocks=step.blocks,
                    alike=len(search.alike_pairs),
                    untestable=0,
                )
            )
    state = BisectionState(
        kind="commits",
        places=tuple(Place(name=f"c{place}", build=f"git:x@{place}") for place in range(LAST + 1)),
        asked={},
        alike=tuple(search.alike_pairs),
        rounds=tuple(rounds),
    )
    return search, state, blocks


def standing(search: Search) -> list[tuple[int, int, list[int]]]:
    return [(part.low, part.high, part.left()) for part in search.parts]


@pytest.mark.parametrize("seed", range(12))
def test_what_was_found_is_found_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, state, blocks = searched(seed)
    for name in blocks:
        (tmp_path / name).mkdir()
        (tmp_path / name / layout.EXPERIMENT_FILE).touch()
    (tmp_path / STATE_FILE).write_bytes(to_json(state))
    stored = examples.stored(levels=["a", "b"])
    monkeypatch.setattr(run_bisection, "load", lambda folder: replace(stored, folder=folder))

    def recorded(experiment: Any, *_: object) -> list[MeasuredBlock]:
        return blocks[experiment.folder.name]

    monkeypatch.setattr(run_bisection, "blocks_of", recorded)
    options = BisectOptions(
        line=CommitLine("commits", state.places),
        compare=CompareRequest(factors=(), workload="select-only", max_time_s=60.0),
        out=tmp_path,
        asked={},
        command="",
    )
    continued = _Run(options, NullProgress(), wait=False)
    assert standing(continued.answered().search) == standing(search)
    assert len(continued.answered().search.blocks) == len(search.blocks)
