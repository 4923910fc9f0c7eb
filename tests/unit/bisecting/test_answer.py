"""The answer in sentences: from simulated searches, at their end and in the middle of them."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from profile_for_tests import profiled

import report_examples as examples
from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.bisection.line_search import Line
from pgassay.analysis.bisection.search import STEPLESS_BLOCKS, LinePart, Search
from pgassay.bisecting.bisect_answer import Answered, answer
from pgassay.model.build import SourceTree
from pgassay.model.further_results.bisection import (
    BisectionResult,
    BisectionRound,
    BisectionState,
    Kind,
    Place,
    Reverted,
)
from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report.bisection import page_of
from samples.searches.simulated import World, searched, step

LAST = 64


def _answered(
    search: Search,
    verdict: str = "slower",
    untestable: tuple[int, ...] = (),
    profiled: StoredExperiment | None = None,
    stored: tuple[StoredExperiment, ...] = (),
    alike: tuple[tuple[int, int], ...] = (),
    reverted: Reverted | None = None,
    passed_over: int = 0,
    rounds: tuple[BisectionRound, ...] = (),
    kind: Kind = "commits",
) -> BisectionResult:
    places = tuple(
        Place(
            name=f"c{number:03d}",
            build=f"git:x@c{number:03d}",
            subject=f"change {number}",
            author="A",
            passed_over=passed_over,
        )
        for number in range(LAST + 1)
    )
    arm = ArmResult.model_construct(verdict=verdict, withheld=False, ratio=0.93, interval=(0.89, 0.98))
    state = BisectionState(
        kind=kind,
        places=places,
        asked={},
        untestable=untestable,
        alike=alike,
        seconds_used=60.0,
        reverted=reverted,
        rounds=rounds,
    )
    return answer(
        Answered(
            state=state,
            search=search,
            ends=CompareResult.model_construct(arms=(arm,)),
            stored=stored,
            folder="out",
            margin=0.02,
            aside=3,
            building_s=(),
            command="pgassay bisect",
            profiled=profiled,
        )
    )


def _searched(level: Callable[[int], float], untestable: frozenset[int] = frozenset()) -> Search:
    return searched(World(LAST, level, 0.01), np.random.default_rng(4), untestable).search


def test_a_step_is_told_with_its_size_and_its_commit() -> None:
    found = _answered(_searched(lambda place: -0.27 if place >= 41 else 0.0))
    assert found.verdict == "found"
    assert found.headline.startswith("The slow-down of 1.3")
    assert "came with this commit (95 %): c041 'change 41' (A)." in found.headline
    assert found.interval is not None and found.interval[0] < np.exp(0.27) < found.interval[1]
    assert found.notes == ()


def test_a_step_may_be_of_a_commit_that_the_path_left_out() -> None:
    search = _searched(lambda place: -0.27 if place >= 41 else 0.0)
    (note,) = _answered(search, passed_over=2).notes
    assert note.startswith("--path left out 2 commits between c040 and c041, and the step may be theirs: ")
    assert "run pgassay bisect git:x@c040 git:x@c041 with the same options and without --path" in note
    confirmed = Reverted(name="c041", ratio=1.3, interval=(1.2, 1.4), is_confirmed=True)
    assert not any("--path" in each for each in _answered(search, passed_over=2, reverted=confirmed).notes)


def test_a_difference_that_the_ends_showed_is_told_by_theirs() -> None:
    """The search's own interval over so few and noisy blocks would reach beyond 1."""
    search = Search(LAST)
    for shift in (0.0, 0.1, -0.1, 0.05):
        search.observe(search.parts[0], MeasuredBlock((0, 0, LAST), (shift, -shift, -0.06)))
    found = _answered(search)
    assert (found.ratio, found.interval) == (1 / 0.93, (1 / 0.98, 1 / 0.89))
    assert "The slow-down of 1.08 × [1.02, 1.12] came with one of them" in found.headline
    assert found.steps[0].interval == found.interval
    assert _answered(search, "inconclusive").interval != found.interval


def test_a_speed_up_is_called_one() -> None:
    found = _answered(_searched(lambda place: 0.27 if place >= 41 else 0.0), "faster")
    assert found.headline.startswith("The speed-up of 1.3")
    assert found.ratio is not None and found.ratio < 1


def test_releases_that_are_missing_before_the_found_one_are_told() -> None:
    found = _answered(_searched(lambda place: -0.27 * (place >= 41)), passed_over=2, kind="builds")
    (note,) = [each for each in found.notes if "ot installed" in each]
    assert note.startswith("Not installed: 2 builds between c040 and c041, and the step may be theirs")
    assert "'pgassay builds install npm:c040..c041'" in note


def test_a_commit_that_does_not_build_stays_in_the_answer() -> None:
    broken = frozenset({40})
    found = _answered(_searched(lambda place: -0.27 * (place >= 41), broken), untestable=(40,))
    assert "one of these 2 commits" in found.headline
    assert "c040 'change 40' (A), which does not build" in found.headline
    assert any("does not build or run can't be distinguished" in note for note in found.notes)


def test_two_steps_name_both() -> None:
    found = _answered(_searched(lambda place: -0.2 * (place >= 12) - 0.15 * (place >= 50)))
    assert found.verdict == "two steps"
    assert "c012" in found.headline and "c050" in found.headline


def test_a_part_without_a_step_is_none_of_the_answer() -> None:
    """Noise parted the line; on one side forty blocks show no step, on the other one commit is left."""
    world, random = step(LAST, 41, -0.27, 0.01), np.random.default_rng(6)
    search = Search(LAST)
    for _ in range(5):
        search.observe(search.parts[0], world.block((0, 0, LAST), random))
    ends = ((0, 20), (20, LAST))
    search.parts = [LinePart(low, high, Line(high - low, 0.025), 1) for low, high in ends]
    for _ in range(STEPLESS_BLOCKS):
        search.observe(search.parts[0], world.block((0, 0, 20), random))
    assert search.parts[0].is_stepless
    assert _answered(search).verdict == "undecided"
    while (found := search.next_round()) is not None:
        for _ in range(found.blocks):
            search.observe(found.part, world.block((found.part.low, *found.members), random))
    told = _answered(search)
    assert told.verdict == "found"
    assert "came with this commit (95 %): c041" in told.headline
    assert [len(each.culprits) for each in told.steps] == [1]
    # Nor has it commits of which one may have made the step.
    (note,) = _answered(search, passed_over=1).notes
    assert note.startswith("--path left out 1 commit between c040 and c041")


def test_two_parts_without_a_step_are_a_slope_that_nobody_made() -> None:
    """Each has a half that is too small to be seen: nothing more is measured, so nothing is undecided."""
    world, random = step(LAST, 41, -0.27, 0.01), np.random.default_rng(6)
    search = Search(LAST)
    for _ in range(5):
        search.observe(search.parts[0], world.block((0, 0, LAST), random))
    ends = ((0, 20), (20, 40))
    search.parts = [LinePart(low, high, Line(high - low, 0.025), 1) for low, high in ends]
    for _ in range(STEPLESS_BLOCKS):
        for part in search.parts:
            search.observe(part, world.block((part.low, part.low, part.high), random))
    assert search.next_round() is None
    found = _answered(search)
    assert found.verdict == "gradual"
    assert "is not explained by one or two commits" in found.headline
    assert found.notes == ()


def test_a_slope_names_nobody() -> None:
    found = _answered(_searched(lambda place: -0.5 * place / LAST))
    assert found.verdict == "gradual"
    assert found.steps == ()
    assert "not explained by one or two commits" in found.headline


def test_what_was_repaired_in_part_is_said() -> None:
    found = _answered(_searched(lambda place: -0.4 * (place >= 20) + 0.25 * (place >= 40)))
    assert any("was fixed before the bad end" in note for note in found.notes)


@pytest.mark.parametrize(
    ("first", "second", "verdict", "said", "size"),
    [
        (-0.4, 0.25, "slower", "slower than both: a part of it was fixed before the bad end", "1.5"),
        (0.4, -0.25, "faster", "faster than both: a part of it was lost again before the bad end", "1.4"),
        (0.15, -0.35, "slower", "faster than both: a speed-up before the step hides a part of it", ""),
        (-0.15, 0.35, "faster", "slower than both: a slow-down before the step hides a part of it", ""),
    ],
)
def test_what_lies_beyond_the_ends_is_told_by_its_side_and_direction(
    first: float, second: float, verdict: str, said: str, size: str
) -> None:
    found = _answered(_searched(lambda place: first * (place >= 20) + second * (place >= 40)), verdict)
    assert found.verdict == "found"
    (note,) = [note for note in found.notes if "between the ends" in note]
    assert note == f"Some commits between the ends are {said}."
    own = [note for note in found.notes if "alone makes" in note]
    # What is more than the whole has no rest that came with others.
    assert [each.startswith(f"c020 alone makes {size}") for each in own] == [True] * bool(size)
    assert all(each.endswith("; others take a part of it back.") for each in own)


def test_two_steps_against_each_other_are_told_by_their_directions() -> None:
    world, random = World(LAST, lambda place: 0.1 * (place >= 20) - 0.35 * (place >= 40), 0.01), 7
    search, dice = Search(LAST), np.random.default_rng(random)
    for _ in range(5):
        search.observe(search.parts[0], world.block((0, 0, LAST), dice))
    ends = ((0, 30), (30, LAST))
    search.parts = [LinePart(low, high, Line(high - low, 0.025), 1) for low, high in ends]
    middle = _answered(search)
    assert middle.headline.startswith("undecided: 64 commits left")
    assert "came in two steps, with two of them (95 %)." in middle.headline
    assert "one of them" not in middle.headline
    while (found := search.next_round()) is not None:
        for _ in range(found.blocks):
            search.observe(found.part, world.block((found.part.low, *found.members), dice))
    headline = _answered(search).headline
    assert headline.startswith("The slow-down of 1.2")
    assert "came in two steps: a speed-up of 1.1" in headline
    assert " and 1.4" in headline


def test_a_commit_that_may_not_be_all_of_it_is_named() -> None:
    search = Search(LAST)
    world, random = step(LAST, 41, -0.27, 0.01), np.random.default_rng(5)
    for _ in range(5):
        search.observe(search.parts[0], world.block((0, 0, LAST), random))
    search.parts[0].line.alike(0, 40)
    search.parts[0].line.alike(41, LAST)
    told = _not_sure(search)
    assert told.headline.startswith("undecided: 1 commit left.")
    assert told.headline.endswith("came with it (95 %), or a part of it with others: c041 'change 41' (A).")


def _not_sure(search: Search) -> BisectionResult:
    """The answer while it is not known how much of it the one commit makes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Line, "is_found", lambda *_: False)
        return _answered(search)


def test_ends_that_used_up_their_blocks_are_not_said_to_go_on() -> None:
    search = _searched(lambda _: 0.0)
    going_on = _answered(search, "inconclusive")
    assert going_on.notes == ("The same command continues; --max-time applies to each run.",)
    ends = replace(examples.stored(levels=["good", "bad"]), stopped="blocks")
    state = BisectionRound(folder="ends", low=0, high=LAST, places=(), blocks=200)
    (note,) = _answered(search, "inconclusive", stored=(ends,), rounds=(state,)).notes
    assert note.startswith(f"The ends were compared in {len(search.blocks)} blocks, the most that are run")
    assert (
        "continues" not in page_of(_answered(search, "inconclusive", stored=(ends,), rounds=(state,))).text()
    )


def test_in_the_middle_of_it_all_that_is_left_is_counted() -> None:
    world, random = step(LAST, 41, -0.27, 0.01), np.random.default_rng(5)
    search = Search(LAST)
    for _ in range(5):
        search.observe(search.parts[0], world.block((0, 0, LAST), random))
    found = _answered(search)
    assert found.verdict == "undecided"
    assert found.headline.startswith("undecided: 64 commits left")
    assert _answered(search, "inconclusive").headline.startswith("undecided: it is not known yet whether")


@pytest.mark.parametrize("word", ["equivalent"])
def test_without_a_difference_nothing_is_named(word: str) -> None:
    found = _answered(_searched(lambda _: 0.0), word)
    assert found.headline == "The ends do not differ beyond 2 %: nothing to find."
    assert found.steps == ()
    assert "would not be seen" in found.notes[0]


def test_ends_that_build_the_same_may_have_a_revert_between_them() -> None:
    search = Search(LAST)
    search.alike(0, LAST)
    found = _answered(search, alike=((0, LAST),))
    assert found.headline == "Both ends build the same server: nothing to find."
    assert "name an earlier bad end" in found.notes[0]


def test_every_output_begins_with_the_sentence() -> None:
    found = _answered(_searched(lambda place: -0.27 if place >= 41 else 0.0))
    shown = page_of(found).terminal(width=200)
    assert "c041 'change 41' (A)." in " ".join(shown.split())
    assert "3 more change nothing that is built or searched" in shown
    assert "| c041 change 41 |" in page_of(found).markdown()


def test_a_mail_has_the_machine_the_compiler_and_the_command() -> None:
    measured = examples.stored(levels=["good", "bad"])
    tree = SourceTree(name="git:x@good", tree="1", compiler="gcc (Debian 12) 12.2.0", options=())
    arms = tuple(
        arm.model_copy(
            update={
                "spec": arm.spec.model_copy(
                    update={
                        "build": arm.spec.build.model_copy(update={"source": tree, "cflags": "-Wall -O2 -g"})
                    }
                )
            }
        )
        for arm in measured.experiment.arms
    )
    known = {"cpu_model": "AMD EPYC", "cores_online": 2, "kernel": "6.1"}
    environment = measured.experiment.environment
    machine = environment.machine.model_copy(update=known)
    changes = {"arms": arms, "environment": environment.model_copy(update={"machine": machine})}
    measured = replace(measured, experiment=measured.experiment.model_copy(update=changes))
    search = _searched(lambda place: -0.27 if place >= 41 else 0.0)
    mail = page_of(_answered(search, stored=(measured,))).text()
    words = " ".join(mail.split())
    assert "Machine: AMD EPYC, 2 cores, " in words and "kernel 6.1" in words
    assert "Built with: gcc (Debian 12) 12.2.0, -O2 -g" in words
    assert "Again: pgassay bisect" in words
    assert max(map(len, mail.splitlines())) <= 72
    assert "Machine:" not in page_of(_answered(search)).text()


def test_commands_can_be_pasted_from_every_form(tmp_path: Path) -> None:
    search = _searched(lambda place: -0.27 if place >= 41 else 0.0)
    words = ["pgassay", "bisect", "git:/home/me/my clone@v1", "git:/home/me/my clone@HEAD"]
    words += ["--workload", "sql:/home/me/slow.sql", "--max-time", "3h"]
    answered = _answered(search, profiled=profiled(tmp_path, rounds=12, factors={"_bt_compare": 1.6}))
    result = answered.model_copy(update={"command": shlex.join(words), "folder": "/srv/my results/search"})
    page = page_of(result)
    mail = page.text()
    assert max(map(len, mail.splitlines())) <= 72
    for shown in (mail, page.terminal(width=80), page.markdown()):
        pasted = shown[shown.index("pgassay bisect") :].partition("\n```")[0].replace("\\\n", " ")
        assert shlex.split(pasted) == words
        # No sign that keeps a mention from being made stands within a command.
        assert "&#8203;" not in pasted
        report = shown[shown.index("pgassay report") :].replace("\\\n", " ").partition("\n")[0]
        assert shlex.split(report) == ["pgassay", "report", "/srv/my results/search/profile"]


def test_the_functions_over_the_step_are_told(tmp_path: Path) -> None:
    search = _searched(lambda place: -0.27 if place >= 41 else 0.0)
    slower = profiled(tmp_path, rounds=12, factors={"_bt_compare": 1.6})
    found = _answered(search, profiled=slower)
    assert found.profile is not None and found.profile.rounds == 12
    text = " ".join(page_of(found).terminal().split())
    assert found.profile.sentences and found.profile.sentences[0].startswith("_bt_compare takes ")
    assert f"{found.profile.sentences[0]}." in text
    assert "pgassay report out/profile" in text
