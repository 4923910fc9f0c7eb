"""The bench of planted causes counts a name, a prediction and a decoy as right only when they are."""

import sys
from dataclasses import replace
from typing import Any

import pytest

import whole_tool

# The bench is no package: its table is found as its own script finds it.
sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from plants.base import Plant, judge
from plants.table import PLANTS

PLANT = Plant("row-locks", "16 connections", "prepare=hot.sql,spread.sql", "simple-update")


def result(
    planted: list[str], lifted: list[str], gain: float | None = 4.0, speeds: tuple[float, float] = (100, 380)
) -> dict[str, Any]:
    """A document of two arms, of which the first name is the limit and the others are faults."""
    causes = [
        {
            "arm": arm,
            "kind": "fault" if place else "limit",
            "cause": name,
            "gain_if_lifted": None if place else gain,
        }
        for arm, names in (("planted", planted), ("lifted", lifted))
        for place, name in enumerate(names)
    ]
    verdicts = ("control", "inconclusive")
    arms = [
        {"name": name, "verdict": verdict, "median": speed}
        for name, verdict, speed in zip(("planted", "lifted"), verdicts, speeds, strict=True)
    ]
    return {"arms": arms, "causes": causes, "metric": {"better": "higher"}}


def test_a_run_in_which_all_is_right() -> None:
    judgement = judge(PLANT, result(["row-locks"], ["unknown"]))
    assert (judgement.is_named, judgement.is_near, judgement.is_clean) == (True, True, True)
    assert judgement.measured == pytest.approx(3.8)


def test_another_limit_and_a_fault_that_nobody_planted_are_wrong() -> None:
    assert not judge(PLANT, result(["lwlocks"], ["unknown"])).is_named
    assert not judge(PLANT, result(["row-locks", "checkpoint"], ["unknown"])).is_named


def test_a_prediction_beyond_the_tolerance_is_wrong_and_none_is_not_counted() -> None:
    assert judge(PLANT, result(["row-locks"], ["unknown"], gain=2.8)).is_near is False
    assert judge(PLANT, result(["row-locks"], ["unknown"], gain=4.8)).is_near is False
    assert judge(PLANT, result(["row-locks"], ["unknown"], gain=None)).is_near is None


@pytest.mark.parametrize(
    ("ends", "is_near"), [((2.0, 4.0), True), ((2.0, 3.5), False), ((1.0, 4.0), False), (None, False)]
)
def test_ends_that_hold_what_was_measured_are_right_unless_they_would_hold_anything(
    ends: tuple[float, float] | None, is_near: bool
) -> None:
    found = result(["row-locks"], ["unknown"], gain=2.8)
    found["causes"][0]["gain_range"] = ends
    assert judge(PLANT, found).is_near is is_near


def test_a_gain_of_the_least_is_right_from_there_to_three_times_of_it() -> None:
    planted = replace(PLANT, cause="noise")
    found = {gain: result(["noise"], ["unknown"], gain=gain) for gain in (2.8, 1.2, 5.5)}
    assert [judge(planted, each).is_near for each in found.values()] == [True, False, False], "measured: 3.8"


def test_a_decoy_with_the_cause_or_any_fault_is_not_clean() -> None:
    assert judge(PLANT, result(["row-locks"], ["row-locks"])).is_clean is False
    assert judge(PLANT, result(["row-locks"], ["unknown", "temp-spill"])).is_clean is False


def test_noise_is_no_fault_of_a_plant_but_is_told() -> None:
    judgement = judge(PLANT, result(["row-locks"], ["unknown", "noise"]))
    assert judgement.is_named and judgement.is_clean and judgement.is_noisy
    planted = replace(PLANT, cause="noise")
    assert judge(planted, result(["unknown", "noise"], ["unknown", "noise"])).is_clean is False


def test_a_server_that_nobody_looks_into_was_disturbed_where_it_took_longer_than_its_own_work() -> None:
    timed = replace(PLANT, own_s=0.4)
    found = result(["row-locks"], ["unknown"], speeds=(0.8, 0.42)) | {"metric": {"better": "lower"}}
    assert not judge(timed, found).is_noisy
    found["arms"][1]["median"] = 0.6
    assert judge(timed, found).is_noisy


def test_of_a_mixture_both_are_named_and_the_other_stays() -> None:
    mixture = replace(PLANT, also=frozenset({"checkpoint"}))
    judgement = judge(mixture, result(["row-locks", "checkpoint"], ["unknown", "checkpoint"]))
    assert judgement.is_named and judgement.is_clean
    assert not judge(mixture, result(["row-locks"], ["unknown"])).is_named


def test_where_nothing_is_lifted_both_arms_must_have_it() -> None:
    same = replace(PLANT, lifts=False)
    judgement = judge(same, result(["row-locks"], ["unknown"]))
    assert (judgement.is_named, judgement.is_near, judgement.is_clean) == (False, None, None)
    assert judge(same, result(["row-locks"], ["row-locks"])).is_named


def test_the_table_has_what_was_promised() -> None:
    """At least 18 causes at two magnitudes, 4 mixtures of two, and 8 decoys."""
    single = {plant.cause for plant in PLANTS if not plant.also}
    twice = [cause for cause in single if sum(plant.name == cause for plant in PLANTS) >= 2]
    assert len(twice) >= 18
    assert len({plant.name for plant in PLANTS if plant.also}) >= 4
    decoys = {plant.name for plant in PLANTS if plant.lifts or plant.decoy is not None}
    assert len(decoys) >= 8
    assert all(plant.lifts or plant.decoy is not None for plant in PLANTS)
