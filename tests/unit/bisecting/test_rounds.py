"""One round of a search: what it asks of the experiment that it is."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import report_examples as examples
from pgassay.bisecting import rounds
from pgassay.errors import MeasurementError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.further_results.bisection import BisectionRound, BisectionState, Place
from pgassay.progress import NullProgress
from pgassay.record.experiment import StoredExperiment

PLACES = tuple(Place(name=name, build=name) for name in ("npm:17.4", "npm:17.5", "npm:17.6"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[CompareRequest]:
    """The requests of rounds, of which none is run."""
    found: list[CompareRequest] = []
    monkeypatch.setattr(rounds, "parse_request", found.append)
    monkeypatch.setattr(rounds, "run_parsed", lambda *_, **__: None)
    return found


def run(tmp_path: Path, **changed: Any) -> None:
    known = {each.name for each in fields(CompareRequest)}
    assert {*changed} <= known
    request = CompareRequest(factors=(), workload="select-only", **changed)
    for number in range(1, 4):
        one = BisectionRound(folder=f"round-{number:03d}", low=0, high=2, places=(1,), blocks=1)
        rounds.run_round(request, one, PLACES, rounds.RoundRun(tmp_path, NullProgress(), 60.0))


def test_a_seed_gives_each_round_an_order_of_its_own(asked: list[CompareRequest], tmp_path: Path) -> None:
    run(tmp_path, seed=7)
    run(tmp_path, seed=7)
    seeds = [each.seed for each in asked]
    assert seeds[:3] == seeds[3:]
    assert len({*seeds}) == 3


def test_without_a_seed_each_round_draws_one(asked: list[CompareRequest], tmp_path: Path) -> None:
    run(tmp_path)
    assert [each.seed for each in asked] == [None] * 3


def test_a_round_says_what_is_measured_in_it() -> None:
    ends, between, apart = (
        BisectionRound(folder=folder, low=low, high=2, places=places, blocks=1)
        for folder, low, places in (("ends", 0, ()), ("round-001", 0, (1,)), ("round-002", 1, ()))
    )
    state = BisectionState(kind="builds", places=PLACES, asked={}, rounds=(ends, between, apart))
    assert [rounds.announced(each, state, left) for each, left in ((ends, 2), (between, 2), (apart, 1))] == [
        ("the two ends", "the two ends first: npm:17.4 and npm:17.6, 2 builds after the first"),
        ("round 001", "round 001: npm:17.5 between both ends; all are candidates"),
        ("round 002", "round 002: npm:17.5 and npm:17.6, with no other server between them; 1 left"),
    ]


def failed(failing: dict[str, str], ran: set[str]) -> tuple[StoredExperiment, BisectionRound]:
    """A round of a list that failed: some members' trials fail, of others each has one that ran."""
    one = BisectionRound(folder="round-001", low=0, high=2, places=(1,), blocks=2)
    stored = examples.stored(levels=[place.build for place in PLACES], blocks=1)
    arms = tuple(
        arm.model_copy(update={"levels": {"build": next(iter(arm.levels.values()))}})
        for arm in stored.experiment.arms
    )
    stored = replace(stored, experiment=stored.experiment.model_copy(update={"arms": arms}))
    trials = []
    for trial in stored.trials:
        arm = next(arm for arm in stored.experiment.arms if arm.id == trial.record.arm_id)
        build = arm.levels["build"]
        if build in failing:
            changes = {"status": "failed", "reason": failing[build]}
            trials.append(replace(trial, record=trial.record.model_copy(update=changes)))
        elif build in ran:
            trials.append(trial)
    return replace(stored, trials=tuple(trials), stopped="failed"), one


def test_a_commit_whose_trials_fail_is_left_out_and_no_end_is() -> None:
    good, middle, bad = (place.build for place in PLACES)
    reason = {middle: "the server has crashed"}
    found = rounds.failing_places(*failed(reason, {good}), PLACES)
    assert found == {1: "its trials fail: the server has crashed"}
    # It may be the machine where nothing ran, or an end failed too.
    assert rounds.failing_places(*failed(reason, set()), PLACES) == {}
    assert rounds.failing_places(*failed(reason | {bad: "the disk is full"}, {good}), PLACES) == {}
    stored, one = failed(reason, {good, bad})
    assert rounds.failing_places(replace(stored, stopped="blocks"), one, PLACES) == {}


def test_a_commit_whose_server_does_not_start_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one = BisectionRound(folder="round-001", low=0, high=2, places=(1,), blocks=2)
    why = "initdb failed while making a cluster: boom\nin two lines"

    def starts(build: str) -> None:
        assert build == PLACES[1].build, "the ends have been measured"
        raise MeasurementError(why)

    monkeypatch.setattr(rounds, "resolve", lambda text: text)
    monkeypatch.setattr(rounds, "build_settings", starts)
    said = "its server does not start: initdb failed while making a cluster: boom"
    assert rounds.places_that_do_not_start(one, PLACES) == {1: said}
    why = "initdb failed while making a cluster: No space left on device"
    with pytest.raises(MeasurementError, match="No space left"):
        rounds.places_that_do_not_start(one, PLACES)
    monkeypatch.setattr(rounds, "build_settings", lambda _: {})
    assert rounds.places_that_do_not_start(one, PLACES) == {}
