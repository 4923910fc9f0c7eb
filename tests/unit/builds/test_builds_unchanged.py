"""Whether a planned build is still the same binary: found by its file, read again only when that changed."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from plans_for_tests import base_spec

import replay
from pgassay.environment.builds import build_identity
from pgassay.environment.builds.build_identity import ChangedBuildError, binary_sha256, refuse_changed
from pgassay.environment.datasets import snapshots
from pgassay.errors import MeasurementError
from pgassay.experiment.running.loop import RunLimits, run_experiment
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.progress import NullProgress
from pgassay.record.experiment import load

PROGRAM = b"\x7fELF a server"


@pytest.fixture
def postgres(tmp_path: Path) -> Path:
    """A bin folder's `postgres`: bytes, which nothing here starts."""
    path = tmp_path / "bin" / "postgres"
    path.parent.mkdir()
    path.write_bytes(PROGRAM)
    return path


def build_of(postgres: Path, **fields: Any) -> Build:
    known = {"binary_sha256": hashlib.sha256(PROGRAM).hexdigest(), **fields}
    return Build(origin="path", version="19devel", major=19, bin_directory=str(postgres.parent), **known)


def test_a_binary_is_read_once_while_its_file_is_the_same(
    postgres: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    digest = hashlib.file_digest

    def counted(stream: Any, name: str) -> Any:
        read.append(stream.name)
        return digest(stream, name)

    monkeypatch.setattr(build_identity.hashlib, "file_digest", counted)
    build = build_of(postgres)
    for _ in range(5):
        refuse_changed(build)
    assert len(read) == 1
    os.utime(postgres, ns=(1, 1))
    refuse_changed(build)
    assert len(read) == 2, "a new time of change: read again, and found to be the same"


def test_a_changed_binary_is_told_from_the_planned_one_however_it_came_there(
    postgres: Path, tmp_path: Path
) -> None:
    build = build_of(postgres)
    refuse_changed(build)
    other = tmp_path / "other"
    other.write_bytes(PROGRAM[::-1])
    before = postgres.stat()
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    # As long, of the same time: written over the old file, as `cp -p` does.
    shutil.copyfile(other, postgres)
    os.utime(postgres, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ChangedBuildError, match=r"is a different binary now \(sha256 \w{12}…\)") as refused:
        refuse_changed(build)
    assert refused.value.exit_code == 2
    assert "19devel" in str(refused.value) and "start a new experiment" in str(refused.value)
    postgres.write_bytes(PROGRAM)
    refuse_changed(build)
    other.rename(postgres)
    with pytest.raises(ChangedBuildError, match="is a different binary now"):
        refuse_changed(build)
    postgres.unlink()
    with pytest.raises(ChangedBuildError, match=r"can no longer be read \(No such file or directory\)"):
        refuse_changed(build)


def test_a_build_without_a_recorded_hash_is_taken_as_it_is(postgres: Path) -> None:
    build = build_of(postgres, binary_sha256="")
    postgres.unlink()
    refuse_changed(build)


def test_two_trees_of_one_version_share_no_data(postgres: Path) -> None:
    """What differs is the binary, the catalogs' version or the control file's: each makes another key."""
    data = DatasetSpec(scale=1)
    known = {"catalog_version": 202606301, "control_version": 1900}
    one = build_of(postgres, **known)
    others = [
        one.model_copy(update={"binary_sha256": binary_sha256(Path(__file__))}),
        one.model_copy(update={"catalog_version": 202607011}),
        one.model_copy(update={"control_version": 1901}),
    ]
    keys = [snapshots.key(build, data) for build in (one, *others)]
    assert len(set(keys)) == len(keys)
    moved = one.model_copy(update={"bin_directory": "/elsewhere/bin", "origin": "installed"})
    assert snapshots.key(moved, data) == keys[0], "the same binary, wherever it lies"


def test_arms_share_a_copy_of_the_data_only_where_their_binary_is_one(postgres: Path) -> None:
    one = build_of(postgres, catalog_version=202606301, control_version=1900)
    other = one.model_copy(update={"binary_sha256": "f" * 64, "bin_directory": "/other/bin"})
    arms = [base_spec().model_copy(update={"build": build}) for build in (one, other)]
    assert arms[0].data_identity != arms[1].data_identity
    moved = arms[0].model_copy(update={"build": one.model_copy(update={"bin_directory": "/moved"})})
    assert arms[0].data_identity == moved.data_identity
    # Experiments of before keep the copies, and so the figures, that they were planned with.
    old = [
        arm.model_copy(update={"build": arm.build.model_copy(update={"catalog_version": 0})}) for arm in arms
    ]
    assert old[0].data_identity == old[1].data_identity


def test_what_was_stored_before_the_catalogs_version_was_known_stays_byte_for_byte(postgres: Path) -> None:
    build = build_of(postgres)
    assert "catalog_version" not in build.model_dump_json()
    known = build.model_copy(update={"catalog_version": 202606301, "control_version": 1900})
    assert Build.model_validate_json(known.model_dump_json()) == known


def test_a_build_that_changes_while_it_runs_ends_the_experiment_with_its_blocks_intact(
    tmp_path: Path,
) -> None:
    folder = replay.new_experiment(tmp_path / "run", seed=5)
    runner = replay.Replay(seed=3)
    changed_after = 8

    def run(spec: Any, where: Path) -> Any:
        if len(load(where).trials) == changed_after:
            raise ChangedBuildError("the binary is another one now")
        return runner(spec, where)

    limits = RunLimits(blocks_max=10, time_max_s=600.0, until_decided=False)
    with pytest.raises(MeasurementError, match=r"^the binary is another one now$") as ended:
        run_experiment(load(folder), run, limits, NullProgress())
    assert ended.value.exit_code == 1
    stored = load(folder)
    assert (stored.stopped, len(stored.trials)) == ("failed", changed_after)
    assert {trial.record.status for trial in stored.trials} == {"ok"}
    # The old binary is back: it goes on where it was, and ends as if nothing had been.
    assert run_experiment(stored, runner, limits, NullProgress()).stopped == "blocks"
    assert len(load(folder).trials) == 10 * len(stored.experiment.arms)
