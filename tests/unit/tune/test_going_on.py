"""Going on with a stored proof, where that fails."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import tune_samples as samples
from pgassay.errors import UsageError
from pgassay.terminal.progress import NullProgress
from pgassay.tune import going_on, stored
from pgassay.tune.proving import Proving
from pgassay.tune.search.selection import Selection, Step
from pgassay.tune.stored import read_folder, stored_search, write_result, write_search
from pgassay.tune.tools import Gathered


def test_what_a_first_stage_proved_is_kept_where_the_disk_can_not_hold_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = samples.judged()
    known.searched.selection = Selection((Step("index:good", 0.7, {}), Step("index:second", 0.3, {})))
    gathered = Gathered(tuple(known.candidates))
    write_search(
        tmp_path, stored_search(samples.STATEMENTS, known.baseline, gathered, known.searched, None, 0.03)
    )
    write_result(tmp_path, samples.answer(samples.judged(proved=None)))
    (tmp_path / "proof").mkdir()
    assert read_folder(tmp_path)[1].apply_sql == ""

    def full(proving: Proving, *_: object) -> None:
        proving.first = SimpleNamespace(stopped="decided", trials=(), seconds_used=9.0)  # type: ignore[assignment]
        raise UsageError("the disk has no room for it: free some space")

    monkeypatch.setattr(going_on, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(going_on, "isolated", lambda **_: nullcontext(()))
    monkeypatch.setattr(going_on, "remove_copies", lambda *_: None)
    monkeypatch.setattr(Proving, "go_on", full)
    monkeypatch.setattr(Proving, "read", lambda _: None)
    monkeypatch.setattr(Proving, "specs", lambda _: [])
    monkeypatch.setattr(stored, "read_proof", lambda *_: samples.proved("good", "second"))
    with pytest.raises(UsageError, match="no room"):
        going_on.go_on(tmp_path, 60, NullProgress(), wait=True)
    result = read_folder(tmp_path)[1]
    assert [fix.verdict for fix in result.fixes[:2]] == ["recommended"] * 2
    assert result.warnings == ("the proof could not be run: the disk has no room for it: free some space",)
