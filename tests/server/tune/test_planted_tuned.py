"""Planted defects of `benchmarks/planted_tunes.py` through the whole of tune; decoys need nothing."""

import sys
from pathlib import Path

import pytest

from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.tuning.answer import TuneResult
from pgassay.terminal.progress import NullProgress
from pgassay.tune.plan import TuneRequest
from pgassay.tune.run import TOOLS, run_tune
from project_files import ROOT
from server_helpers import best_build

sys.path.insert(0, str(ROOT / "benchmarks"))
from tune_plants.base import Drawn
from tune_plants.table import PLANTS

pytestmark = [pytest.mark.server, pytest.mark.slow]

# One of each layer, and a second index; on a seed of their own.
NAMES = ("index-equality", "index-partial", "statistics-dependencies", "work-mem-sort")
SEED = 9001
SETTINGS = {"shared_buffers": "256MB", "random_page_cost": "1.1", "max_parallel_workers_per_gather": "0"}


def tuned(folder: Path, drawn: Drawn) -> TuneResult:
    """The plant as a script and a list of statements, through everything."""
    (folder / "data.sql").write_text(";\n".join(drawn.setup) + ";\n")
    lines = [f"-- name: {each.name}\n{each.sql};\n" for each in drawn.statements]
    (folder / "slow.sql").write_text("".join(lines))
    compare = CompareRequest(
        factors=(),
        workload=f"sql:{folder / 'slow.sql'}",
        dataset=f"script:{folder / 'data.sql'}",
        settings=tuple(f"{name}={value}" for name, value in (SETTINGS | drawn.settings).items()),
        build=best_build().bin_directory,
        max_time_s=300,
        seed=1,
    )
    return run_tune(
        TuneRequest(compare, out=folder / "out"), TOOLS, NullProgress(), wait=True, isolates=False
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_defect_is_mended_and_the_fix_stands_first(name: str, tmp_path: Path) -> None:
    plant = next(each for each in PLANTS if each.name == name)
    drawn = plant.drawn(SEED, decoy=False)
    result = tuned(tmp_path, drawn)
    best = result.fixes[0]
    assert best.verdict == "recommended", result.verdict
    assert best.kind == plant.kind or best.sql, best.title
    assert best.gain is not None and best.gain > 1.03


@pytest.mark.parametrize("name", NAMES)
def test_a_decoy_needs_nothing(name: str, tmp_path: Path) -> None:
    plant = next(each for each in PLANTS if each.name == name)
    result = tuned(tmp_path, plant.drawn(SEED, decoy=True))
    assert result.nothing_to_do, result.verdict
