"""Waits by name per transaction, and what is said of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from profile_for_tests import profiled

from pgassay.analysis.profile.result import profile_result
from pgassay.analysis.profile.waits import MEANINGS, meaning_of
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.trial import TrialFacts
from pgassay.record import layout
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of

FACTS = Path(__file__).resolve().parents[2] / "versions" / "facts.json"
SECOND_NS = 1_000_000_000


def test_every_wait_with_a_meaning_exists_in_some_version() -> None:
    events = json.loads(FACTS.read_text("utf-8"))["events"]
    known = {name for names in events.values() for name in names}
    assert {f"{kind}:{name}" for kind, name in MEANINGS} <= known
    assert all(each.means and each.relief for each in MEANINGS.values())


def test_16_spells_some_otherwise() -> None:
    assert meaning_of("IPC", "BufferIO") == meaning_of("IPC", "BufferIo") is not None
    assert meaning_of("IO", "WALSync") == meaning_of("IO", "WalSync") is not None
    assert meaning_of("LWLock", "NoSuchLock") is None


def observed(stored: StoredExperiment, folder: Path) -> StoredExperiment:
    """Every judged trial with one connection that waits half of 10 s for WALInsert, in the arm all of it."""
    roles = {arm.id: arm.role for arm in stored.experiment.arms}
    trials = []
    for trial in stored.trials:
        place = folder / "judged" / str(trial.record.number)
        waiting = 100 if roles[trial.record.arm_id] == "arm" else 50
        _write(place / layout.OBSERVATIONS_FOLDER, waiting)
        facts = TrialFacts.model_validate({"observer": {"rate_hz": 10.0, "over": "unix"}})
        changes = {"clock_ns": (0, 10 * SECOND_NS), "facts": facts}
        trials.append(replace(trial, record=trial.record.model_copy(update=changes), folder=place))
    return replace(stored, trials=tuple(trials))


def _write(place: Path, waiting: int) -> None:
    place.mkdir(parents=True)
    ends = [0, 10 * SECOND_NS]
    zeros = [0, 0]
    threads = {
        "from_ns": [0, 0],
        "clock_ns": ends,
        "edge": zeros,
        "pid": [7, 7],
        "thread": [7, 7],
        "kind": ["backend", "backend"],
        "start_ns": zeros,
        "seen_ns": ends,
        "alive": [1, 1],
        "run_ns": zeros,
        "delay_ns": zeros,
        "slices": zeros,
        "process_cpu_ns": zeros,
        "children_cpu_ns": zeros,
        "read_bytes": zeros,
        "write_bytes": zeros,
        "block_delay_ns": zeros,
    }
    waits = {
        "from_ns": [0, 0],
        "clock_ns": ends[1:] * 2,
        "edge": zeros,
        "pid": [7, 7],
        "thread": [7, 7],
        "kind": ["backend", "backend"],
        "activity": ["active", "active"],
        "wait_event_type": ["LWLock", "Client"],
        "wait_event": ["WALInsert", "ClientRead"],
        "scheduler_state": ["S", "S"],
        "samples": [waiting, 100 - waiting],
    }
    for name, columns in (("threads", threads), ("waits", waits)):
        content = to_parquet(columns, sampler=name, version=1)  # type: ignore[arg-type]
        (place / f"{name}.parquet").write_bytes(content)


def test_waits_are_per_transaction_with_their_meaning(tmp_path: Path) -> None:
    stored = observed(profiled(tmp_path, rounds=2), tmp_path)
    found = profile_result(stored)
    assert found is not None
    (wait,) = found.waits
    assert (wait.event_type, wait.event) == ("LWLock", "WALInsert")
    transactions = stored.trials[0].record.load
    assert transactions is not None
    # 5 s of about 100,000 transactions in the control, 10 s in the arm.
    assert wait.us[0] == pytest.approx(50, rel=0.05)
    assert wait.us[1] == pytest.approx(100, rel=0.05)
    shown = " ".join(page_of(analyse(stored), stored).terminal(width=100, unicode=False).split())
    assert "LWLock WALInsert: one of the places" in shown
    assert "Remedy: write less WAL" in shown
