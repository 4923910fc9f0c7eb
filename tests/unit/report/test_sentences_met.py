"""Sentences that said what was not so: warnings, bars, promises, phases, the memory that is advised."""

import math

import pytest

from pgassay.analysis.statistics.power import resolution_sentence
from pgassay.analysis.verdicts.warnings import trial_warnings
from pgassay.model.running_server.watch import pass_number
from pgassay.report import interval_bar
from pgassay.report.tune.figures import interval_words
from pgassay.trial.measure.maintenance_progress import progress_words


def test_warnings_that_differ_in_figures_alone_are_one() -> None:
    def doubt(volume: str, share: int) -> str:
        return f"imitating {volume} took {share}% of the processors, which the server lacked"

    told = [(doubt("gp3,size=100GiB", share),) for share in (31, 62, 45, 38, 52, 33, 60)]
    assert trial_warnings(told) == (
        f"{doubt('gp3,size=100GiB', 62)} (the largest of 7 trials with this warning).",
    )
    # Other volumes, settings and versions are other matters.
    apart = [(doubt("gp3,size=100GiB", 31), doubt("gp3,size=200GiB", 31)), ("PostgreSQL 17 is old",)]
    assert trial_warnings([*apart, ("PostgreSQL 18 is old",)]) == (
        *apart[0],
        "PostgreSQL 17 is old",
        "PostgreSQL 18 is old",
    )


def test_an_estimate_is_never_outside_of_its_plot() -> None:
    scale = interval_bar.scale_for([(300.0, 800.0)], [514.0], 0.03, 31)
    assert scale.holds(514.0) and "●" in interval_bar.draw(scale, (300.0, 800.0), 514.0, interval_bar.UNICODE)
    assert interval_bar.axis(scale).split()[-1].isdigit()
    # A wide interval alone does not flatten the others.
    assert interval_bar.scale_for([(0.9, 5000.0)], [1.1], 0.03, 31).span == pytest.approx(math.log(64))


def test_too_little_time_is_told_so_that_it_differs_from_what_is_needed() -> None:
    said = resolution_sentence(180, 15.5, 3)
    assert said.startswith("3 min 00 s are about 3 blocks of 3 trials, too few for a verdict")
    assert "at least 4 blocks (3 min 06 s)" in said


def test_blocks_that_count_once_for_their_copies_are_told_before_the_first() -> None:
    said = resolution_sentence(1800, 10, 3, blocks_per_copy=5)
    assert "Each 5 blocks run on one set of copies, which counts once" in said
    assert "at least 4 sets, 20 blocks." in said
    # What the time has room for is no verdict where it is fewer sets.
    few = resolution_sentence(300, 10, 3, blocks_per_copy=5)
    assert few.startswith("5 minutes are about 10 blocks of 3 trials, too few for a verdict")
    assert "which takes at least 20 blocks (10 minutes)" in few
    assert "set of copies" not in resolution_sentence(1800, 10, 3)
    # 23 blocks are 4 sets: what they find is what 4 means of 5 find, not what 23 blocks of their own do.
    four, alone = resolution_sentence(700, 10, 3, blocks_per_copy=5), resolution_sentence(700, 10, 3)
    assert "differ from each other by at most 2 %" in four and "by at most 4.1 %" in alone
    assert "it takes 135 blocks, about 68 minutes" in four and "it takes 121 blocks" in alone


@pytest.mark.parametrize(
    ("phase", "ended", "number"),
    [
        ("scanning heap", 0, 1),
        ("vacuuming indexes", 0, 1),
        ("vacuuming heap", 1, 1),
        ("scanning heap", 1, 2),
        ("vacuuming heap", 2, 2),
        ("cleaning up indexes", 1, 1),
        ("truncating heap", 3, 1),
    ],
)
def test_the_pass_of_a_vacuum_is_the_one_that_runs(phase: str, ended: int, number: int) -> None:
    assert pass_number(phase, ended) == number
    shown = progress_words("vacuum", "t", {"phase": phase, "index_vacuum_count": ended})
    assert (f"(pass {number})" in shown) is (number > 1)


def test_large_intervals_have_no_exponent() -> None:
    assert interval_words((1071.4, 1461.2)) == "1,071 to 1,461"
    assert interval_words((0.98765, 12.3456)) == "0.988 to 12.3"
    assert interval_words((None, 12345.0)) == "at most 12,345"
    assert interval_words((None, None)) == "not bounded yet"


@pytest.mark.parametrize(
    ("time_s", "said"), [(100, "1 min 40 s are"), (80, "80 seconds are"), (120, "2 minutes are")]
)
def test_the_time_that_is_told_is_no_more_than_was_given(time_s: float, said: str) -> None:
    assert resolution_sentence(time_s, 6.5, 3).startswith(f"{said} about")
