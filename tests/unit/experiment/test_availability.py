"""Arms are judged before anything is loaded: the storage that an arm asks for is part of that."""

import pytest

import report_examples as examples
from pgassay.design.arms import Candidate
from pgassay.errors import UsageError
from pgassay.experiment.planning import provisioned_servers
from pgassay.experiment.planning.provisioned_servers import judge
from pgassay.model.storage import StorageSpec
from pgassay.storage.loop import LoopKind

REASON = "Loop storage needs XFS and this kernel has none: use --storage host."


def candidates() -> list[Candidate]:
    host = examples.spec({"work_mem": "4MB"})
    return [
        ({"storage": kind}, host.model_copy(update={"storage": StorageSpec(kind=kind)}))
        for kind in ("host", "loop")
    ]


def quiet(stage: str, fraction: float | None) -> None:
    del stage, fraction


def test_a_storage_that_cannot_be_is_refused_or_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """With settings alike in both arms, so that one verdict can't be taken for the other's."""
    monkeypatch.setattr(provisioned_servers, "validate_settings", lambda *_: None)
    monkeypatch.setattr(LoopKind, "capability", lambda _: REASON)
    with pytest.raises(UsageError) as refused:
        judge(candidates(), skip_unavailable=False, on_stage=quiet)
    assert str(refused.value) == REASON
    found = judge(candidates(), skip_unavailable=True, on_stage=quiet)
    assert [levels["storage"] for levels, _ in found.candidates] == ["host"]
    assert found.skipped == (f"storage=loop was skipped: {REASON}",)
    monkeypatch.setattr(LoopKind, "capability", lambda _: None)
    assert len(judge(candidates(), skip_unavailable=False, on_stage=quiet).candidates) == 2
