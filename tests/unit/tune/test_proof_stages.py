"""Two stages of a proof: what the first leaves of a set is recommended by the second alone."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

import tune_samples as samples
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.stopping_rules import standing_of
from pgassay.model.result import CompareResult
from pgassay.model.tuning.tune_answer import Fix, FixStatement
from pgassay.record.experiment import StoredExperiment
from pgassay.tune.answer.proof_verdict import HIDDEN, NOT_CONFIRMED
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.proof.effects import (
    Effect,
    Proved,
    does_not_help,
    effect_of,
    remaining_of,
    without_redundant_fix,
)
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, FACTOR, SharedArms, without
from pgassay.tune.proof.stages import alpha_of, open_arms

NAMES = ("good", "second", "third")
IDS = tuple(f"index:{name}" for name in NAMES)
TWO_FELL = {"second": "equivalent", "third": "faster"}


def answered(first: Proved, confirmed: Proved | None = None) -> dict[str, Fix]:
    """The fixes by name, as they are judged of a set of three."""
    known = samples.judged(
        candidates=tuple(samples.candidate(name) for name in NAMES),
        members=IDS,
        proved=first,
        remaining=remaining_of(first, 0.03),
        confirmed=confirmed,
    )
    return {fix.id.removeprefix("index:"): fix for fix in ranked(known)}


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ({}, ()),
        ({"second": "equivalent"}, ()),
        (TWO_FELL, ("index:good",)),
        ({"second": "equivalent", "third": "inconclusive"}, ()),
        ({"good": "inconclusive", **TWO_FELL}, ("index:good",)),
        ({"good": "equivalent", **TWO_FELL}, ()),
    ],
)
def test_only_a_set_that_lost_two_members_and_kept_one_was_measured_nowhere(
    words: dict[str, str], left: tuple[str, ...]
) -> None:
    assert remaining_of(samples.proved(*NAMES, words=words), 0.03) == left


def test_a_member_that_gains_less_than_matters_does_not_help_either() -> None:
    first = samples.proved(*NAMES, words={"second": "equivalent"})
    assert remaining_of(first, 0.03) == ()
    assert remaining_of(first, 10.0) == ()  # none of them gains so much: nothing is left


def test_what_gains_less_than_matters_by_its_estimate_does_not_help() -> None:
    """A proof ends when its interval leaves 1, which may still reach beyond the margin."""
    assert does_not_help(Effect(1.02, (1.001, 1.04), "slower"), 0.03)
    assert not does_not_help(Effect(1.04, (1.001, 1.08), "slower"), 0.03)
    # Where a statement was stopped the gain is at least that.
    assert not does_not_help(Effect(1.02, (1.001, None), "slower", at_least=True), 0.03)


def test_what_is_left_is_not_recommended_before_it_was_measured_as_it_would_be_applied() -> None:
    fixes = answered(samples.proved(*NAMES, words=TWO_FELL))
    assert {name: fix.verdict for name, fix in fixes.items()} == {
        "good": "not decided", "second": "no help", "third": "worse",
    }  # fmt: skip
    assert fixes["good"].note == NOT_CONFIRMED
    assert fixes["good"].interval is None


@pytest.mark.parametrize(
    ("word", "verdict"),
    [("slower", "recommended"), ("equivalent", "no help"), ("inconclusive", "not decided")],
)
def test_the_second_stage_has_the_last_word_on_what_is_left(word: str, verdict: str) -> None:
    first = samples.proved(*NAMES, words=TWO_FELL)
    fixes = answered(first, samples.proved("good", words={"good": word}))
    assert fixes["good"].verdict == verdict
    assert (fixes["second"].verdict, fixes["third"].verdict) == ("no help", "worse")


def test_both_stages_together_have_the_error_rate_of_one() -> None:
    """Sets of two members and fewer never have a second stage."""
    assert [alpha_of(members) for members in (1, 2)] == [CompareRequest.alpha] * 2
    assert [2 * alpha_of(members) for members in (3, 5)] == [CompareRequest.alpha] * 2


def test_of_two_that_hide_each_others_gain_one_stays_for_the_second_stage() -> None:
    """The set is as fast without either, and without both nobody knows."""
    first = samples.proved(*NAMES, words={"second": "equivalent", "third": "equivalent"})
    alike = {"index:good": {"report"}, "index:second": {"list", "place"}, "index:third": {"list"}}
    assert remaining_of(first, 0.03, alike) == ("index:good", "index:second")
    apart = alike | {"index:third": {"place [2]"}}
    assert remaining_of(first, 0.03, apart) == ("index:good",)
    # What makes the set slower is missed by nobody.
    slower = samples.proved(*NAMES, words={"second": "faster", "third": "equivalent"})
    assert remaining_of(slower, 0.03, alike) == ("index:good",)
    none = samples.proved(*NAMES, words=dict.fromkeys(NAMES, "equivalent"))
    assert remaining_of(none, 0.03, {name: {"list"} for name in IDS}) == ("index:good",)


def test_of_a_set_of_two_that_is_fast_with_either_one_is_recommended() -> None:
    """The set without one of them is the other alone: what that gains follows from both arms."""
    words = {"good": "equivalent", "second": "equivalent"}
    both = without_redundant_fix(samples.proved("good", "second", words=words), 0.03)
    known = samples.judged(members=IDS[:2], proved=both)
    fixes = {fix.id: fix for fix in ranked(known)}
    good, second = fixes["index:good"], fixes["index:second"]
    assert (good.verdict, second.verdict) == ("recommended", "no help")
    assert good.gain == pytest.approx(4.0)
    assert good.interval == (pytest.approx(1 / 0.3 * 0.99), pytest.approx(1 / 0.2 * 1.01))
    assert "gains the same without 'index second'" in good.note
    # A set that gains nothing has nothing to be told apart.
    helps = samples.proved("good", "second", words={"second": "equivalent"})
    assert without_redundant_fix(helps, 0.03) is helps


def test_what_only_the_set_of_two_was_found_to_make_faster_is_not_proven_of_one() -> None:
    """Of list both make at least 1.12 together, and one alone perhaps nothing."""
    together = Effect(
        1.15, (1.08, 1.22), "slower", (FixStatement(name="list", ratio=1.25, interval=(1.12, 1.4)),),
        sped=("list",),
    )  # fmt: skip
    alone = FixStatement(name="list", ratio=1.0, interval=(0.85, 1.2))
    missed = Effect(1.0, (0.9, 1.1), "equivalent", (alone,))
    proof = replace(
        samples.proved("good", "second"), together=together, members=dict.fromkeys(IDS[:2], missed)
    )
    known = samples.judged(members=IDS[:2], proved=without_redundant_fix(proof, 0.03))
    said = {fix.id: (fix.verdict, fix.note) for fix in ranked(known)}
    assert {said[name] for name in IDS[:2]} == {("not decided", HIDDEN)}


def test_a_set_that_gains_and_misses_none_of_its_members_is_not_called_no_help() -> None:
    fixes = answered(samples.proved(*NAMES, words=dict.fromkeys(NAMES, "equivalent")))
    assert {(fix.verdict, fix.note) for fix in fixes.values()} == {("not decided", HIDDEN)}


def test_a_statement_that_was_stopped_with_the_chosen_set_too_proves_no_gain() -> None:
    """What the set takes is longer than what was measured, so it gains less than that."""
    result = samples.proved("good").result
    effect = effect_of(result, AS_IT_IS, {"list": 5.0}, {"list": 5.0})
    assert (effect.word, effect.at_least, effect.interval) == ("inconclusive", False, (None, None))
    known = samples.judged(members=("index:good",), proved=Proved(result, effect, {"index:good": effect}))
    fix = next(each for each in ranked(known) if each.id == "index:good")
    assert (fix.verdict, fix.at_least) == ("not decided", False)
    assert fix.note.startswith("list was stopped in trials with all chosen fixes")
    (stopped,) = [each for each in effect.statements if each.name == "list"]
    assert (stopped.at_least, stopped.interval) == (False, (None, None))
    # In the set alone: it gains that much at most.
    effect = effect_of(result, without(samples.candidate("good")), None, {"list": 5.0})
    assert effect.word == "inconclusive"
    assert effect.interval == (None, pytest.approx(1 / 0.4))
    slower = effect_of(
        samples.proved("good", words={"good": "faster"}).result, without(samples.candidate("good")), None,
        {"list": 5.0},
    )  # fmt: skip
    assert slower.word == "faster"


@pytest.mark.parametrize(
    ("name", "after_s", "verdict"),
    [
        # 0.1 ms more for each write, for a list that takes 0.9 s less.
        ("place", 0.0002, "recommended"),
        # 10 s more for each write.
        ("place", 20.0, "not decided"),
        # What only reads must not get slower, whatever others gain.
        ("report", 0.0002, "not decided"),
    ],
)
def test_a_write_that_maintains_an_index_is_a_price_where_all_take_less_time_together(
    name: str, after_s: float, verdict: str
) -> None:
    faster = FixStatement(name="list", ratio=10.0, interval=(8.0, 12.0), after_s=0.1)
    slower = FixStatement(name=name, ratio=0.5, interval=(0.4, 0.6), after_s=after_s)
    effect = Effect(2.0, (1.5, 3.0), "slower", (faster, slower), (name,), sped=("list",))
    proved = replace(samples.proved("good"), members={"index:good": effect})
    known = samples.judged(candidates=(samples.candidate("good"),), members=("index:good",), proved=proved)
    (fix,) = ranked(known)
    assert fix.verdict == verdict
    by = f"{name} 2 × as slow (between 1.67 and 2.5 × as slow)"
    assert (f"its price: {by}; weighted by calls" in fix.note) is (verdict == "recommended")
    assert by in fix.note
    assert ("you decide" in fix.note) is (verdict != "recommended")


@pytest.mark.parametrize(
    ("after_s", "ends", "verdict"),
    [
        # 0.05 s more for each report, for a list that takes 0.9 s less.
        (1.0, (0.93, 0.97), "recommended"),
        # At least 1.5 s more.
        (50.0, (0.93, 0.97), "not decided"),
        # Perhaps 3.5 s more, and perhaps nothing: that all take longer together is not proven.
        (50.0, (0.93, 0.999), "recommended"),
        (None, (0.93, 0.97), "recommended"),
    ],
)
@pytest.mark.parametrize("is_sped", [True, False])
def test_what_costs_more_than_it_saves_is_not_recommended_however_little_each_statement_loses(
    after_s: float | None, ends: tuple[float, float], verdict: str, *, is_sped: bool
) -> None:
    faster = FixStatement(name="list", ratio=10.0, interval=(8.0, 12.0), after_s=0.1)
    slower = FixStatement(name="report", ratio=0.95, interval=ends, after_s=after_s)
    sped = ("list",) if is_sped else ()
    effect = Effect(2.0, (1.5, 3.0), "slower", (faster, slower), ("report",), sped=sped)
    proved = replace(samples.proved("good"), members={"index:good": effect})
    known = samples.judged(candidates=(samples.candidate("good"),), members=("index:good",), proved=proved)
    (fix,) = ranked(known)
    assert fix.verdict == verdict
    assert "report 5 % slower (between " in fix.note
    assert ("costs more than it saves" in fix.note) is (verdict != "recommended")


def test_what_is_worse_says_which_statement_it_makes_slower_and_by_how_much() -> None:
    lost = FixStatement(name="place", ratio=0.5, interval=(0.4, 0.6), after_s=0.2)
    effect = Effect(0.5, (0.4, 0.6), "faster", (lost,), ("place",))
    proved = replace(samples.proved("good"), members={"index:good": effect})
    known = samples.judged(candidates=(samples.candidate("good"),), members=("index:good",), proved=proved)
    (fix,) = ranked(known)
    assert (fix.verdict, fix.note) == (
        "worse", "it makes place 2 × as slow (between 1.67 and 2.5 × as slow)"
    )  # fmt: skip


def of_two_members(report: tuple[float, float, float, str]) -> tuple[CompareResult, StoredExperiment]:
    """A proof in one server whose set is decided by one of two statements; the other one's arm as it is."""
    whole = samples.arm(AS_IT_IS, 0.1, 0.09, 0.11, "slower")
    result = samples.compared((whole,), {"list": (whole,), "report": (samples.arm(AS_IT_IS, *report),)})
    arms = tuple(
        SimpleNamespace(id=name, role=role, name=f"fixes={name}", stratum="", levels={FACTOR: name})
        for name, role in ((CHOSEN, "control"), (AS_IT_IS, "arm"))
    )
    contract = SimpleNamespace(weights={}, metric=SimpleNamespace(bound_ms=0), decide="arms")
    protocol = SimpleNamespace(statement_limits={})
    design = SimpleNamespace(decided_rest=False)
    experiment = SimpleNamespace(arms=arms, contract=contract, protocol=protocol, design=design)
    return result, cast(StoredExperiment, SimpleNamespace(experiment=experiment, trials=(), block_plans={}))


@pytest.mark.parametrize(
    ("report", "is_open"),
    [
        # Eight times as fast, and not known to be: what is left of the time is for it.
        ((0.125, 0.009, 1.75, "inconclusive"), True),
        ((0.125, 0.1, 0.15, "slower"), False),
        ((1.0, 0.98, 1.02, "equivalent"), False),
        # What gains little may never leave the margin.
        ((0.88, 0.7, 1.1, "inconclusive"), False),
    ],
)
def test_a_proof_goes_on_while_a_member_that_gains_has_no_verdict(
    report: tuple[float, float, float, str], is_open: bool
) -> None:
    shared = SharedArms(
        left_out={CHOSEN: (), AS_IT_IS: IDS[:2]},
        told_by=dict.fromkeys(IDS[:2], AS_IT_IS),
        touched={IDS[0]: ("list",), IDS[1]: ("report",)},
        written=dict.fromkeys(IDS[:2], ()),
    )
    result, stored = of_two_members(report)
    members = [samples.candidate(name) for name in NAMES[:2]]
    wanted = open_arms(members, shared)
    assert {*wanted(result, stored)} == ({AS_IT_IS} if is_open else set())
    assert standing_of(stored, result, wanted)[0] == ("" if is_open else "decided")
    # One server for each arm tells the same of a set of one.
    alone = open_arms(members[:1], None)
    assert not {*alone(result, stored)}
