"""The arithmetic of the bench of planted defects: found, left alone, foretold."""

import sys

import pytest

from project_files import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from tune_plants.tally import Ran, Tally


@pytest.mark.parametrize(
    ("predicted", "gained", "near"),
    [
        (2.0, 2.0, True),
        (50.0, 70.0, True),  # 98 % of the time saved, and 98.6 %
        (1.25, 1.33, True),  # 20 % foretold, 25 % saved
        (1.22, 1.33, False),  # 18 % foretold
        (1.44, 1.33, True),  # 31 %
        (1.50, 1.33, False),  # 33 %
        (1.0, 1.2, False),
        (1.1, 0.9, False),
        (None, 1.2, None),
        (1.2, None, None),
    ],
)
def test_a_prediction_is_near_within_a_quarter_of_the_time_saved(
    predicted: float | None, gained: float | None, near: bool | None
) -> None:
    ran = Ran("brin", 1, decoy=False, word="first", predicted=predicted, gained=gained, blocks=5)
    assert ran.is_near is near
    assert ran.prediction.startswith({True: "near: ", False: "far: ", None: ""}[near])


def ran(word: str, *, decoy: bool = False, gained: float | None = None) -> Ran:
    return Ran("brin", 7, decoy=decoy, word=word, predicted=2.0, gained=gained, blocks=5)


def test_shares_are_of_plants_of_decoys_and_of_what_was_proved() -> None:
    tally = Tally([ran("first", gained=2.0), ran("told"), ran("nothing", decoy=True)])
    assert tally.is_reached
    assert tally.text().splitlines()[1:] == [
        "brin                           7 first     nothing  near: predicted 2.00, gained 2.00 (5 blocks)",
        "brin                           7 told      nothing  -",
        "first or told: 2 of 2 (100.0%): 1 first, 1 told, 0 behind another",
        "decoys left alone: 1 of 1 (100.0%)",
        "predicted within 25% of the time saved: 1 of 1 (100.0%)",
    ]
    # A decoy that something is recommended for, a fix behind another, a prediction that is far.
    for spoilt in (ran("WRONG", decoy=True), ran("otherwise"), ran("missed"), ran("first", gained=9.0)):
        worse = Tally([*tally.ran, spoilt])
        assert not worse.is_reached, spoilt
    # One of twenty may be missed, and one of five foretold wrongly.
    many = Tally([*([ran("first", gained=2.0)] * 19), ran("missed"), *([ran("first", gained=9.0)] * 1)])
    assert many.is_reached
    assert not Tally([*([ran("first", gained=2.0)] * 17), ran("missed")]).is_reached
    assert "missed" in many.text()
