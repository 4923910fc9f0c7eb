"""Which candidates are tried; what is unsafe, described or of no use on a dump is told."""

from dataclasses import replace
from typing import cast

import pytest

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import MeasurementError
from pgassay.model.vacuum_state import Holder
from pgassay.tune.candidate import Candidate, StatementRewrite, Symptom, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.registry import Refusal, RewriteDescription, Rewritten
from pgassay.tune.same_results.check import SameResults
from pgassay.tune.source.origin import holder_of
from pgassay.tune.tools import DESCRIBED, NOT_ON_A_DUMP, TuneTools, gather
from tune_samples import STATEMENTS, candidate

FACTS = SchemaFacts(version=180000, database="shop", encoding="UTF8", collation="C")
# Nothing here asks a server: those who would are made up as well.
NO_SESSION = cast(ControlSession, None)


def symptom(*, has_physical_state: bool = True) -> Symptom:
    return Symptom(STATEMENTS, {}, FACTS, {}, has_physical_state=has_physical_state)


def tools(*candidates: Candidate, verdict: SameResults | MeasurementError | None = None) -> TuneTools:
    def rewrites(statement: TunedStatement, _facts: SchemaFacts) -> Rewritten:
        if statement.name != "report":
            return Rewritten(refused=(Refusal("or-union", "a column may be NULL"),))
        other = StatementRewrite(
            statement="report", sql="SELECT 1", condition="why", proof="by test", kind="not-in"
        )
        return Rewritten(found=(other,), described=(RewriteDescription("keyset", "Page by the last key."),))

    def same(*_given: object, **_named: object) -> SameResults:
        if isinstance(verdict, MeasurementError):
            raise verdict
        assert verdict is not None
        return verdict

    return TuneTools(lambda _session: FACTS, lambda _symptom: candidates, rewrites, same)


def test_a_rewrite_that_returns_the_same_rows_is_tried_and_says_how_that_is_known() -> None:
    found = gather(tools(verdict=SameResults("equal", "", instances=40)), symptom(), NO_SESSION)
    assert [each.id for each in found.to_try] == ["rewrite:report:not-in:1"]
    assert found.checks == {"rewrite:report:not-in:1": "equal on 40 instances"}
    assert found.refused == (
        "list, or-union: a column may be NULL",
        "place, or-union: a column may be NULL",
    )
    assert found.left_out == {"described:report:keyset": DESCRIBED}


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (SameResults("different", "3 rows"), "different: 3 rows"),
        (SameResults("not checked", "a volatile function"), "not checked: a volatile function"),
        (MeasurementError("the connection was lost"), "the connection was lost"),
    ],
)
def test_a_rewrite_whose_rows_are_not_shown_to_be_the_same_is_never_tried(
    verdict: SameResults | MeasurementError, words: str
) -> None:
    found = gather(tools(verdict=verdict), symptom(), NO_SESSION)
    assert not found.to_try
    assert words in found.unsafe["rewrite:report:not-in:1"]


def test_what_mends_a_physical_state_is_left_out_on_a_dump_alone() -> None:
    vacuum = candidate("vacuum", physical=True)
    same = SameResults("equal", "", instances=1)
    assert vacuum in gather(tools(vacuum, verdict=same), symptom(), NO_SESSION).to_try
    found = gather(tools(vacuum, verdict=same), symptom(has_physical_state=False), NO_SESSION)
    assert vacuum not in found.to_try
    assert found.left_out[vacuum.id] == NOT_ON_A_DUMP


def test_a_candidate_that_two_finders_have_is_one() -> None:
    found = gather(
        tools(candidate("a"), candidate("a"), verdict=SameResults("equal", "")), symptom(), NO_SESSION
    )
    assert [each.id for each in found.candidates].count("index:a") == 1


def test_what_vacuum_can_not_do_on_the_source_is_told_and_not_tried() -> None:
    """A copy has no old sessions, slots and prepared transactions, so VACUUM proves itself there."""
    vacuum, index = candidate("v", kind="vacuum", physical=True), candidate("a")
    given = tools(vacuum, index, verdict=SameResults("equal", "", instances=1))
    for has_physical_state in (True, False):
        held = replace(
            symptom(has_physical_state=has_physical_state), held_by="session process 7 (report), for 2.00 h"
        )
        found = gather(given, held, NO_SESSION)
        assert "session process 7 (report), for 2.00 h keeps VACUUM" in found.left_out[vacuum.id]
    assert vacuum.id not in {each.id for each in found.to_try}
    assert index in found.to_try
    assert vacuum in gather(given, symptom(), NO_SESSION).to_try


def test_a_query_that_passes_holds_nobody_up() -> None:
    young = Holder(kind="session", name="process 3 (app)", transactions=9, seconds=2.0)
    old = Holder(kind="prepared transaction", name="lost", transactions=5, seconds=7200.0)
    slot = Holder(kind="replication slot", name="standby", transactions=3)
    assert holder_of([young]) == ""
    assert holder_of([young, old, slot]).startswith("prepared transaction lost, for ")
    assert holder_of([slot]) == "replication slot standby"
    assert holder_of([slot.model_copy(update={"transactions": 0})]) == ""
