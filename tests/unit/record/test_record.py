"""The record: whole or not at all, and refused with a sentence when it is not ours."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from plans_for_tests import make_experiment, make_record
from pydantic import ValidationError

from pgassay import durable
from pgassay.cli.stored_results import others_below
from pgassay.design.schedule import next_step
from pgassay.environment.linux.machine import machine_id
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.running.results_folder import check_folder, find_experiments
from pgassay.experiment.running.run_experiment import resume_held
from pgassay.model.experiment import BlockDesign
from pgassay.model.trial import TrialFacts
from pgassay.progress import NullProgress
from pgassay.record import layout
from pgassay.record.documents import read_result, write_file
from pgassay.record.experiment import (
    TrialWriter,
    load,
    refuse_lost_blocks,
    write_block_plan,
    write_experiment,
    write_state,
)
from pgassay.record.gates import gate_folders

EXPERIMENT = make_experiment(["io_method=sync,worker"])


def stored(folder: Path, trials: int = 2) -> Path:
    """A folder with a plan and some trials."""
    write_experiment(folder, EXPERIMENT)
    records = []
    for _ in range(trials):
        record = make_record(next_step(EXPERIMENT, records).spec)
        writer = TrialWriter(folder, record.number, record.attempt)
        writer.add(layout.PLANS_FILE, b'{"count": {"Plan": {"Node Type": "Seq Scan"}}}')
        writer.add("observations/device.parquet", b"PAR1")
        writer.finish(record)
        records.append(record)
    return folder


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    experiment = load(stored(tmp_path / "e"))
    assert experiment.experiment == EXPERIMENT
    assert [trial.record.number for trial in experiment.trials] == [0, 1]
    assert experiment.trials[0].plans["count"]["Plan"]["Node Type"] == "Seq Scan"
    assert experiment.stopped == "running"
    write_state(tmp_path / "e", stopped="decided", seconds_used=12.5)
    again = load(tmp_path / "e")
    assert (again.stopped, again.seconds_used) == ("decided", 12.5)


def test_a_folder_that_may_not_be_looked_into_hides_no_other_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As lost+found, which is at the root of each disk that has its own file system."""
    stored(tmp_path / "e")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "other").mkdir()
    is_file = Path.is_file

    def refused(path: Path) -> bool:
        if path.parent.name in ("lost+found", "other"):
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    assert find_experiments(tmp_path) == [tmp_path / "e"]
    assert gate_folders(tmp_path) == []
    ((folder, why),) = others_below(tmp_path)
    assert folder.name == "other" and "can't look into" in str(why)


def test_a_folder_with_a_space_is_told_as_it_is_typed(tmp_path: Path) -> None:
    folder = tmp_path / "my results"
    stored(folder)
    with pytest.raises(UsageError, match=f"pgassay resume '{folder}'"):
        check_folder(folder)
    (tmp_path / "a gate").mkdir()
    (tmp_path / "a gate" / layout.GATE_FILE).write_text("{}")
    with pytest.raises(UsageError, match=f"pgassay report '{tmp_path / 'a gate'}'"):
        load(tmp_path / "a gate")
    found = load(folder)
    plan = found.experiment.model_copy(update={"design": BlockDesign(data_copies=2)})
    with pytest.raises(UsageError, match=f"pgassay report '{folder}'"):
        refuse_lost_blocks(replace(found, experiment=plan))


def test_all_of_a_trial_is_flushed_its_names_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the module that tests beside others keep from flushing."""
    flushed = set()

    class Noting:
        def fsync(self, descriptor: int) -> None:
            flushed.add(os.fstat(descriptor).st_ino)

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

    monkeypatch.setattr(durable, "os", Noting())
    trial = stored(tmp_path / "e", trials=1) / "trials/000000/attempt-1"
    made = [*trial.rglob("*"), trial, trial.parent, trial.parent.parent]
    assert {path.stat().st_ino for path in made} <= flushed


def test_an_unfinished_trial_is_not_seen_and_leaves_nothing_when_discarded(tmp_path: Path) -> None:
    folder = stored(tmp_path / "e")
    writer = TrialWriter(folder, 2, 1)
    writer.add(layout.PLANS_FILE, b"{}")
    assert len(load(folder).trials) == 2
    writer.discard()
    assert list((folder / "trials/000002").iterdir()) == []


def test_a_second_experiment_is_not_written_over_the_first(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="already holds an experiment"):
        write_experiment(stored(tmp_path / "e"), EXPERIMENT)


@pytest.mark.parametrize("name", ["experiment.json", "trials/000000/attempt-1/trial.json", "state.json"])
def test_a_newer_format_is_refused(tmp_path: Path, name: str) -> None:
    folder = stored(tmp_path / "e")
    write_state(folder, stopped="blocks", seconds_used=1)
    document = json.loads((folder / name).read_text())
    document["format"] = 99
    (folder / name).write_text(json.dumps(document))
    with pytest.raises(
        UsageError, match=r"format 99, written by a newer pgassay; .* install the newer version"
    ):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "x"}', b"null", b"\xff\xfe"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    folder = stored(tmp_path / "e")
    (folder / "experiment.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"experiment\.json"):
        load(folder)


def test_a_folder_without_an_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no experiment"):
        load(tmp_path)


def test_a_missing_key_names_where(tmp_path: Path) -> None:
    folder = stored(tmp_path / "e")
    path = folder / "trials/000001/attempt-1/trial.json"
    document = json.loads(path.read_text())
    del document["arm_id"]
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"trial\.json is damaged \(arm_id: "):
        load(folder)


def test_an_experiment_that_lost_a_block_s_plan_is_not_continued(tmp_path: Path) -> None:
    """What else was to run in it, and so which trial comes next, is nowhere else."""
    here = EXPERIMENT.environment.updated(machine_id=machine_id())
    design = BlockDesign(data_copies=2, decided_rest=True)
    plan = EXPERIMENT.model_copy(update={"environment": here, "design": design})
    folder = tmp_path / "e"
    write_experiment(folder, plan)
    step = next_step(plan, [])
    write_block_plan(folder, step.plan)
    record = make_record(step.spec)
    TrialWriter(folder, record.number, record.attempt).finish(record)
    refuse_lost_blocks(load(folder))
    layout.block_file(folder, 0).unlink()
    with pytest.raises(UsageError, match=r"000000\.json is missing.*restore it from a copy"):
        resume_held(folder, None, NullProgress())


def test_replacing_a_file_keeps_the_old_one_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_file(path, b"old")
    full = Path("/dev/full")
    assert full.exists()
    link = tmp_path / f".state.json.{os.getpid()}.tmp"
    link.symlink_to(full)
    with pytest.raises(MeasurementError, match=r"no space left .* 'pgassay resume'"):
        write_file(path, b"new" * 100000)
    assert path.read_bytes() == b"old"
    assert not link.exists()


def test_facts_are_written_again_as_they_were_stored() -> None:
    """Keys in their order, unknown ones kept, missing ones left out: the fingerprint is of these bytes."""
    facts = {
        "started_for_this_trial": True,
        "of_a_later_version": {"list": [1, 2.0]},
        "storage": {"kind": "host", "items": 3, "device": {"read_ahead_kb": 128, "name": None}},
        "settings": {"jit": "off"},
    }
    read = TrialFacts.model_validate(facts)
    assert read.model_dump_json() == json.dumps(facts, separators=(",", ":"))
    assert (read.settings["jit"], read.storage.device.read_ahead_kb, read.cache.state) == ("off", 128, None)
    assert list(read) == list(facts)
    assert read["of_a_later_version"] == {"list": [1, 2.0]}
    assert read.storage["items"] == 3
    assert "cache" not in read
    with pytest.raises(KeyError):
        read["cache"]


def test_updated_facts_keep_their_order_and_are_validated() -> None:
    before = TrialFacts.model_validate({"restored": False, "settings": {"jit": "off"}})
    after = before.updated(settings={"jit": "on"}, server={"round_trip_ms": 2})
    assert after.model_dump_json() == (
        '{"restored":false,"settings":{"jit":"on"},"server":{"round_trip_ms":2}}'
    )
    assert before.settings == {"jit": "off"}
    with pytest.raises(ValidationError):
        before.updated(settings="none")


def test_a_result_that_is_not_there_is_no_result_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nosuch\.json: there is no such file: run it again$"):
        read_result(tmp_path / "nosuch.json", TrialFacts, "diagnosis", "run it again")
    with pytest.raises(UsageError, match=r"^can't read .* \(Is a directory\): run it again$"):
        read_result(tmp_path, TrialFacts, "diagnosis", "run it again")
