"""A made-up tuning: a workload of three statements, candidates, what the search and a proof said of them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from pgassay.model.result import ArmResult, CompareResult, StatementResult, TwinResult
from pgassay.model.tuning.tune_answer import TuneCause, TuneResult, TuneSymptom
from pgassay.model.workload import Metric
from pgassay.tune.answer.answer_sentences import has_nothing_to_do, summary
from pgassay.tune.answer.by_statement import answers, workload_gain
from pgassay.tune.answer.proof_verdict import FoundAndProved
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.answer.verdicts import proof_of, ranked
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.proof.effects import Proved, effect_of
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, FACTOR, without
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.search_run import Clock, SearchRun
from pgassay.tune.search.selection import Baseline, FixSelection, SelectionStep, Tried, faster_of
from pgassay.tune.tuned_statements import measured

SECRET = "Jane O''Neill"
STATEMENTS = (
    TunedStatement(name="list", sql=f"SELECT * FROM orders WHERE customer = '{SECRET}' AND id > 4711"),
    TunedStatement(name="report", sql="SELECT sum(total) FROM orders"),
    TunedStatement(name="place", sql="INSERT INTO orders VALUES (1)", writes=True),
)
BASELINE = Baseline(measured(STATEMENTS), {"list": 1.0, "report": 0.5, "place": 0.1}, {})
METRIC = Metric(name="total elapsed time", unit="s", better="lower")


def candidate(name: str, **changes: object) -> Candidate:
    """An index on orders of that name."""
    known: dict[str, object] = {
        "id": f"index:{name}",
        "layer": "design",
        "kind": "btree",
        "title": f"index {name}",
        "reason": f"999 rows discarded by customer = 'Jane O''Neill' in {name}",
        "statements": ("list",),
        "sql": (f"CREATE INDEX {name} ON orders (customer) WHERE customer <> '{SECRET}'",),
        "undo": (f"DROP INDEX {name}",),
    }
    return Candidate.model_validate(known | changes)


def arm(name: str, ratio: float, low: float, high: float, verdict: str) -> ArmResult:
    """An arm of a proof; its ratio is its speed over that of all chosen fixes."""
    return ArmResult.model_validate(
        {
            "name": f"{FACTOR}={name}",
            "levels": {FACTOR: name},
            "ratio": ratio,
            "interval": (low, high),
            "verdict": verdict,
            "meaningful": True,
            "trials": 6,
            "failures": 0,
            "median": 1.0,
            "values": (1.0,),
        }
    )


def compared(arms: tuple[ArmResult, ...], statements: Mapping[str, tuple[ArmResult, ...]]) -> CompareResult:
    """The result of a proof with these arms."""
    return CompareResult(
        schema=1,
        folder="/results/proof",
        workload="sql:slow.sql",
        metric=METRIC,
        control=f"{FACTOR}={CHOSEN}",
        margin=0.03,
        alpha=0.05,
        blocks=6,
        stopped="decided",
        arms=arms,
        twin=TwinResult(ratio=1.0, interval=(0.9, 1.1), ok=None),
        statements=tuple(
            StatementResult(name=name, cold=False, aio=False, arms=found)
            for name, found in statements.items()
        ),
    )


def proved(*members: str, words: Mapping[str, str] | None = None) -> Proved:
    """A proof of these members; `words`: the verdict of the arm without one, else 'slower'."""
    words = words or {}
    figures = {
        "slower": (0.5, 0.4, 0.6),
        "equivalent": (1.0, 0.99, 1.01),
        "faster": (1.5, 1.2, 1.8),
        "inconclusive": (0.9, 0.5, 1.4),
    }
    arms = [arm(AS_IT_IS, 0.25, 0.2, 0.3, "slower")]
    for name in members:
        word = words.get(name, "slower")
        arms.append(arm(without(candidate(name)), *figures[word], word))
    statements = {
        "list": (arm(AS_IT_IS, 0.1, 0.08, 0.12, "slower"),),
        "place": (arm(AS_IT_IS, 1.25, 1.1, 1.4, "faster"),),
    }
    result = compared(tuple(arms), statements)
    effects = {f"index:{name}": effect_of(result, without(candidate(name))) for name in members}
    return Proved(result, effect_of(result, AS_IT_IS), effects)


# What its rounds say of a candidate that makes the workload slower.
SLOWER = {"without_s": (1.6, 1.7, 1.5, 1.6), "with_s": (2.3, 2.4, 2.2, 2.3)}


def judged(**changes: object) -> FoundAndProved:
    """Two chosen, one that helps nothing, one that is worse, and those that were not tried."""
    record = SearchRecord(
        candidates=tuple(
            candidate(name)
            for name in (
                "good", "second", "useless", "harmful", "refused", "unused", "unsafe", "described", "late"
            )
        ),
        tried={
            "index:good": Tried("index:good", {"list": 0.1, "place": 0.12}, 2.5, 8192_000),
            "index:second": Tried("index:second", {"report": 0.1}, 1.0, 8192),
            "index:useless": Tried("index:useless", {"list": 0.99}, 1.0, 8192),
            "index:harmful": Tried("index:harmful", {"place": 0.9}, 1.0, 8192, **SLOWER),
            "index:refused": Tried("index:refused", refused="'CREATE INDEX …' failed on the copy"),
        },
        screened={"index:unused": "with it in place, the planner uses it in no statement"},
        selection=FixSelection(
            (SelectionStep("index:good", 0.7, {}), SelectionStep("index:second", 0.3, {})),
            {"index:useless": 1.0, "index:harmful": 0.7},
        ),
        unsafe={"index:unsafe": "different: 3 rows"},
        left_out={"index:described": "it is described, not tried"},
    )  # fmt: skip
    if "members" in changes:
        steps = tuple(SelectionStep(name, 1.0, {}) for name in cast(tuple[str, ...], changes.pop("members")))
        changes["selection"] = replace(record.selection, steps=steps)
    of_record = {name: changes.pop(name) for name in [*changes] if name in SearchRecord.model_fields}
    known: dict[str, object] = {
        "found": record.model_copy(update=of_record),
        "baseline": BASELINE,
        "predicted": {"index:good": 2.0, "index:second": 2.3},
        "proved": proved("good", "second"),
    }
    return FoundAndProved(**(known | changes))  # type: ignore[arg-type]  # the fields by name


def of_one(**changes: object) -> FoundAndProved:
    """What is known of a single candidate that was not chosen, `useless`."""
    selection = FixSelection((), {"index:useless": 1.0})
    known: dict[str, object] = {"candidates": (candidate("useless"),), "selection": selection, "proved": None}
    return judged(**(known | changes))


def searched(**found: object) -> dict[str, object]:
    """What a search found, and nothing else of what `judged` knows."""
    return {"tried": {}, "screened": {}, "notes": {}, "alike": {}, "selection": FixSelection(), **found}


def search_run(
    copy: object = None,
    baseline: Baseline = BASELINE,
    *,
    clock: Clock | None = None,
    facts: SchemaFacts | None = None,
    **found: object,
) -> SearchRun:
    """A search on a copy, or on what stands in for one; `found`: its record."""
    return SearchRun(
        copy=cast(TrialCopy, copy),
        baseline=baseline,
        found=SearchRecord.model_validate(found),
        clock=clock or Clock(math.inf),
        say=list[str]().append,
        gain_min=1.03,
        members_max=9,
        facts=facts,
    )


def answer(known: FoundAndProved | None = None) -> TuneResult:
    """The whole answer."""
    known = known or judged()
    fixes = ranked(known)
    chosen = [
        each
        for each in known.found.candidates
        if any(f.id == each.id and f.verdict == "recommended" for f in fixes)
    ]
    proof = proof_of(known.proved, known.members, 4.6) if known.proved else None
    tried = known.found.tried
    chosen_s = {name: s for each in reversed(known.members) for name, s in tried[each].seconds.items()}
    made_faster = {each: faster_of(tried[each].seconds, known.baseline.seconds) for each in known.members}
    statements = answers(known.baseline, chosen_s, known.members, made_faster, fixes, known.proved)
    return TuneResult(
        schema=1,
        folder="/results",
        symptom=TuneSymptom.model_validate(
            {
                "workload": "sql:slow.sql",
                "data": "dump:shop.dump",
                "version": "18.4",
                "cache": "warm-pages",
                "seconds": 1.6,
                "statements": [
                    {
                        "name": each.name,
                        "sql": each.sql,
                        "seconds": BASELINE.seconds[each.name],
                        "share": BASELINE.seconds[each.name] / 1.6,
                        "plan": "Seq Scan on orders: 999 discarded",
                    }
                    for each in BASELINE.statements
                ],
            }
        ),
        cause=TuneCause(layer="design", cause="rows-removed", sentence=f"customer = '{SECRET}'"),
        fixes=fixes,
        nothing_to_do=has_nothing_to_do(fixes),
        statements=statements,
        workload_gain=workload_gain(statements, known.baseline.calls),
        verdict=summary(fixes, proof, 1.6, statements=statements, margin=0.03),
        proof=proof,
        apply_sql=apply_script(chosen, None),
        undo_sql=undo_script(chosen, None),
    )
