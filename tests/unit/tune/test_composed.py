"""The whole answer from what was stored: its scripts' order, its warnings, and how it is gone on with."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tune_samples as samples
from pgassay.model.tuning.answer import TuneResult
from pgassay.record.experiment import StoredExperiment
from pgassay.tune import stored
from pgassay.tune.proof import Proved
from pgassay.tune.search.selection import Selection, Step
from pgassay.tune.stored import StoredSearch, Told, compose, stored_search
from pgassay.tune.tools import Gathered


def search_of(*chosen: str) -> StoredSearch:
    """A search that chose these, in this order."""
    known = samples.judged()
    steps = tuple(Step(f"index:{name}", 1.0 / place, {}) for place, name in enumerate(chosen, start=1))
    searched = replace(known.searched, selection=Selection(steps))
    gathered = Gathered(tuple(known.candidates))
    return stored_search(samples.STATEMENTS, known.baseline, gathered, searched, None, known.margin)


def composed(
    monkeypatch: pytest.MonkeyPatch, search: StoredSearch, proved: Proved, stopped: str, **told: object
) -> TuneResult:
    """The answer with what the proof says, which ended so."""
    monkeypatch.setattr(stored, "read_proof", lambda *_: proved)
    proof = cast("StoredExperiment", SimpleNamespace(stopped=stopped, trials=(), seconds_used=60.0))
    answer = samples.answer()
    symptom = answer.symptom
    return compose(search, replace(Told(Path("found"), symptom, answer.cause, 1.0), **told), proof)


def test_fixes_are_applied_in_the_order_in_which_they_were_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """One may rest on another, as an index on the table that was written anew, whichever gains more."""
    answer = composed(
        monkeypatch, search_of("second", "good"), samples.proved("second", "good"), stopped="decided"
    )
    assert [fix.id for fix in answer.fixes[:2]] == ["index:good", "index:second"]
    assert answer.apply_sql.index("INDEX CONCURRENTLY second") < answer.apply_sql.index(
        "INDEX CONCURRENTLY good"
    )
    assert answer.undo_sql.index("good") < answer.undo_sql.index("second")


@pytest.mark.parametrize(("stopped", "is_gone_on"), [("max-time", True), ("decided", False)])
def test_a_proof_that_has_no_blocks_to_come_is_not_gone_on_with(
    stopped: str, is_gone_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that was stopped may leave a member undecided for good."""
    proved = samples.proved("good", "second", words={"second": "inconclusive"})
    answer = composed(monkeypatch, search_of("good", "second"), proved, stopped)
    assert bool(answer.go_on) == is_gone_on
    assert ("Go on with" in answer.verdict) == is_gone_on


def test_what_was_said_before_the_proof_began_is_said_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "it was left out: statement broken fails"
    search = search_of("good").model_copy(update={"warnings": (said,)})
    answer = composed(monkeypatch, search, samples.proved("good"), "decided", warnings=("not enclosed", said))
    assert answer.warnings == (said, "not enclosed")
