"""What a plan says of itself: too few buffers for look-ahead, memory that a hypervisor takes back."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from plans_for_tests import make_arms

import analysis_samples
from pgassay.environment.linux import free_memory
from pgassay.experiment.planning.arm_baseline import memory_warnings
from pgassay.experiment.planning.plan_warnings import checkpoint_warnings, plan_warnings
from pgassay.model.arm import Arm
from pgassay.model.experiment import CacheState
from pgassay.model.workload import LoadSpec
from pgassay.trial.caches import states


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
    # (64 + 1) reads of 128 kB for each of 174 processes.
    (deep,) = said(arms_of(effective_io_concurrency="64"))
    assert "below about 1413 MB" in deep and "shared_buffers=1472MB" in deep
    # More are wanted than can be in flight: no more buffers are of use.
    assert "below about 1413 MB" in said(arms_of(effective_io_concurrency="500"))[0]
    assert said(arms_of(shared_buffers="128MB"), compared="work_mem") == []


@pytest.mark.parametrize(
    ("memory_mb", "told"),
    [
        (None, "(set shared_buffers=1GB)"),
        (8192, "(set shared_buffers=1GB)"),
        (2048, "(set shared_buffers=384MB)"),
        # Met: 1GB was advised to a server of 384 MB.
        (384, "(name at least --memory 1536MB with shared_buffers=384MB)"),
    ],
)
def test_no_more_buffers_are_advised_than_the_memory_has_room_for(memory_mb: int | None, told: str) -> None:
    memory_bytes = None if memory_mb is None else memory_mb << 20
    (few,) = said(arms_of(memory_bytes, shared_buffers="64MB", work_mem="64kB"))[:1]
    assert few.startswith("shared_buffers is 64 MB: below about 369 MB") and told in few


@pytest.mark.parametrize(
    ("memory_mb", "told"),
    [(None, ""), (1024, ""), (384, " with --memory 1824MB")],
)
def test_data_that_are_to_be_in_buffers_have_the_memory_for_them(memory_mb: int | None, told: str) -> None:
    memory_bytes = None if memory_mb is None else memory_mb << 20
    assert states._room_for(400 << 20, memory_bytes) == f"set shared_buffers=456MB{told}"


def test_cold_reads_into_memory_that_was_taken_back_are_told(balloons: Path) -> None:
    assert said(arms_of(), "cold") == []
    (balloons / "virtio3").mkdir()
    (balloons / "virtio3" / "features").write_text("011001010\n")
    for state in ("cold", "cold-each"):
        (sentence,) = said(arms_of(), state, "work_mem")
        assert "takes free memory back (virtio3)" in sentence and "--memory" in sentence
    assert said(arms_of(), "warm-pages") == []
    assert said(arms_of(memory_bytes=1 << 30), "cold") == []


@pytest.mark.parametrize(
    ("buffers", "handles"),
    [("1GB", 64), ("128MB", 64), ("64MB", 47), ("1MB", 1), ("16384", 64), ("8192", 47)],
)
def test_levels_above_io_max_concurrency_are_told(buffers: str, handles: int) -> None:
    """min(shared buffers / processes, 64), at least 1: AioChooseMaxConcurrency of aio_init.c, with 174
    processes at 100 connections."""
    arms = arms_of(shared_buffers=buffers, effective_io_concurrency=str(handles + 1))
    (told,) = said(arms, compared="effective_io_concurrency")[-1:]
    assert told.startswith(
        f"effective_io_concurrency={handles + 1} is more than io_max_concurrency, which is"
    )
    assert f"no process has more than {handles} reads in flight" in told
    assert f"set io_max_concurrency={handles + 1} in all arms" in told
    enough = arms_of(shared_buffers=buffers, effective_io_concurrency=str(handles))
    assert not [each for each in said(enough, compared="effective_io_concurrency") if "in flight" in each]


def test_handles_that_were_asked_for_and_sync_are_no_trap() -> None:
    wide = {"effective_io_concurrency": "256", "shared_buffers": "8GB"}
    assert said(arms_of(**wide, io_max_concurrency="256"), compared="effective_io_concurrency") == []
    assert said(arms_of(**wide, io_method="sync"), compared="effective_io_concurrency") == []
    (told,) = said(arms_of(**wide, io_max_concurrency="100"), compared="effective_io_concurrency")
    assert "which is 100 here" in told
    (told,) = said(arms_of(maintenance_io_concurrency="99"), compared="maintenance_io_concurrency")
    assert told.startswith("maintenance_io_concurrency=99")


def test_settings_that_an_io_method_does_not_use_are_told() -> None:
    (told,) = said(arms_of(io_method="sync"), compared="io_workers")
    assert told == (
        "io_workers is only used by io_method=worker: with io_method=sync its levels are the same"
    )
    (told,) = said(arms_of(io_method="sync"), compared="io_max_concurrency")
    assert "only used by io_method=io_uring and worker:" in told
    assert said(arms_of(), compared="io_workers") == []
    assert said(arms_of(io_method="sync"), compared="io_combine_limit") == []


def test_memory_that_the_settings_may_go_beyond_is_foreseen() -> None:
    """50 connections of sysbench's long ranges ended a server that was given 256 MB."""
    (arm, *_) = arms_of(memory_bytes=256 << 20, shared_buffers="64MB", work_mem="4MB")
    load = LoadSpec(script="oltp_read_only", clients=50)
    workload = arm.spec.workload.model_copy(update={"load": load})
    crowded = arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": workload})})
    (sentence,) = memory_warnings([crowded])
    assert "memory of 256 MB may be too little" in sentence
    assert "50 connections" in sentence
    assert "--memory 640MB" in sentence
    assert not list(memory_warnings([arm]))
    roomy = crowded.model_copy(update={"spec": crowded.spec.model_copy(update={"memory_bytes": 768 << 20})})
    assert not list(memory_warnings([roomy]))


def checkpoints_said(*factors: str, workload: str) -> list[str]:
    return list(checkpoint_warnings(make_arms([*factors], workload=workload)[0]))


def test_the_wal_that_three_checkpoints_take_is_checkpoints_said() -> None:
    """190 MB / 1.9 are 100 MB from one checkpoint to the next: 3 of them in 30 s are 10 MB a second."""
    (sentence,) = checkpoints_said("max_wal_size=190MB,8GB", workload="tpcb:clients=4,duration=30s")
    assert "100 MB of WAL ask for a checkpoint" in sentence
    assert "a trial of 30 s has 3 from 10 MB of WAL a second on" in sentence


def test_it_is_of_the_arm_with_most_checkpoints() -> None:
    """A longer completion target has the next one asked for sooner."""
    factors = ("max_wal_size=152MB,8GB", "checkpoint_completion_target=0.5,0.9")
    (sentence,) = checkpoints_said(*factors, workload="tpcb:clients=4,duration=30s")
    assert "80 MB of WAL ask for a checkpoint" in sentence


def test_nothing_is_said_where_no_checkpoint_is_compared_or_nothing_written() -> None:
    assert not checkpoints_said("max_wal_size=1GB,8GB", workload="select-only:clients=4,duration=30s")
    assert not checkpoints_said("max_wal_size=1GB,8GB", workload="full-scan")
    assert not checkpoints_said("work_mem=1MB,8MB", workload="tpcb:clients=4,duration=30s")
