"""A search that is continued knows what it knew: the line is parted where it was."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_examples as examples
from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.bisection.line_search import Line
from pgassay.analysis.bisection.search import LinePart, Round, Search
from pgassay.bisecting import run_bisection
from pgassay.bisecting.commit_line import CommitLine
from pgassay.bisecting.run_bisection import STATE_FILE, BisectOptions, _Run
from pgassay.errors import UsageError
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


def recorded_in(
    tmp_path: Path,
    state: BisectionState,
    blocks: dict[str, list[MeasuredBlock]],
    monkeypatch: pytest.MonkeyPatch,
) -> BisectOptions:
    """The search as it stands in a folder, whose experiments have these blocks."""
    for name in blocks:
        (tmp_path / name).mkdir()
        (tmp_path / name / layout.EXPERIMENT_FILE).touch()
    (tmp_path / STATE_FILE).write_bytes(to_json(state))
    stored = examples.stored(levels=["a", "b"])
    monkeypatch.setattr(run_bisection, "load", lambda folder: replace(stored, folder=folder))

    def recorded(experiment: Any, *_: object) -> list[MeasuredBlock]:
        return blocks[experiment.folder.name]

    monkeypatch.setattr(run_bisection, "blocks_of", recorded)
    return BisectOptions(
        line=CommitLine("commits", state.places),
        compare=CompareRequest(factors=(), workload="select-only", max_time_s=60.0),
        out=tmp_path,
        asked={},
        command="",
    )


@pytest.mark.parametrize("seed", range(12))
def test_what_was_found_is_found_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, state, blocks = searched(seed)
    options = recorded_in(tmp_path, state, blocks, monkeypatch)
    continued = _Run(options, NullProgress(), wait=False)
    assert standing(continued.answered().search) == standing(search)
    assert len(continued.answered().search.blocks) == len(search.blocks)


def test_the_blocks_of_a_round_that_was_continued_and_interrupted_again_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, state, blocks = searched(0)
    first = state.model_copy(update={"rounds": state.rounds[:1], "alike": ()})
    folder = first.rounds[0].folder
    known = {folder: blocks[folder][:2]}
    run = _Run(recorded_in(tmp_path, first, known, monkeypatch), NullProgress(), wait=False)
    assert len(run.answered().search.blocks) == 2
    # What is recorded between there and the interruption.
    known[folder] = blocks[folder]
    run.read_last()
    assert len(run.answered().search.blocks) == ENDS_BLOCKS
    run.read_last()
    assert len(run.answered().search.blocks) == ENDS_BLOCKS


def test_a_continued_search_builds_the_ends_of_a_part_before_it_chooses_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that builds what the low end of its part does is none to be compared with it."""
    _, state, _ = searched(0)
    state = state.model_copy(update={"rounds": (), "alike": ()})
    run = _Run(recorded_in(tmp_path, state, {}, monkeypatch), NullProgress(), wait=False)
    servers = {20: "/same", 21: "/same"}
    monkeypatch.setattr(
        _Run, "_provide", lambda self, place: self._built.setdefault(place, servers.get(place, f"/{place}"))
    )
    part = LinePart(20, LAST, Line(LAST - 20, 0.025), 1)
    run._search.parts = [LinePart(0, 20, Line(20, 0.025), 1), part]
    assert run._prepared(Round(part, (21,))) is None
    assert run.state.alike == ((20, 21),)
    made = run._prepared(Round(part, (21, 30)))
    assert made is not None and made.places == (30,)


def test_two_searches_do_not_write_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, state, blocks = searched(0)
    options = recorded_in(tmp_path, state, blocks, monkeypatch)
    said = rf"process {os.getpid()} is searching in {tmp_path}: wait until"
    with _Run(options, NullProgress(), wait=False).holding, pytest.raises(UsageError, match=said):
        _Run(options, NullProgress(), wait=False)
    with _Run(options, NullProgress(), wait=False).holding:
        pass


def test_a_round_of_a_commit_that_is_left_out_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, state, blocks = searched(0)
    last = state.rounds[-1]
    known = {**blocks, last.folder: []}
    options = recorded_in(tmp_path, state, known, monkeypatch)
    run = _Run(options, NullProgress(), wait=False)
    assert run._unfinished() == last
    run._leave_out(last.places[0], "its trials fail: the server has crashed")
    assert run._unfinished() is None
    with run.holding:
        pass
    assert _Run(options, NullProgress(), wait=False)._unfinished() is None, "as it was remembered"


def test_a_round_that_parted_the_line_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, state, blocks = searched(0)
    last = state.rounds[-1]
    run = _Run(
        recorded_in(tmp_path, state, {**blocks, last.folder: []}, monkeypatch), NullProgress(), wait=False
    )
    assert run._unfinished() == last
    run._search.parts = [LinePart(0, 1, Line(1, 0.025), 1), LinePart(1, LAST, Line(LAST - 1, 0.025), 1)]
    assert run._unfinished() is None


def test_near_the_end_of_the_time_a_round_is_begun_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped since its next block would end too late: it is left for the next call."""
    _, state, blocks = searched(0)
    options = recorded_in(
        tmp_path, state.model_copy(update={"rounds": state.rounds[:2]}), blocks, monkeypatch
    )
    last = state.rounds[1]
    late = replace(examples.stored(levels=["a", "b"]), folder=tmp_path / last.folder, stopped="max-time")
    begun: list[str] = []
    monkeypatch.setattr(run_bisection, "load", lambda folder: replace(late, folder=folder))
    monkeypatch.setattr(run_bisection, "check_builds", lambda _: None)
    monkeypatch.setattr(run_bisection, "places_that_do_not_start", lambda *_: {})
    monkeypatch.setattr(run_bisection, "run_round", lambda _, found, *__: begun.append(found.folder))
    monkeypatch.setattr(_Run, "_provide", lambda self, place: self._built.setdefault(place, f"/{place}"))
    blocks[last.folder] = []
    run = _Run(options, NullProgress(), wait=True)
    with run.holding:
        run.run_all()
    assert begun == [last.folder]
