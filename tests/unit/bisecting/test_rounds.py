"""One round of a search: what it asks of the experiment that it is."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pgassay.bisecting import rounds
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.further_results.bisection import BisectionRound, Place
from pgassay.progress import NullProgress

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
