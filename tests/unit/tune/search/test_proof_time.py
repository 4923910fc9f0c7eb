"""How long a proof takes, and what is said where there is too little time for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tune_samples as samples
from pgassay.tune.answer.answer_sentences import summary
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.search.proof_time import (
    BLOCKS_MIN,
    PREDICTION_SHARE,
    PROOF_SHARE,
    SEARCH_SHARE,
    SEARCH_SHARE_MIN,
    TrialTime,
    more_s,
    proof_trials_s,
    provable,
    search_s,
    too_short,
    trial_time,
    typed,
    warnings_to_keep,
)
from pgassay.tune.search.selection import Baseline, FixSelection, SelectionStep
from pgassay.tune.tuned_statements import measured
from pgassay.workloads.registry import parse_workload

BASE = {"list": 2.0, "report": 1.0}
WEIGHTS = dict.fromkeys(BASE, 1.0)
CHOSEN = FixSelection(
    (
        SelectionStep("best", 1.5, {"list": 0.5, "report": 1.0}),
        SelectionStep("next", 1.0, {"list": 0.5, "report": 0.5}),
    )
)


def test_a_proof_takes_its_arms_data_and_six_blocks_of_trials() -> None:
    trial = TrialTime(opened_s=4.0, built_s={"best": 4.0, "next": 1.0})
    # A trial: its checks, the copy's four seconds, and the statements twice. Chosen, twin, as it is.
    assert trial.block_s(CHOSEN, BASE, 1) == pytest.approx(3 * 5 + 2 * (1.5 + 1.5 + 3.0))
    assert trial.data_s(CHOSEN, 1) == pytest.approx(4 + 4)
    assert trial.data_s(CHOSEN, 2) == pytest.approx(3 * (4 + 4 + 1))
    assert trial.proof_s(CHOSEN, BASE, 1) == pytest.approx(8 + 6 * 27)


def test_a_proof_has_room_for_what_is_executed_several_times() -> None:
    selection = FixSelection((SelectionStep("fix", 0.0001, {"a": 0.0001}),))
    assert proof_trials_s(selection, {"a": 0.001}, 1, {"a": 150}) == pytest.approx([0.015, 0.015, 0.15])
    statements = (
        TunedStatement(name="read", sql=""),
        TunedStatement(name="written", sql="", writes=True),
    )
    baseline = Baseline(measured(statements), {"read": 0.25, "written": 0.25}, {})
    full_scan = parse_workload("full-scan")
    several = trial_time(full_scan, 2, baseline, baseline.seconds, 4.0, executions_max=500)
    assert several.executions == {"read": 4}, "a write has other data the second time"
    assert several.proof_of_one_s(baseline.seconds, 1.0) == pytest.approx(
        4 + BLOCKS_MIN * (3 * 5 + 2 * 3 * 1.25)
    )
    # Caches that can't be had again within a trial.
    assert trial_time(full_scan, 2, baseline, baseline.seconds, 4.0, executions_max=1).executions == {}


def test_a_copy_that_takes_long_leaves_time_for_fewer_members() -> None:
    quick, slow = TrialTime(), TrialTime(opened_s=20.0)
    time_s = quick.proof_s(CHOSEN, BASE, 2)
    assert provable(CHOSEN, WEIGHTS, BASE, time_s, quick).ids == ("best", "next")
    fewer = provable(CHOSEN, WEIGHTS, BASE, time_s, slow)
    assert fewer.ids == ("best",) and fewer.beside["next"] == pytest.approx(1.5)


def test_clients_at_once_take_what_their_processors_take() -> None:
    baseline = Baseline((), BASE, {})
    alone = trial_time(parse_workload("full-scan"), 2, baseline, BASE, 4.0)
    assert (alone.executions, alone.at_once) == ({}, 1.0)
    mix = parse_workload("full-scan").model_copy(update={"clients": 8})
    at_once = trial_time(mix, 2, Baseline((), {}, {}), {}, 4.0)
    assert at_once.at_once == 2.0
    counted = TrialTime(4.0, {}, {"list": 3, "report": 3}, 2.0)
    # Three times each, by two processors: as it is 9 s, chosen 4.5 s, and twice for warming.
    assert counted.block_s(CHOSEN, BASE, 1) == pytest.approx(3 * 5 + 2 * 3 * (1.5 + 1.5 + 3.0) / 2)
    assert counted.proof_of_one_s(BASE, 0.0) == pytest.approx(4 + BLOCKS_MIN * (3 * 5 + 2 * 3 * 3.0 / 2))


@given(st.floats(1, 1e5), st.floats(1e-4, 1e4), st.floats(0, 1e3))
def test_the_search_leaves_time_for_a_proof_where_there_is_any(
    left_s: float, statement_s: float, opened_s: float
) -> None:
    base, trial = {"only": statement_s}, TrialTime(opened_s)
    taken = search_s(left_s, base, trial)
    assert SEARCH_SHARE_MIN * left_s <= taken <= SEARCH_SHARE * left_s * (1 + 1e-9)
    after = (left_s - taken) * (1 - PREDICTION_SHARE) * PROOF_SHARE
    if taken > SEARCH_SHARE_MIN * left_s * (1 + 1e-9):
        assert after >= trial.proof_of_one_s(base, 0.5) * (1 - 1e-9)


def test_too_little_time_is_said_at_once_with_the_time_that_suffices() -> None:
    trial = TrialTime(opened_s=1.0)
    baseline = samples.BASELINE
    least_s = trial.proof_of_one_s(baseline.seconds, 0.0)
    assert least_s == pytest.approx(1 + BLOCKS_MIN * (3 * 3 + 2 * 1.6))
    said = too_short(5.0, 20.0, baseline, trial)
    assert said.startswith(
        "nothing can be proven in the 20 s that are left: 4 blocks for one fix take 50s and more"
    )
    assert warnings_to_keep((said, "q did not end in 2 s")) == ("q did not end in 2 s",)
    enough_s = 60 * int(said.rpartition("--max-time ")[2].removesuffix("m"))
    assert too_short(5.0, enough_s - 5.0, baseline, trial) == ""
    # What it names suffices for a fix that gains nothing, after the search has had its whole share.
    left_s = (enough_s - 5.0) * (1 - SEARCH_SHARE) * (1 - PREDICTION_SHARE) * PROOF_SHARE
    assert left_s >= trial.proof_of_one_s(baseline.seconds, 1.0)


@pytest.mark.parametrize(
    ("blocks", "share", "seconds"), [(0, 1.0, 70.0), (2, 1.0, 50.0), (5, 1.0, 60.0), (20, 0.5, 420.0)]
)
def test_going_on_takes_the_blocks_that_miss_and_later_as_many_again(
    blocks: int, share: float, seconds: float
) -> None:
    assert more_s(10.0, 10.0, blocks, share) == pytest.approx(seconds)


@pytest.mark.parametrize(("seconds", "text"), [(0.1, "10s"), (41, "50s"), (111, "2m"), (3601, "61m")])
def test_seconds_are_written_as_the_option_takes_them(seconds: float, text: str) -> None:
    assert typed(seconds) == text


@pytest.mark.parametrize("is_member", [True, False])
def test_what_is_not_proven_in_the_time_is_named_beside_what_is(is_member: bool) -> None:
    fixes = list(ranked(samples.judged()))
    assert fixes[0].verdict == "recommended"
    unproven = {"verdict": "not decided", "evidence": "search", "note": ""}
    fixes[1] = fixes[1].model_copy(update=unproven)
    members = [fix.id for fix in fixes[: 1 + is_member]]
    # What is no member of the family can't be proven by more of its blocks.
    go_on = "pgassay tune found --max-time 4m" if is_member else ""
    said = summary(fixes, None, 1.6, margin=0.03, members=members, go_on=go_on)
    assert f"Not proven in the given time: {fixes[1].title}." in said
    assert said.endswith("Continue with pgassay tune found --max-time 4m.") is is_member
    assert said.endswith("Start again with a longer --max-time to have them proven too.") is not is_member
