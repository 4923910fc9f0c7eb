"""A folder's search that is continued: what was tried then is in the answer, and stays there."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tune_samples as samples
from pgassay.environment.cleanup import source_copies
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import NullProgress
from pgassay.record.layout import TUNE_REQUEST_FILE
from pgassay.tune.answer.compose import Told, compose
from pgassay.tune.inputs.base import Start
from pgassay.tune.run_tune import TOOLS
from pgassay.tune.running import prove, resume, search_on
from pgassay.tune.running.look import TuneRun
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import Tried
from pgassay.tune.stored_search import read_folder, stored_search, write_result, write_search
from pgassay.tune.tune_plan import TuneRequest

CANDIDATES = (samples.candidate("a"), samples.candidate("b"))
FRESH_WARNING, NOT_ENCLOSED = "report took 9 s at first", "the network is within reach"


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server's dump that was kept for a later run, in a home of the test's own."""
    monkeypatch.setattr(source_copies, "home", lambda: tmp_path / "home")
    place = tmp_path / "home" / source_copies.DUMPS_FOLDER / "run" / "kept.dump"
    place.parent.mkdir(parents=True)
    place.write_text("data")
    return place


@pytest.fixture
def folder(tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A first run that had no time to try anything; what is continued tries both, and neither helps."""
    first = stored_search(
        samples.STATEMENTS, samples.BASELINE, SearchRecord(candidates=CANDIDATES), None, 0.03
    )
    answer = samples.answer()
    out = tmp_path / "out"
    out.mkdir()
    told = Told(out, answer.symptom, answer.cause, 10.0, is_kept=True)
    write_search(out, first)
    write_result(out, compose(first, told, None))
    (out / TUNE_REQUEST_FILE).write_text("{}")
    spec = SimpleNamespace(dataset=SimpleNamespace(source=str(dump), kind="dump"))
    request = SimpleNamespace(start=cast(Start, SimpleNamespace(spec=spec)), compare=None, origin=None)
    planned = SimpleNamespace(
        request=SimpleNamespace(max_time_s=1000, margin=0.03), spec=spec, statements=samples.STATEMENTS
    )
    planned.with_data_format = lambda: planned

    def look(run: TuneRun, *_: object) -> None:
        run.baseline = samples.BASELINE
        run.warnings.append(FRESH_WARNING)
        run.found = SearchRecord(
            candidates=CANDIDATES, tried={each.id: Tried(each.id, {"list": 1.0}) for each in CANDIDATES}
        )

    monkeypatch.setattr(resume, "kept_request", lambda _: (cast(TuneRequest, request), True))
    monkeypatch.setattr(resume, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(resume, "isolated", lambda **_: nullcontext((NOT_ENCLOSED,)))
    monkeypatch.setattr(resume, "removed_afterwards", lambda _: nullcontext())
    monkeypatch.setattr(resume, "replace", lambda known, **_: known)
    monkeypatch.setattr(resume, "plan_tune", lambda *_: planned)
    monkeypatch.setattr(search_on, "look", look)
    monkeypatch.setattr(prove, "symptom_of", lambda *_: answer.symptom)
    monkeypatch.setattr(prove, "cause_of_plans", lambda *_: answer.cause)
    return out


def continued(folder: Path) -> TuneResult:
    return resume.resume_tune(folder, 1000, NullProgress(), TOOLS, wait=True)


def test_a_search_that_is_continued_in_vain_says_so_now_and_later(folder: Path, dump: Path) -> None:
    first = read_folder(folder)[1]
    assert "2 of 2 candidates were not tried" in first.verdict and first.go_on
    second = continued(folder)
    assert second.verdict.startswith("Nothing to do: ") and not second.go_on
    assert [each.verdict for each in second.fixes] == ["no help", "no help"]
    assert second.warnings == (FRESH_WARNING, NOT_ENCLOSED)
    assert not dump.exists()
    assert read_folder(folder)[1] == second
    third = continued(folder)
    assert third.model_copy(update={"seconds_used": second.seconds_used}) == second


def test_one_that_is_interrupted_after_a_search_in_vain_has_what_that_tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(resume, "with_time_left", interrupted)
    result = continued(folder)
    assert result.interrupted and [each.verdict for each in result.fixes] == ["no help", "no help"]
    assert len(read_folder(folder)[0].tried) == 2
