"""Strata of a grid that ran on different machines: who says what, what is tied, what is withheld."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import analysis_samples as samples
from pgassay.analysis.machines.combine import combine
from pgassay.analysis.machines.gather import MachineDescription
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.experiment import Experiment
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadGrid, SpreadStratum
from pgassay.model.machines.spread_grid import CellsResult, StrataComparison
from pgassay.record.experiment import StoredExperiment
from pgassay.report import combine as report
from pgassay.report import schema
from pgassay.report.charts import machines_chart

STRATA = ("clients=1", "clients=8", "clients=50")
GRID = SpreadGrid(
    strata=tuple(SpreadStratum(name=name, arms=1, block_s={"alpha": 4.0}) for name in STRATA),
    anchors=("clients=1",),
    machines=("alpha", "beta"),
)
ALPHA, BETA = ("clients=1", "clients=8"), ("clients=1", "clients=50")


def with_levels(plan: Experiment) -> Experiment:
    """The strata as levels of a factor, as arms of a real grid have them."""
    arms = tuple(
        arm.model_copy(update={"levels": {**arm.levels, "clients": arm.stratum.partition("=")[2]}})
        for arm in plan.arms
    )
    return plan.model_copy(update={"arms": arms})


def on(
    host: str,
    strata: tuple[str, ...],
    effects: tuple[float, ...],
    *,
    blocks: int = 20,
    seed: int = 1,
    spread: float = 0.02,
    run: str = "",
) -> StoredExperiment:
    """An experiment of some strata of the grid, with the effect of each."""
    plan = with_levels(samples.experiment(statements=0, strata=strata))
    contract = plan.contract.model_copy(update={"contrasts": len(STRATA)})
    machine = {"hostname": host, "machine_id": f"id-of-{host}"}
    environment = plan.environment.updated(machine=machine)
    plan = plan.model_copy(update={"contract": contract, "environment": environment})
    made = {f"s{place}-1": effect for place, effect in enumerate(effects)}
    records = [
        trial.model_copy(
            update={
                "host": host,
                "boot_id": f"boot-{seed}",
                "started_at": f"2026-01-01T00:{number:04d}",
                "ended_at": f"2026-01-01T00:{number:04d}+{host}",
            }
        )
        for number, trial in enumerate(samples.simulate(plan, blocks, made, seed=seed, spread=spread))
    ]
    return replace(samples.stored(plan, records, "blocks"), folder=Path("/results") / f"{host}{run}")


def combined(*experiments: StoredExperiment) -> CombinedResult:
    told = {each.folder: MachineDescription(each.folder.name.partition("+")[0]) for each in experiments}
    return combine(experiments, told, least=1, grid=GRID)


def cells_of(result: CombinedResult) -> CellsResult:
    assert result.cells is not None
    return result.cells


def pair(result: CombinedResult, first: str, second: str) -> StrataComparison:
    return next(each for each in cells_of(result).between if {each.first, each.second} == {first, second})


def test_each_stratum_is_its_machine_s_and_anchors_are_of_all() -> None:
    alpha, beta = on("alpha", ALPHA, (0.05, 0.10)), on("beta", BETA, (0.05, -0.08), seed=2)
    result = combined(alpha, beta)
    assert [arm.stratum for arm in result.arms] == list(STRATA)
    anchor, eight, fifty = (arm.these_machines for arm in result.arms)
    assert (anchor.machines, anchor.blocks) == (2, 40)
    assert (eight.machines, eight.verdict) == (1, "faster")
    assert (fifty.machines, fifty.verdict) == (1, "slower")
    # To the digit what the machine's own experiment says.
    own = next(arm for arm in analyse(alpha).arms if arm.stratum == "clients=8" and arm.verdict == "faster")
    assert eight.interval == pytest.approx(own.interval, abs=1e-12)
    assert [stratum.machines for stratum in cells_of(result).strata] == [
        ("alpha", "beta"),
        ("alpha",),
        ("beta",),
    ]
    lines = result.verdict.splitlines()
    assert lines[0].startswith("On alpha and beta (an anchor) io_method=method1 clients=1 is ")
    assert lines[1].startswith("On alpha io_method=method1 clients=8 is ")
    assert lines[2].startswith("On beta io_method=method1 clients=50 is ")
    assert "machines like these" not in result.verdict.lower()


def test_pairs_on_one_machine_need_no_tie_and_others_are_tied() -> None:
    result = combined(
        on("alpha", ALPHA, (0.05, 0.20), blocks=40), on("beta", BETA, (0.05, -0.08), seed=2, blocks=40)
    )
    here = pair(result, "clients=1", "clients=8")
    assert (here.machines, here.word) == (("alpha",), "larger")
    tied = pair(result, "clients=8", "clients=50")
    assert tied.machines == ("beta", "alpha")
    assert (tied.first, tied.word) == ("clients=50", "smaller")
    assert tied.ratio == pytest.approx(2.718**-0.28, abs=0.03)
    assert "smaller at clients=50 than at clients=8, tied over beta and alpha" in result.verdict
    (mean,) = cells_of(result).overall
    assert (mean.arm, mean.control) == ("io_method=method1", "io_method=sync")
    assert mean.ratio == pytest.approx(2.718 ** ((0.05 + 0.20 - 0.08) / 3), abs=0.02)
    low, high = mean.interval or (None, None)
    assert low and high and low < 2.718**0.0567 < high


def test_a_machine_s_own_factor_is_taken_out_by_the_anchor() -> None:
    """Beta makes every effect 2 % larger, too little to be found in ten blocks."""
    result = combined(
        on("alpha", ALPHA, (0.05, 0.10), blocks=10), on("beta", BETA, (0.07, 0.12), seed=2, blocks=10)
    )
    own = {(row.name, row.stratum): row.ratio or 0.0 for row in result.machines}
    tied = pair(result, "clients=8", "clients=50")
    of_strata = own["beta", "clients=50"] / own["alpha", "clients=8"]
    of_anchors = own["beta", "clients=1"] / own["alpha", "clients=1"]
    assert tied.ratio == pytest.approx(of_strata / of_anchors, rel=1e-9)
    assert tied.word == "inconclusive"


def test_where_the_anchors_disagree_nothing_is_tied() -> None:
    result = combined(on("alpha", ALPHA, (0.05, 0.10)), on("beta", BETA, (-0.15, 0.1), seed=2))
    anchor, eight, fifty = result.arms
    assert anchor.these_machines.ratio is None
    assert anchor.these_machines.note.startswith("the machines disagree")
    # What one machine measured stays its own.
    assert eight.these_machines.verdict == fifty.these_machines.verdict == "faster"
    tied = pair(result, "clients=8", "clients=50")
    assert (tied.ratio, tied.interval, tied.withheld) == (None, None, True)
    assert pair(result, "clients=1", "clients=8").ratio is not None
    (mean,) = cells_of(result).overall
    assert (mean.ratio, mean.withheld) == (None, True)
    assert "there is no mean of io_method=method1: the machines disagree at the anchor clients=1" in (
        result.verdict
    )
    assert sum("disagree at the anchor clients=1" in each for each in cells_of(result).not_compared) == 1


def test_a_stratum_that_another_machine_went_on_with_is_compared_with_no_other() -> None:
    result = combined(
        on("alpha", ALPHA, (0.05, 0.10)),
        on("beta", BETA, (0.05, 0.10), blocks=3, seed=2),
        on("alpha", ("clients=50",), (0.10,), seed=3, run="+2"),
    )
    fifty = result.arms[2].these_machines
    assert (fifty.machines, fifty.blocks, fifty.verdict) == (2, 23, "faster")
    assert pair(result, "clients=8", "clients=50").withheld
    assert any("Several machines ran clients=50" in each for each in cells_of(result).not_compared)
    (mean,) = cells_of(result).overall
    assert (mean.ratio, mean.note) == (None, "clients=50 changed the machine")
    assert [row.name for row in result.machines if row.stratum == "clients=50"] == ["alpha", "beta"]


def test_what_no_machine_measured_is_said() -> None:
    result = combined(on("alpha", ALPHA, (0.05, 0.10)), on("beta", ("clients=1",), (0.05,), seed=2))
    assert [stratum.blocks for stratum in cells_of(result).strata] == [40, 20, 0]
    assert "No block of clients=50 is complete: no result there." in cells_of(result).not_compared
    (mean,) = cells_of(result).overall
    assert mean.note == "it has no complete block at clients=50"


def test_the_document_obeys_its_schema_and_pages_name_the_machines() -> None:
    result = combined(on("alpha", ALPHA, (0.05, 0.10)), on("beta", BETA, (-0.15, 0.1), seed=2))
    document: dict[str, Any] = json.loads(report.page_of(result).json())
    jsonschema.validate(document, schema.COMBINED.schema(), cls=jsonschema.Draft202012Validator)
    assert document["cells"]["anchors"] == ["clients=1"]
    for shown in (
        report.page_of(result).terminal(),
        report.page_of(result).markdown(),
        report.page_of(result).html(),
    ):
        assert "Which machine ran what" in shown
        assert "Speeds of strata that different machines ran are not compared" in shown


def test_each_stratum_is_drawn_with_its_machine_and_machines_only_of_anchors() -> None:
    result = combined(on("alpha", ALPHA, (0.05, 0.10)), on("beta", BETA, (-0.15, 0.1), seed=2))
    first, *others = machines_chart.drawings(result, result.arms)
    assert first.name == "strata"
    drawn = [row["full"] for row in first.wide["datasets"]["rows"]]  # type: ignore[index]  # JSON
    assert len(drawn) == len(result.arms)
    assert any(name.endswith(", 2 machines") for name in drawn)
    for drawing in others:
        rows = drawing.wide["datasets"]["rows"]  # type: ignore[index]  # JSON
        assert "machines like these" not in [row["label"] for row in rows]
