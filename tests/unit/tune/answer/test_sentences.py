"""What the answer says in sentences: nothing to do where that was shown, what is slower, what is untried."""

import json
import math
from dataclasses import replace

import pytest

import tune_samples as samples
from pgassay.model.tuning.source import SourceLeftOut, TuneSource
from pgassay.model.tuning.tune_answer import Fix
from pgassay.report.tune import tune_page
from pgassay.tune.answer.answer_sentences import has_nothing_to_do, summary, unread
from pgassay.tune.answer.proof_verdict import NOT_TOLD, FoundAndProved
from pgassay.tune.answer.verdicts import ALONE, APART, BESIDE, NO_TIME, OF_THE_SEARCH, ranked
from pgassay.tune.proof.effects import Proved
from pgassay.tune.search.selection import FixSelection, SelectionStep, Tried


def of_two(beside: dict[str, float], word: str) -> dict[str, Fix]:
    """Both helped alone and `good` was chosen, of which its proof says `word`."""
    searched = samples.searched(
        tried={f"index:{name}": Tried(f"index:{name}", {"list": 0.1}) for name in ("good", "second")},
        selection=FixSelection((SelectionStep("index:good", 0.7, {"list": 0.1}),), beside),
    )
    known = samples.judged(
        candidates=(samples.candidate("good"), samples.candidate("second")),
        **searched,
        proved=samples.proved("good", words={"good": word}),
    )
    return {fix.id.removeprefix("index:"): fix for fix in ranked(known)}


@pytest.mark.parametrize(
    ("beside", "word", "verdict", "note"),
    [
        ({"index:second": 1.0}, "slower", "not needed", BESIDE),
        ({"index:second": 1.0}, "inconclusive", "not needed", BESIDE),
        # It takes the place of one that the proof refuted, and was never refuted itself.
        ({"index:second": 1.0}, "equivalent", "not decided", OF_THE_SEARCH),
        ({}, "slower", "not needed", f"{APART}, which gains more"),
        ({}, "equivalent", "not decided", f"{APART}, part of which does not help"),
        ({}, "faster", "not decided", f"{APART}, part of which does not help"),
    ],
)
def test_what_was_passed_over_is_refuted_only_by_what_stands_in_its_place(
    beside: dict[str, float], word: str, verdict: str, note: str
) -> None:
    fixes = of_two(beside, word)
    assert (fixes["second"].verdict, fixes["second"].note) == (verdict, note)
    said = summary(tuple(fixes.values()), None, 1.6, margin=0.03)
    assert "Nothing to do" not in said or verdict == "not needed"


def test_what_helped_alone_before_it_was_stopped_is_not_passed_over() -> None:
    """Ctrl-C while candidates are tried: nothing is chosen yet."""
    searched = samples.searched(tried={"index:useless": Tried("index:useless", {"list": 0.1})})
    fix = only(samples.of_one(**searched))
    assert (fix.verdict, fix.note) == ("not decided", ALONE)
    said = summary((fix,), None, 1.6, margin=0.03, is_interrupted=True)
    assert said.startswith("Nothing is proven: so far list is 10 × as fast with index useless.")


def only(known: FoundAndProved) -> Fix:
    (fix,) = ranked(known)
    return fix


@pytest.mark.parametrize(
    "changes",
    [
        samples.searched(tried={"index:useless": Tried("index:useless", refused="no space left")}),
        samples.searched(left_out={"index:useless": "a dump does not preserve what this fixes"}),
        samples.searched(unsafe={"index:useless": "not checked: it exceeded its time limit"}),
    ],
)
def test_what_could_not_be_tried_leaves_open_whether_there_is_something_to_do(
    changes: dict[str, object],
) -> None:
    fixes = (only(samples.of_one(**changes)),)
    assert not has_nothing_to_do(fixes)
    assert summary(fixes, None, 1.6, margin=0.03) == (
        "Nothing is recommended: 1 of 1 candidate was not tried, for the reason in its note."
    )


@pytest.mark.parametrize(("share", "is_told"), [(0.75, True), (0.05, False)])
def test_what_was_left_out_for_want_of_a_right_comes_first(share: float, is_told: bool) -> None:
    grant = "the role app may not read the tables: type GRANT pg_read_all_data TO app there"
    left = [
        SourceLeftOut(name="a", sql="SELECT $1", share=share, reason=f"$1: no value is known; {grant}"),
        SourceLeftOut(name="b", sql="SELECT $1", share=0.2, reason="$1: no value is known"),
    ]
    told = TuneSource(name="db", version="17", seconds=1, statements=3, share=0.25, left_out=tuple(left))
    sentence = f"1 statement with 75 % of the time was left out: {grant}. "
    assert unread(told) == (sentence if is_told else "") and unread(None) == ""


def test_what_the_planner_passes_over_needs_nothing() -> None:
    unused = {"index:useless": "with it in place, the planner uses it in no statement"}
    fixes = (only(samples.of_one(**samples.searched(screened=unused))),)
    assert has_nothing_to_do(fixes)
    assert summary(fixes, None, 1.6, margin=0.03).startswith("Nothing to do: ")


def test_what_was_stopped_before_it_looked_has_not_shown_that_nothing_is_to_be_done() -> None:
    assert not has_nothing_to_do((), is_interrupted=True)
    said = summary((), None, 1.6, margin=0.03, is_interrupted=True)
    assert said == "Nothing is recommended: it was stopped before anything was tried."


def test_a_statement_that_looks_slower_is_told_before_it_is_proven() -> None:
    """A proof ends once the whole is decided: one of many statements takes more blocks than that."""
    answer = samples.answer()
    assert answer.proof is not None
    proof = answer.proof.model_copy(update={"slower": ()})
    said = summary(answer.fixes, proof, 1.6, margin=0.03)
    assert "Looked slower with them, which is not proven: place (20 % slower)." in said
    assert "Looked slower" not in summary(answer.fixes, answer.proof, 1.6, margin=0.03)


def test_a_write_that_was_stopped_with_a_fix_is_not_called_as_fast_as_before() -> None:
    tried = Tried(
        "index:useless", {"place": math.inf}, 1.0, 8192, with_s=(math.inf,) * 4, without_s=(1.0,) * 4
    )
    fix = only(samples.of_one(**samples.searched(tried={"index:useless": tried})))
    assert (fix.verdict, fix.cost.write_ratio) == ("worse", None)
    assert fix.note == "place took so long with it that it was stopped"


def test_a_member_whose_trials_failed_says_where_the_reason_stands() -> None:
    """As an insert of a row that an index has no place for: no block is whole, and more time is no remedy."""
    first = samples.proved("good")
    nothing = replace(first.members["index:good"], gain=None, interval=None, word="inconclusive")
    result = first.result.model_copy(update={"stopped": "failed"})
    failed = Proved(result, nothing, {"index:good": nothing})
    known = samples.of_one(candidates=(samples.candidate("good"),), members=("index:good",), proved=failed)
    fix = only(known)
    assert (fix.verdict, fix.note) == (
        "not decided",
        "it was chosen, and its trials failed: the warnings say why",
    )


def test_what_was_not_measured_of_a_gain_is_told() -> None:
    tried = Tried("index:useless", {"list": 0.1}, 1.0, 8192, stopped=("report",))
    fix = only(samples.of_one(**samples.searched(tried={"index:useless": tried})))
    assert "its gain excludes report, which another fix makes much faster" in fix.note


def test_a_time_of_nothing_makes_no_figure_that_json_does_not_have() -> None:
    tried = Tried("index:useless", {"list": 0.0, "report": 0.5}, 1.0, 8192)
    answer = samples.answer(samples.of_one(**samples.searched(tried={"index:useless": tried})))
    assert [each.name for each in answer.fixes[0].statements] == ["report"]
    assert "null" not in json.dumps(
        json.loads(tune_page.page_of(answer).json())["fixes"][0]["statements"][0]["ratio"]
    )


def test_what_helps_and_looked_slower_in_all_is_not_called_nothing_to_do() -> None:
    fix = ranked(samples.judged(proved=None))[0].model_copy(
        update={"verdict": "no help", "gain": 10.9, "note": NOT_TOLD, "title": "Index on tickets(customer)"}
    )
    told = summary([fix], None, 5.6, margin=0.05)
    assert told.startswith("Nothing is recommended: 'Index on tickets(customer)' makes what it helps 10.9 × ")
    assert "try again on a quieter machine" in told and "next best" not in told
    told = summary([fix.model_copy(update={"gain": 1271.4})], None, 5.6, margin=0.05)
    assert "makes what it helps 1,271 × as fast, but looked" in told
    told = summary([fix.model_copy(update={"gain": 1.01})], None, 5.6, margin=0.05)
    assert told.startswith("Nothing to do: ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ({"list": 0.1, "place": 3.0}, "'index harmful' makes list 10 × as fast, but place 30 × as slow"),
        (
            {"list": 0.1, "place": math.inf},
            "'index harmful' makes list 10 × as fast, but place so slow that it was stopped",
        ),
        (
            {"list": 0.1, "place": 0.105},
            "'index harmful' makes list 10 × as fast, but all statements together slower",
        ),
        ({"list": 2.0, "place": 0.1}, ""),
        ({"list": 0.95, "place": 3.0}, ""),
    ],
)
@pytest.mark.parametrize("others", [(), ("useless",)])
def test_what_helps_one_statement_and_costs_another_more_is_not_called_nothing_to_do(
    seconds: dict[str, float], said: str, others: tuple[str, ...]
) -> None:
    harmful = Tried("index:harmful", seconds, 1.0, 8192, **samples.SLOWER)
    useless = Tried("index:useless", {"list": 0.99}, 1.0, 8192)
    names = ("harmful", *others)
    known = samples.judged(
        candidates=tuple(samples.candidate(name) for name in names),
        **samples.searched(
            tried={f"index:{name}": {"harmful": harmful, "useless": useless}[name] for name in names}
        ),
        proved=None,
        unsafe={},
        left_out={},
    )
    fixes = ranked(known)
    told = summary(fixes, None, 1.6, margin=0.03)
    assert {fix.id: fix.verdict for fix in fixes}["index:harmful"] == "worse"
    assert has_nothing_to_do(fixes) == (not said)
    rest = "the next best fix gains less than 3 %"
    if said:
        assert told == f"Nothing is recommended: {said}{f'; {rest}' if others else ''}."
    else:
        assert told == f"Nothing to do: 1.600 s for the whole workload; {rest}."


def test_what_was_seen_and_not_proven_is_told_by_statement() -> None:
    """A user reads the first line: which statement, how much, by what, and what there was no time for."""
    tried = {
        "index:good": Tried("index:good", {"list": 0.002, "place": 0.001}),
        "index:second": Tried("index:second", {"report": 0.1}),
    }
    known = samples.judged(
        candidates=tuple(map(samples.candidate, ("good", "second", "late"))),
        proved=None,
        **samples.searched(tried=tried),
    )
    fixes = ranked(known)
    assert summary(fixes, None, 1.6, margin=0.03, go_on="pgassay tune found") == (
        "Nothing is proven: so far list is 500 × as fast with index good, report is 5 × as fast with index "
        "second; 1 of 3 candidates was not tried in the given time. Continue with pgassay tune found."
    )
    # Sets of values of one statement are one in a sentence.
    of_sets = tuple(
        each.model_copy(update={"name": f"list [{number}]", "ratio": 100.0 * number})
        for number, each in enumerate((fixes[0].statements[0],) * 2, start=1)
    )
    told = summary((fixes[0].model_copy(update={"statements": of_sets}),), None, 1.6, margin=0.03)
    assert told.startswith("Nothing is proven: so far list is 200 × as fast with index good. ")
    # That rows are inserted faster into a table with one more index is chance.
    assert all(each.name != "place" for fix in fixes for each in fix.statements)
    promising = samples.candidate("late", predicted={"list": 0.01})
    untried = samples.judged(
        candidates=(samples.candidate("good"), samples.candidate("second"), promising),
        proved=None,
        **samples.searched(),
    )
    fixes = ranked(untried)
    assert summary(fixes, None, 1.6, margin=0.03).startswith(
        "Nothing is proven: 3 of 3 candidates were not tried in the given time, the most promising "
        "index late, index good and index second. Give a longer"
    )
    told = tune_page.page_of(samples.answer(untried)).terminal(width=200)
    assert "Not tried yet, the most promising first" in told and f"1. index late: {promising.sql[0]};" in told
    assert tune_page._notes(fixes) == [f"1, 2 and 3: {NO_TIME}"]


def test_the_first_line_claims_no_gain_that_rests_on_a_fix_which_is_not_decided() -> None:
    """Met: "all chosen fixes together 10.58 ×", of which one was in no script."""
    answer = samples.answer()
    fast = next(each for each in answer.statements if each.verdict == "faster" and each.ratio)
    fixes = tuple(each for each in answer.fixes if each.verdict == "recommended")
    assert fixes
    rests = fast.model_copy(update={"unproven": ("index other",)})
    assert f"Proven: {fast.name}" in summary(fixes, None, 1.6, margin=0.03, statements=(fast,))
    said = summary(fixes, None, 1.6, margin=0.03, statements=(rests,))
    assert said.startswith("Recommended: ") and "Proven" not in said and "as fast" not in said
