"""The whole answer from what was stored: its scripts' order, its warnings, and how it is gone on with."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tune_samples as samples
from pgassay.environment.cleanup.source_copies import DUMPS_FOLDER
from pgassay.environment.home import home
from pgassay.errors import UsageError
from pgassay.model.tuning.tune_answer import FixStatement, TuneResult
from pgassay.progress import NullProgress
from pgassay.record.experiment import StoredExperiment
from pgassay.report.tune import tune_page
from pgassay.tune.answer import compose as composing
from pgassay.tune.answer.compose import Told, compose
from pgassay.tune.proof.effects import Proved
from pgassay.tune.proof.proof_arms import SharedArms
from pgassay.tune.proof.stages import ProofStages
from pgassay.tune.run_tune import TOOLS
from pgassay.tune.running import resume
from pgassay.tune.search.selection import FixSelection, SelectionStep, Tried
from pgassay.tune.stored_search import StoredSearch, read_folder, stored_search, write_result, write_search


def search_of(*chosen: str) -> StoredSearch:
    """A search that chose these, in this order."""
    known = samples.judged()
    steps = tuple(
        SelectionStep(f"index:{name}", 1.0 / place, {}) for place, name in enumerate(chosen, start=1)
    )
    found = known.found.model_copy(
        update={"selection": FixSelection(steps), "checks": {}, "unsafe": {}, "left_out": {}}
    )
    return stored_search(samples.STATEMENTS, known.baseline, found, None, known.margin)


def stopped_proof(stopped: str, seconds_used: float, source: str) -> StoredExperiment:
    """A proof on this file's data that ended so, of which nothing else is asked."""
    arm = SimpleNamespace(spec=SimpleNamespace(dataset=SimpleNamespace(source=source)))
    experiment = SimpleNamespace(arms=(arm,))
    return cast(
        "StoredExperiment",
        SimpleNamespace(stopped=stopped, trials=(), seconds_used=seconds_used, experiment=experiment),
    )


def composed(
    monkeypatch: pytest.MonkeyPatch,
    search: StoredSearch,
    proved: Proved,
    stopped: str,
    source: str = "/data/shop.dump",
    **told: object,
) -> TuneResult:
    """The answer with what the proof on this file's data says, which ended so."""
    monkeypatch.setattr(composing, "read_proof", lambda *_: proved)
    proof = stopped_proof(stopped, 60.0, source)
    answer = samples.answer()
    symptom = answer.symptom
    return compose(search, replace(Told(Path("found"), symptom, answer.cause, 1.0), **told), proof)


def test_fixes_are_applied_in_the_order_in_which_they_were_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """One may rest on another, as an index on the table that was written anew, whichever gains more."""
    answer = composed(
        monkeypatch, search_of("second", "good"), samples.proved("second", "good"), stopped="decided"
    )
    assert [fix.id for fix in answer.fixes[:2]] == ["index:good", "index:second"]
    assert answer.apply_sql.index("IF NOT EXISTS second") < answer.apply_sql.index("IF NOT EXISTS good")
    assert answer.undo_sql.index("good") < answer.undo_sql.index("second")
    # The numbers are the page's, whose order is by gain.
    assert "-- 2. index second\n" in answer.apply_sql and "-- 2. index second\n" in answer.undo_sql


def test_a_script_says_above_a_fix_which_statement_gets_slower_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = samples.proved("good")
    member = replace(proved.members["index:good"], statements=proved.together.statements)
    proved = replace(proved, members={"index:good": member})
    answer = composed(monkeypatch, search_of("good"), proved, stopped="decided")
    assert "-- 1. index good\n-- It makes place 20 % slower (between 9.1 % and 29 %).\n" in answer.apply_sql
    assert "slower" not in answer.undo_sql


def test_what_gets_slower_by_a_fix_that_is_not_recommended_is_not_called_that_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one makes a write slower, and is left out of apply.sql: the first was measured without."""
    proved = samples.proved("good", "second", words={"second": "faster"})
    answer = composed(monkeypatch, search_of("good", "second"), proved, stopped="decided")
    assert [fix.verdict for fix in answer.fixes if fix.id in ("index:good", "index:second")] == [
        "recommended", "worse",
    ]  # fmt: skip
    assert "They make" not in answer.verdict and "place" not in answer.apply_sql
    assert "All chosen fixes together, also those not recommended, make place 20 % slower" in answer.verdict
    assert "with all chosen fixes, also those not recommended:" in tune_page.page_of(answer).markdown()
    whole = composed(monkeypatch, search_of("good"), samples.proved("good"), stopped="decided")
    assert "They make place 20 % slower" in whole.verdict
    assert "weighted by calls:" in tune_page.page_of(whole).markdown()


def test_a_read_that_only_a_rejected_fix_makes_slower_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what is recommended nothing touches it: the rejected fix says what it did."""
    proved = samples.proved("good", "second", words={"second": "faster"})
    slow = FixStatement(name="report", ratio=0.8, interval=(0.7, 0.94), before_s=0.5, after_s=0.62)
    kept = tuple(each for each in proved.together.statements if each.name == "list")
    proved = replace(
        proved,
        together=replace(proved.together, slowed=("report",), statements=(*kept, slow)),
        members=proved.members
        | {
            "index:good": replace(proved.members["index:good"], statements=kept, slowed=()),
            "index:second": replace(
                proved.members["index:second"], statements=(slow,), sped=(), slowed=("report",)
            ),
        },
    )
    answer = composed(monkeypatch, search_of("good", "second"), proved, stopped="decided")
    found = {fix.id: fix for fix in answer.fixes}
    assert [found[f"index:{name}"].verdict for name in ("good", "second")] == ["recommended", "worse"]
    assert "makes report 20 % slower" in found["index:second"].note
    (report,) = (each for each in answer.statements if each.name == "report")
    assert (report.verdict, report.ratio, report.fixes) == ("as it was", None, ())
    assert "report" not in answer.verdict


@pytest.mark.parametrize(("stopped", "is_gone_on"), [("max-time", True), ("decided", False)])
def test_a_proof_that_has_no_blocks_to_come_is_not_gone_on_with(
    stopped: str, is_gone_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that was stopped may leave a member undecided for good."""
    proved = samples.proved("good", "second", words={"second": "inconclusive"})
    answer = composed(monkeypatch, search_of("good", "second"), proved, stopped)
    assert bool(answer.go_on) == is_gone_on
    assert ("Continue with" in answer.verdict) == is_gone_on


@pytest.mark.parametrize(("source", "is_gone_on"), [("/data/shop.dump", True), ("DUMPS/source.dump", False)])
def test_a_proof_on_data_that_go_with_the_run_is_not_gone_on_with(
    source: str, is_gone_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the user's own stays, of a server's statements too; the dump that tune made does not."""
    source = source.replace("DUMPS", str(home() / DUMPS_FOLDER / "0f"))
    proved = samples.proved("good", "second", words={"second": "inconclusive"})
    answer = composed(monkeypatch, search_of("good", "second"), proved, "max-time", source)
    assert bool(answer.go_on) == is_gone_on


def test_what_was_said_before_the_proof_began_is_said_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "it was left out: statement broken fails"
    search = search_of("good").model_copy(update={"warnings": (said,)})
    answer = composed(monkeypatch, search, samples.proved("good"), "decided", warnings=("not enclosed", said))
    assert answer.warnings == (said, "not enclosed")


def test_what_a_first_stage_proved_is_kept_where_the_disk_can_not_hold_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_search(tmp_path, search_of("good", "second"))
    write_result(tmp_path, samples.answer(samples.judged(proved=None)))
    (tmp_path / "proof").mkdir()
    assert read_folder(tmp_path)[1].apply_sql == ""

    def full(proving: ProofStages, *_: object) -> None:
        proving.first = stopped_proof("decided", 9.0, "/data/shop.dump")
        raise UsageError("the disk has no room for it: free some space")

    monkeypatch.setattr(resume, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(resume, "isolated", lambda **_: nullcontext(()))
    monkeypatch.setattr(resume, "remove_copies", lambda *_: None)
    monkeypatch.setattr(ProofStages, "resume", full)
    monkeypatch.setattr(ProofStages, "read", lambda _: None)
    monkeypatch.setattr(ProofStages, "specs", lambda _: [])
    monkeypatch.setattr(composing, "read_proof", lambda *_: samples.proved("good", "second"))
    with pytest.raises(UsageError, match="no room"):
        resume.resume_tune(tmp_path, 60, NullProgress(), TOOLS, wait=True)
    result = read_folder(tmp_path)[1]
    assert [fix.verdict for fix in result.fixes[:2]] == ["recommended"] * 2
    assert result.warnings == ("the proof could not be run: the disk has no room for it: free some space",)


def test_what_a_proof_had_no_time_to_measure_is_still_told_by_its_fix() -> None:
    shared = SharedArms(
        left_out={"all chosen": ()}, told_by={"index:a": "as it is"},
        touched={"index:a": ("list",)}, written={"index:a": ("place",)},
    )  # fmt: skip
    seconds = {"list": 1.0, "report": 1.0, "place": 1.0}
    tried = {"index:a": Tried("index:a", {"list": 0.9, "report": 0.1, "place": 0.1})}
    search = StoredSearch.model_construct(shared=shared, tried=tried, seconds=seconds)
    assert search.made_faster == {"index:a": {"list", "report"}}
    # Without a proof in one server all is by the search.
    assert search.model_copy(update={"shared": None}).made_faster == {"index:a": {"report", "place"}}
