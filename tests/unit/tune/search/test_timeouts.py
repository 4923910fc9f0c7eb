"""Statements that did not end: their estimated plan made plausible, their limits, and what is told."""

import json
from dataclasses import replace
from typing import cast

import pytest

import tune_samples as samples
from pgassay.environment.server.sessions import ControlSession
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans.explain_plan import read_plans
from pgassay.report.tune.tune_page import page_of
from pgassay.tune.answer.answer_sentences import summary
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import Candidate, StatementRewrite, Symptom, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.proof.effects import Proved, effect_of
from pgassay.tune.proof.proof_arms import AS_IT_IS
from pgassay.tune.rewrites.registry import Rewritten
from pgassay.tune.same_results.check import SameResults
from pgassay.tune.search.selection import (
    STOPPED_S_MIN,
    Baseline,
    FixSelection,
    SelectionStep,
    Tried,
    longest_s,
    total_s,
)
from pgassay.tune.source.origin import time_difference
from pgassay.tune.timeouts.estimated_plan import plausible_execution
from pgassay.tune.timeouts.time_limits import (
    StatementTimeout,
    expected_in_proof,
    first_s,
    may_end_in,
    proof_limits,
    proven_state,
    unsolved,
    wait_as_in_proof,
)
from pgassay.tune.tools import TuneTools, gather

ROWS = {"parts": 20_000.0, "items": 60_000.0}


def node(kind: str, cost: float, rows: float, *plans: dict[str, object], **keys: object) -> dict[str, object]:
    """A node as EXPLAIN (FORMAT JSON) prints it."""
    known: dict[str, object] = {"Node Type": kind, "Startup Cost": 0, "Total Cost": cost, "Plan Rows": rows}
    named = {name.replace("_", " "): value for name, value in keys.items()}
    return {**known, "Plan Width": 8, **named, **({"Plans": list(plans)} if plans else {})}


def estimated(top: dict[str, object]) -> ExplainedPlan:
    return read_plans(json.dumps([{"Plan": top}]), "made")[0]


def laid(top: dict[str, object], seconds: float = 10.0) -> tuple[PlanNode, ...]:
    """The nodes with so many seconds laid over them; what belongs to them adds up to all of it."""
    plan = plausible_execution(estimated(top), seconds, lambda each: ROWS.get(each.relation or ""))
    assert plan.executed and plan.execution_ms == 1000 * seconds
    assert sum(each.own_ms or 0.0 for each in plan.nodes) == pytest.approx(1000 * seconds)
    assert all((each.own_ms or 0.0) >= 0 for each in plan.nodes)
    return plan.nodes


def scan(
    relation: str, cost: float, rows: float, *plans: dict[str, object], **keys: object
) -> dict[str, object]:
    return node(
        "Seq Scan", cost, rows, *plans, Relation_Name=relation, Alias=relation, Filter="(x = 1)", **keys
    )


def test_a_subplan_that_is_asked_for_each_row_gets_the_time() -> None:
    """As PostgreSQL 18 plans it: 20,000 times 1,250 units."""
    below = scan("items", 1250, 3, Parent_Relationship="SubPlan", Subplan_Name="SubPlan 1")
    top, inner = laid(scan("parts", 25_000_339, 6667, below) | {"Filter": "(size > (SubPlan 1))"})
    assert inner.loops == 20_000 and (inner.rows, inner.rows_removed) == (3, 59_997)
    assert inner.own_ms == pytest.approx(10_000, rel=0.01) and (top.own_ms or 0) < 10
    assert (top.loops, top.rows, top.rows_removed) == (1, 6667, 13_333)


def test_a_hashed_subplan_and_an_init_plan_run_once() -> None:
    below = scan("items", 900, 60_000, Parent_Relationship="SubPlan", Subplan_Name="SubPlan 1")
    (top, inner) = laid(
        scan("parts", 1000, 6667, below) | {"Filter": "(NOT (ANY (id = (hashed SubPlan 1).col1)))"}
    )
    assert inner.loops == 1 and inner.own_ms == pytest.approx(9000) and top.own_ms == pytest.approx(1000)
    (_, first) = laid(scan("parts", 1000, 6667, below | {"Subplan Name": "InitPlan 1"}))
    assert first.loops == 1


def test_the_inner_side_of_a_nested_loop_runs_for_each_row_of_the_outer_one() -> None:
    outer, inner = scan("parts", 400, 100), scan("items", 1000, 30)
    (_, first, second) = laid(node("Nested Loop", 100_500, 3000, outer, inner))
    assert (first.loops, second.loops) == (1, 100)
    assert second.own_ms == pytest.approx(10_000 * 100_000 / 100_500)
    # What is kept is made once, and gone through as often.
    kept = node("Materialize", 1150, 30, scan("items", 1000, 30))
    (_, _, above, below) = laid(node("Nested Loop", 2000, 3000, outer, kept))
    assert (above.loops, below.loops) == (100, 1)


def test_what_costs_more_than_the_node_above_is_cut_to_it() -> None:
    (top, below) = laid(node("Limit", 10, 1, scan("items", 1000, 60_000)))
    assert (top.own_ms, below.own_ms, below.loops) == (0, 10_000, 1)
    # A semi join stops at the first match: its inner side runs less often than there are rows outside.
    outer, inner = scan("parts", 400, 20_000), scan("items", 1000, 30)
    (_, _, second) = laid(node("Nested Loop", 10_400, 3000, outer, inner, Join_Type="Semi"))
    assert 1 <= (second.loops or 0) < 20_000


def test_processes_share_a_table_and_the_time_is_that_of_one() -> None:
    part = scan("items", 900, 10, **{"Parallel Aware": True})
    (_, below) = laid(node("Gather", 1000, 30, part, Workers_Planned=2))
    assert (below.processes, below.loops) == (3, 3)
    assert below.own_ms == pytest.approx(9000) and below.processes_ms == pytest.approx(27_000)
    assert below.rows_removed == pytest.approx(60_000 / 3 - 10)


def test_a_statement_is_given_more_only_where_it_may_end_in_it() -> None:
    assert (first_s(10), first_s(360), first_s(1)) == (2, 36, 1)
    cheap, dear = estimated(scan("items", 1e6, 1)), estimated(scan("items", 1e9, 1))
    ended = {"quick": (0.01, estimated(scan("parts", 1000, 1)))}
    assert may_end_in(10, cheap, ended) and not may_end_in(9, cheap, ended)
    assert may_end_in(4, cheap, {}) and not may_end_in(48, dear, {})


def test_it_is_executed_again_where_its_cost_fell_clearly_or_costs_do_not_compare() -> None:
    waiting = StatementTimeout(5.0, estimated(scan("items", 1000, 1)))
    index = [samples.candidate("one")]
    by_index = node("Index Scan", 400, 1, Relation_Name="items", Index_Name="i")
    assert waiting.may_end(estimated(by_index), index)
    assert not waiting.may_end(estimated(by_index | {"Total Cost": 600}), index)
    assert not waiting.may_end(estimated(scan("items", 10, 1)), index), "the same plan takes as long"
    # With other statistics a plan that costs more may be the one that ends.
    dearer = estimated(by_index | {"Total Cost": 5000})
    assert waiting.may_end(dearer, [samples.candidate("two", sql=("ANALYZE items",))])
    assert waiting.may_end(dearer, [samples.candidate("three", sql=(), settings={"work_mem": "1GB"})])


def test_once_it_ended_it_is_stopped_early_with_the_other_candidates() -> None:
    base, weights = {"list": 30.0}, {"list": 1.0}
    # Nothing made it end: every candidate has as long as it was waited for.
    assert longest_s(weights, base, base, 1.03) == {}
    assert longest_s(weights, base, {"list": 4.0}, 1.03) == {"list": 5 * 4.0}
    assert longest_s(weights, base, {"list": 0.01}, 1.03) == {"list": STOPPED_S_MIN}


SECONDS = {"list": 5.0, "report": 0.5, "place": 5.0}
ENDLESS = replace(samples.BASELINE, seconds=SECONDS, endless=("list", "place"))
CHOSEN = FixSelection((SelectionStep("index:good", 5.51, {"list": 0.01, "report": 0.5, "place": 5.0}),), {})


def test_the_proof_stops_an_endless_statement_early_and_leaves_out_what_nothing_mends() -> None:
    chosen = CHOSEN.steps[0].seconds
    assert unsolved(ENDLESS.endless, SECONDS, chosen) == ("place",)
    assert unsolved(ENDLESS.endless, SECONDS, {}) == ("list", "place")
    # A second at least, ten times what it takes now, or as much as the others weigh.
    assert proof_limits(("list",), {"list": 5.0}, {"list": 0.01}) == {"list": 1.0}
    assert proof_limits(("list",), {"list": 5.0}, {"list": 0.3}) == {"list": 3.0}
    assert proof_limits(("list",), {"list": 5.0, "b": 2.5}, {"list": 0.01, "b": 2.49}) == {"list": 2.5}
    # Never longer than the search waited, but where noise alone would stop the chosen set.
    assert proof_limits(("list",), {"list": 5.0}, {"list": 1.0}) == {"list": 5.0}
    assert proof_limits(("list",), {"list": 5.0}, {"list": 4.0}) == {"list": 12.0}
    baseline, selection = proven_state(ENDLESS, CHOSEN)
    assert baseline.seconds == {"list": 1.0, "report": 0.5} and baseline.endless == ("list",)
    assert [each.name for each in baseline.statements] == ["list", "report"]
    assert selection.steps[0].seconds == {"list": 0.01, "report": 0.5}
    assert selection.steps[0].total_s == total_s(baseline.weights, selection.steps[0].seconds)
    assert proven_state(ENDLESS, selection)[0].seconds == baseline.seconds, "the second time changes nothing"
    waiting = {name: StatementTimeout(5.0, estimated(scan("items", 1, 1))) for name in ENDLESS.endless}
    wait_as_in_proof(waiting, baseline)
    assert [waiting[name].limit_s for name in ("list", "place")] == [1.0, 5.0]
    assert expected_in_proof(ENDLESS) == {"list": 1.0, "report": 0.5, "place": 1.0}
    assert proven_state(samples.BASELINE, CHOSEN) == (samples.BASELINE, CHOSEN)


def test_a_gain_over_what_was_stopped_is_a_lower_bound() -> None:
    result = samples.judged().proved
    assert result is not None
    bounded = effect_of(result.result, AS_IT_IS, {"list": 1.0})
    assert bounded.at_least and bounded.word == "slower"
    assert bounded.interval is not None and bounded.interval[1] is None
    assert bounded.interval[0] == pytest.approx(1 / 0.3)
    of_list, of_place = bounded.statements
    assert (of_list.at_least, of_list.waited_s) == (True, 1.0) and (of_place.at_least, of_place.waited_s) == (
        False,
        None,
    )
    assert of_list.interval == (pytest.approx(1 / 0.12), None) and of_place.interval != (None, None)
    # That a set is as fast without a fix, or faster, can't be said of one that was stopped.
    for word in ("equivalent", "faster"):
        made = samples.proved("good", words={"good": word})
        name = "without index:good"
        assert effect_of(made.result, name).word == word
        assert effect_of(made.result, name, {"list": 1.0}).word == "inconclusive"


def endless_judged(**changes: object) -> samples.FoundAndProved:
    tried = {
        "index:good": Tried("index:good", {"list": 0.01, "place": 5.0}, 2.5, 8192),
        "index:second": Tried("index:second", {"list": 2.5}, 2.5, 8192, on_top=True),
    }
    made = samples.judged().proved
    assert made is not None
    together = effect_of(made.result, AS_IT_IS, {"list": 1.0})
    return samples.judged(
        **{
            "baseline": ENDLESS,
            "candidates": (samples.candidate("good"), samples.candidate("second")),
            **samples.searched(tried=tried, selection=CHOSEN),
            "proved": Proved(made.result, together, {"index:good": together}),
            **changes,
        }
    )


def test_the_answer_says_what_is_a_bound_and_that_rows_could_not_be_compared() -> None:
    known = endless_judged()
    best, second = ranked(known)
    assert (best.id, best.verdict, best.at_least) == ("index:good", "recommended", True)
    assert best.same_results == "not checked: list did not finish before"
    assert second.verdict == "not needed" and not second.at_least, "on top it ended without this one as well"
    # Only tried: what did not end with it either is not told as a ratio.
    (alone, _) = ranked(endless_judged(proved=None))
    assert alone.at_least and [(each.name, each.ratio) for each in alone.statements] == [("list", 500.0)]
    answered = samples.answer(known)
    proof, statements = answered.proof, answered.statements
    assert proof is not None and proof.at_least
    told = summary((best,), proof, 10.5, statements=statements, margin=0.03, endless={"place": 5.0})
    assert "Proven: list at least 8.33 × as fast." in told and "list never finished without them." in told
    assert "Did not finish with any fix that was tried: place (5.000 s);" in told
    told = summary((best,), proof, 10.5, margin=0.03, endless={"place": 5.0}, ended_unproven=["place"])
    assert "Finished only with unproven fixes: place." in told and "Did not finish with" not in told
    both = {"place": 5.0, "list": 6.0}
    told = summary((best,), proof, 10.5, margin=0.03, endless=both, never_tried=["list"])
    assert "Did not finish with any fix that was tried: place (5.000 s);" in told
    assert "Did not finish, and no fix was tried that concerns it: list (6.000 s);" in told
    # Nothing helped: that is not the same as nothing to do.
    nothing = summary((second,), None, 10.5, margin=0.03, endless={"list": 5.0, "place": 5.0})
    assert "Nothing to do" not in nothing and "list (5.000 s), place (5.000 s)" in nothing


def test_reports_say_more_than_and_above() -> None:
    result = samples.answer(endless_judged())
    first, *others = result.symptom.statements
    symptom = result.symptom.model_copy(
        update={"at_least": True, "statements": (first.model_copy(update={"at_least": True}), *others)}
    )
    text = page_of(result.model_copy(update={"symptom": symptom})).markdown()
    assert "more than 1.600 s" in text and "| list | more than 1.000 s |" in text
    assert "| over 4 × | at least 3.33 |" in text
    # The time with the fixes follows from how long the proof waited, and not from the search's time.
    waited = result.proof.statements[0].model_copy(update={"waited_s": 0.5}) if result.proof else None
    assert waited is not None and waited.at_least
    shorter = result.proof.model_copy(update={"statements": (waited,)}) if result.proof else None
    # As an answer that was stored before has no table of its statements.
    stored = {"symptom": symptom, "proof": shorter, "statements": ()}
    text = page_of(result.model_copy(update=stored)).markdown()
    assert "| list | more than 1.000 s | 50.0 ms | over 10 × |" in text


FACTS = SchemaFacts(version=180000, database="shop", encoding="UTF8", collation="C")


def test_candidates_say_that_they_rest_on_an_estimate_and_rewrites_are_not_run_on_the_data() -> None:
    asked: list[bool] = []

    def same(*_given: object, on_data: bool = True, **_named: object) -> SameResults:
        asked.append(on_data)
        return SameResults("equal", "", instances=40)

    def rewrites(statement: TunedStatement, _facts: SchemaFacts) -> Rewritten:
        other = StatementRewrite(statement=statement.name, sql="SELECT 1", condition="", proof="by test")
        return Rewritten(found=(other,))

    def find(_symptom: Symptom) -> tuple[Candidate, ...]:
        return samples.candidate("one"), samples.candidate("two", statements=("list", "report"))

    symptom = Symptom(samples.STATEMENTS[:2], {}, FACTS, {}, endless=frozenset({"list"}))
    found = gather(TuneTools(lambda _: FACTS, find, rewrites, same), symptom, cast(ControlSession, None))
    reasons = {each.id: each.reason for each in found.candidates}
    assert reasons["index:one"].startswith("by the planner's estimate: 999 rows")
    assert reasons["index:two"].startswith("999 rows")
    assert sorted(asked) == [False, True]


def test_a_statement_that_ended_on_the_source_alone_may_be_the_same() -> None:
    assert time_difference(3_600_000, [5000]) and not time_difference(3_600_000, [5000], at_least=True)
    assert "5.000 s and more on the copy" in time_difference(100, [5000], at_least=True)
    assert Baseline((), {}, {}).endless == ()
