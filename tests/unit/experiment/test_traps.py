"""What a plan says of itself: too few buffers for look-ahead, memory that a hypervisor takes back."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import analysis_samples
from pgassay.environment.linux import free_memory
from pgassay.experiment.planning.provisioned import plan_warnings
from pgassay.model.arm import Arm
from pgassay.model.experiment import CacheState


def arms_of(memory_bytes: int | None = None, **settings: str) -> Sequence[Arm]:
    changes = {"settings": {"shared_buffers": "1GB", "max_connections": "100", **settings}}
    return [
        arm.model_copy(update={"spec": arm.spec.model_copy(update={**changes, "memory_bytes": memory_bytes})})
        for arm in analysis_samples.experiment().arms
    ]


def said(arms: Sequence[Arm], cache: CacheState = "warm-pages", compared: str = "io_method") -> list[str]:
    return list(plan_warnings(arms, arms[0].spec, compared, cache))


@pytest.fixture
def balloons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose balloons are what the test puts into the folder."""
    monkeypatch.setattr(free_memory, "_BALLOONS", tmp_path)
    return tmp_path


def test_buffers_too_few_for_the_look_ahead_of_every_process_are_told() -> None:
    """By the share that GetPinLimit leaves to each: with fewer connections fewer buffers do."""
    assert said(arms_of()) == []
    (few,) = said(arms_of(shared_buffers="256MB"))
    assert few.startswith("shared_buffers is 256 MB: below about 369 MB a backend")
    assert said(arms_of(shared_buffers="256MB", max_connections="20")) == []
    (fewer,) = said(arms_of(shared_buffers="128MB", max_connections="20"))
    assert "below about 199 MB" in fewer
    assert said(arms_of(shared_buffers="128MB"), compared="work_mem") == []


def test_cold_reads_into_memory_that_was_taken_back_are_told(balloons: Path) -> None:
    assert said(arms_of(), "cold") == []
    (balloons / "virtio3").mkdir()
    (balloons / "virtio3" / "features").write_text("011001010\n")
    for state in ("cold", "cold-each"):
        (sentence,) = said(arms_of(), state, "work_mem")
        assert "takes free memory back (virtio3)" in sentence and "--memory" in sentence
    assert said(arms_of(), "warm-pages") == []
    assert said(arms_of(memory_bytes=1 << 30), "cold") == []
