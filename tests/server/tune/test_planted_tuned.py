"""Planted defects of `benchmarks/planted_tunes.py` through the whole of tune; decoys need nothing."""

import sys
from pathlib import Path

import pytest

from project_files import ROOT
from server_helpers import best_build

sys.path.insert(0, str(ROOT / "benchmarks"))
from tune_plants.base import Drawn
from tune_plants.table import PLANTS
from tune_plants.whole import tuned

pytestmark = [pytest.mark.server, pytest.mark.slow]

# One of each layer, and a second index; on a seed of their own.
NAMES = ("index-equality", "index-partial", "statistics-dependencies", "work-mem-sort")
SEED = 9001
MAX_TIME_S = 300.0


def planted(name: str, *, decoy: bool) -> Drawn:
    return next(each for each in PLANTS if each.name == name).drawn(SEED, decoy=decoy)


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_defect_is_mended_and_the_fix_stands_first(name: str, tmp_path: Path) -> None:
    drawn = planted(name, decoy=False)
    whole = tuned(tmp_path, drawn, best_build().bin_directory, MAX_TIME_S)
    best = whole.result.fixes[0]
    assert whole.found(drawn) == "first", (whole.result.verdict, best.title)
    assert best.gain is not None and best.gain > 1.03


@pytest.mark.parametrize("name", NAMES)
def test_a_decoy_needs_nothing(name: str, tmp_path: Path) -> None:
    whole = tuned(tmp_path, planted(name, decoy=True), best_build().bin_directory, MAX_TIME_S)
    assert not [fix for fix in whole.result.fixes if fix.verdict == "recommended"], whole.result.verdict


# What a plan does not show, two indexes that gain the same, and what no SQL takes back: what the search makes
# of them.
@pytest.mark.parametrize(
    "name", ["foreign-key", "index-equality-and-range", "fillfactor-hot", "statistics-target"]
)
def test_the_search_chooses_the_fix_first_before_its_proof(name: str, tmp_path: Path) -> None:
    drawn = planted(name, decoy=False)
    whole = tuned(tmp_path, drawn, best_build().bin_directory, MAX_TIME_S, proves=False)
    assert whole.chosen(drawn) == "first", whole.search
    # Nothing is recommended that no proof confirmed.
    assert not [fix for fix in whole.result.fixes if fix.verdict == "recommended"]
    assert whole.result.interrupted and not whole.result.nothing_to_do


@pytest.mark.parametrize("name", ["shared-buffers", "checkpoints-requested"])
def test_what_no_trial_can_show_is_told_with_the_reason(name: str, tmp_path: Path) -> None:
    drawn = planted(name, decoy=False)
    whole = tuned(tmp_path, drawn, best_build().bin_directory, MAX_TIME_S, proves=False)
    (fix,) = whole.fixes(drawn)
    assert (fix.verdict, fix.evidence) == ("screened out", "none")
    assert "reported, not tested" in fix.note
    assert whole.chosen(drawn) == "told"
