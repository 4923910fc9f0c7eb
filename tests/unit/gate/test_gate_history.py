"""Effects over stored gates and experiments: where they changed, and how it is shown."""

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import report_examples as examples
from pgassay.analysis.gate.gate_history import history_of
from pgassay.analysis.statistics.shifts import shifts
from pgassay.cli import main
from pgassay.model.gates.gate import GateResult
from pgassay.model.gates.history import HistoryResult
from pgassay.record.gates import write_gate
from pgassay.report import schema
from pgassay.report.gate import history_page
from simulated_gates import Nights, workload_of

NIGHTS, CHANGED_AT = 16, 9
SLOWER = -math.log(1.05)


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> list[GateResult]:
    """Sixteen nights, from the tenth on q01 is 5 % slower; each night has a revision."""
    workload = workload_of(tmp_path_factory.mktemp("gate"), statements=3)
    line = Nights(workload, seed=9, statements=3, spread=0.01, blocks=12)
    for night in range(NIGHTS):
        line.night({"q01": SLOWER} if night >= CHANGED_AT else {})
    return [
        gate.model_copy(update={"change": gate.change.model_copy(update={"revision": f"{night:040x}"})})
        for night, gate in enumerate(line.stored)
    ]


@pytest.fixture(scope="module")
def found(gates: list[GateResult]) -> HistoryResult:
    return history_of("nightly", [(f"night-{night:02d}", gate) for night, gate in enumerate(gates)], [])


def test_the_first_run_after_a_change_is_named(found: HistoryResult) -> None:
    changed = {series.name: series.changes for series in found.series if series.changes}
    (change,) = changed["simulated/q01"]
    assert change.earliest <= CHANGED_AT <= change.latest
    assert abs(change.run - CHANGED_AT) <= 1
    assert change.after / change.before == pytest.approx(1 / 1.05, abs=0.01)
    assert f"night-{change.run:02d} ({change.run:012x}"[:20] in found.verdict
    # The whole is slower by a third of it, if anything is.
    assert changed.keys() <= {"simulated/q01", "simulated"}


def test_without_a_change_nothing_is_named(gates: list[GateResult]) -> None:
    before = [(str(night), gate) for night, gate in enumerate(gates[:CHANGED_AT])]
    quiet = history_of("nightly", before, [])
    assert quiet.verdict == f"No change was found in 4 series over {CHANGED_AT} runs."
    assert "too few to find a change" in history_of("nightly", before[:3], []).verdict


def test_runs_against_another_baseline_are_a_series_of_their_own(gates: list[GateResult]) -> None:
    """The baseline became slower, and nobody's commit is blamed for it."""
    moved = []
    for night, gate in enumerate(gates):
        before = night < CHANGED_AT
        of = tuple(each.model_copy(update={"baseline": "ab"[before]}) for each in gate.workloads)
        moved.append((f"night-{night:02d}", gate.model_copy(update={"workloads": of})))
    made = history_of("nightly", moved, [])
    assert not any(series.changes for series in made.series)
    first, *_, last = made.verdict.splitlines()
    assert first == f"No change was found in 8 series over {NIGHTS} runs."
    assert last == "simulated was compared with 2 baselines: each is a series of its own."
    names = [series.name for series in made.series]
    assert "simulated/q01 against the baseline of night-00" in names
    assert f"simulated/q01 against the baseline of night-{CHANGED_AT:02d}" in names


def test_the_order_is_that_of_time_and_not_of_names(gates: list[GateResult], found: HistoryResult) -> None:
    backwards = [(f"night-{night:02d}", gate) for night, gate in enumerate(gates)][::-1]
    assert history_of("nightly", backwards, []) == found


def test_every_output_shows_it(found: HistoryResult) -> None:
    shown = history_page.page_of(found).terminal(width=110)
    assert "simulated/q01 became 4." in shown
    assert "| simulated/q01 |" in history_page.page_of(found).markdown()
    document = json.loads(history_page.page_of(found).json())
    jsonschema.validate(document, schema.HISTORY.schema(), cls=jsonschema.Draft202012Validator)
    assert document["series"][0]["points"][0]["run"] == 0


def test_the_page_draws_each_series_and_holds_all_it_needs(found: HistoryResult) -> None:
    page = history_page.page_of(found).html()
    assert page.count("<svg") == 2 * len(found.series)
    assert "first after it: night-" in page or "night-" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page


def test_what_is_not_drawn_is_counted_in_words(found: HistoryResult) -> None:
    many = tuple(found.series[0].model_copy(update={"name": f"s{number}"}) for number in range(27))
    effects = history_page.sections(found.model_copy(update={"series": many}))[1]
    assert any(getattr(block, "text", "") == "The table has 3 more series." for block in effects.blocks)


def test_experiments_are_runs_as_well() -> None:
    experiments = [(f"e{number}", examples.stored(blocks=8)) for number in range(4)]
    made = history_of("results", [], experiments)
    assert len(made.runs) == 4
    assert {len(series.points) for series in made.series} == {4}
    assert all(" against " in series.name for series in made.series)
    assert all(point.interval for series in made.series for point in series.points)


def test_a_baseline_that_moves_each_night_is_one_series(
    gates: list[GateResult], found: HistoryResult
) -> None:
    nights = []
    for night, gate in enumerate(gates):
        of = tuple(each.model_copy(update={"baseline": str(night)}) for each in gate.workloads)
        nights.append((f"night-{night:02d}", gate.model_copy(update={"workloads": of})))
    assert history_of("nightly", nights, []) == found


def test_experiments_on_other_data_are_a_series_of_their_own() -> None:
    experiments = []
    for number in range(4):
        made = examples.stored(blocks=8)
        scaled = made.experiment.arms[0].spec.dataset.model_copy(update={"scale": 1 + 9 * (number > 1)})
        arms = tuple(
            arm.model_copy(update={"spec": arm.spec.model_copy(update={"dataset": scaled})})
            for arm in made.experiment.arms
        )
        experiment = made.experiment.model_copy(update={"arms": arms})
        experiments.append((f"e{number}", replace(made, experiment=experiment)))
    found = history_of("results", [], experiments)
    assert {len(series.points) for series in found.series} == {2}
    assert {series.name.rpartition(" (")[2] for series in found.series} == {"scale 1)", "scale 10)"}


def test_the_command_reads_gates_from_a_folder(
    gates: list[GateResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for night, gate in enumerate(gates):
        folder = tmp_path / f"night-{night:02d}"
        folder.mkdir()
        write_gate(folder, gate)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "gate.json").write_text("{")
    page = tmp_path / "history.html"
    assert main.main(["history", str(tmp_path), "--json", "--html", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == NIGHTS
    assert "broken" in document["skipped"][0]
    assert page.stat().st_size > 10_000
    assert main.main(["history", str(tmp_path), "--markdown"]) == 0
    assert main.main(["history", str(tmp_path)]) == 0
    assert "the first run after the change is night-" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["{folder}/none"], "there is no folder"),
        (["{folder}"], "has neither gates nor experiments"),
        (["{folder}", "--alpha", "0.9"], "--alpha 0.9 is out of range"),
    ],
)
def test_what_can_not_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert main.main(["history", *(word.format(folder=tmp_path) for word in words)]) == 2
    assert complaint in capsys.readouterr().err


def series_with_steps(random: np.random.Generator, *steps: int, runs: int = 40) -> np.ndarray:
    level = sum(0.04 * (np.arange(runs) >= step) * (-1) ** place for place, step in enumerate(steps))
    return (level + 0.01 * random.standard_normal(runs))[np.newaxis]


def test_two_changes_of_one_series_are_told_apart() -> None:
    values = series_with_steps(np.random.default_rng(4), 12, 28)
    (found,) = shifts(values, np.full(values.shape, 0.01))
    assert [shift.index for shift in found] == [12, 28]
    assert found[0].after == pytest.approx(0.04, abs=0.01)
    assert found[1].after == pytest.approx(0.0, abs=0.01)


def test_what_was_not_measured_is_left_out() -> None:
    values = series_with_steps(np.random.default_rng(5), 20)
    values[0, [3, 20, 21, 33]] = np.nan
    (found,) = shifts(values, np.full(values.shape, 0.01))
    assert [shift.index for shift in found] == [22]


def test_constant_short_and_empty_series_have_no_shift() -> None:
    assert shifts(np.zeros((2, 30)), np.ones((2, 30))) == ((), ())
    assert shifts(np.array([[0.0, 0.0, 9.0]]), np.ones((1, 3))) == ((),)
    assert shifts(np.full((1, 30), np.nan), np.ones((1, 30))) == ((),)
    assert shifts(np.empty((0, 30)), np.empty((0, 30))) == ()
    with pytest.raises(ValueError, match="alike"):
        shifts(np.zeros((2, 3)), np.zeros((2, 4)))


def test_a_run_of_great_uncertainty_counts_little() -> None:
    """One wild night of three blocks is no change, nor does it hide one."""
    values = series_with_steps(np.random.default_rng(6), 20)
    errors = np.full(values.shape, 0.01)
    values[0, 5], errors[0, 5] = 0.5, 0.5
    (found,) = shifts(values, errors)
    assert [shift.index for shift in found] == [20]


def test_dates_are_kept(found: HistoryResult) -> None:
    moments = [datetime.fromisoformat(run.created_at) for run in found.runs]
    assert {after - before for before, after in pairwise(moments)} == {timedelta(days=1)}
