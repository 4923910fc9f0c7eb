"""What the reports show beside the verdict: trials, reads, facts, plans, drawings."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.charts import interval_chart, palette, result_charts
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX
from pgassay.report.compare import plan_trees, recorded_facts, trials

SVG = "{http://www.w3.org/2000/svg}"


def with_records(stored: StoredExperiment, change) -> StoredExperiment:
    """The same experiment with every trial's record changed by `change(record) -> dict`."""
    changed = tuple(
        StoredTrial(trial.record.model_copy(update=change(trial.record)), trial.plans, trial.folder)
        for trial in stored.trials
    )
    return StoredExperiment(stored.folder, stored.experiment, changed, stored.stopped, stored.seconds_used)


def test_trials_stand_in_the_order_they_ran_with_failures() -> None:
    stored = examples.stored(blocks=3, failing=frozenset({4}))
    rows = trials.trial_rows(stored)
    assert [row.order for row in rows] == list(range(1, 14))
    assert [row.started_at for row in rows] == sorted(row.started_at for row in rows)
    failed = [row for row in rows if row.status == "failed"]
    assert [(row.value, row.reason) for row in failed] == [(None, "the server was killed: signal 9")]
    assert sum(row.group == "twin" for row in rows) == 3
    assert all(row.value is not None for row in rows if row.status == "ok")


def test_reads_show_the_least_share_that_the_device_delivered() -> None:
    stored = examples.stored(blocks=2)
    row = trials.read_rows(stored)[0]
    assert (row.statement, row.arm, row.trials, row.cold_trials) == ("count_accounts", "io_method=sync", 2, 2)
    assert row.device_fraction_min == pytest.approx(1_343_000_000 / 1_343_488_000)


def test_settings_that_differ_come_first_and_passing_values_are_no_difference() -> None:
    tables = recorded_facts.trial_tables(examples.stored(blocks=5), "facts")
    assert [table.title for table in tables] == ["settings", ""]
    assert [row.name for row in tables[0].differing] == ["io_method"]
    assert tables[0].rows[0].values[:3] == ("sync", "worker", "io_uring")
    general = {row.name: row for row in tables[1].rows}
    assert not general["postmaster_pid"].differs
    assert "…" in general["postmaster_pid"].values[0]
    assert general["data_checksums"].values == ("yes",) * 4


def test_rows_of_a_view_are_named_after_their_text() -> None:
    view = [
        {"backend_type": "client backend", "context": "normal", "reads": 5},
        {"backend_type": "io worker", "context": "normal", "reads": 7},
    ]
    assert recorded_facts.flatten({"pg_stat_io": view, "pg_stat_wal": [{"wal_bytes": 3}], "none": []}) == {
        "pg_stat_io.client backend normal.reads": "5",
        "pg_stat_io.io worker normal.reads": "7",
        "pg_stat_wal.wal_bytes": "3",
        "none": "none",
    }


def test_a_plan_reads_like_explain_and_marks_asynchronous_nodes() -> None:
    lines = list(plan_trees.plan_lines(examples.scan_plan("pgbench_accounts"), 18))
    assert [(line.depth, line.text.split("  ")[0]) for line in lines if not line.is_detail] == [
        (0, "Aggregate"),
        (1, "Gather"),
        (2, "Parallel Seq Scan on pgbench_accounts"),
    ]
    assert [line.text.split("  ")[0] for line in lines if line.aio] == [
        "Parallel Seq Scan on pgbench_accounts"
    ]
    assert "Filter: (abalance > 0)" in [line.text for line in lines if line.is_detail]
    assert not any(line.aio for line in plan_trees.plan_lines(examples.scan_plan("t"), 17))
    assert not any(line.aio for line in plan_trees.plan_lines(examples.scan_plan("t", index=True), 18))


def test_operations_have_the_names_of_explain() -> None:
    def name(**node) -> str:
        return next(plan_trees.plan_lines({"Plan": node}, 18)).text

    assert name(**{"Node Type": "Hash Join", "Join Type": "Left"}) == "Hash Left Join"
    assert name(**{"Node Type": "Nested Loop", "Join Type": "Semi"}) == "Nested Loop Semi Join"
    assert name(**{"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "t"}) == "Update on t"
    assert name(**{"Node Type": "Merge Join", "Join Type": "Inner"}) == "Merge Join"
    assert (
        name(**{"Node Type": "Aggregate", "Strategy": "Hashed", "Partial Mode": "Finalize"})
        == "Finalize HashAggregate"
    )
    assert (
        name(**{"Node Type": "Seq Scan", "Relation Name": "t", "Alias": "x", "Plan Rows": 4})
        == "Seq Scan on t x  (estimated rows=4)"
    )


def test_plans_are_grouped_by_what_they_do() -> None:
    found = {
        entry.statement: entry for entry in plan_trees.statement_plans(examples.stored(differing_plans=True))
    }
    assert not found["count_accounts"].differ
    assert found["sum_abalance"].differ
    assert len(found["sum_abalance"].variants) == 2
    counted = sum(count for variant in found["sum_abalance"].variants for _, count in variant.trials_by_arm)
    assert counted == 48


def test_a_damaged_plan_is_shown_and_not_fatal() -> None:
    stored = examples.stored(blocks=1)
    odd = tuple(StoredTrial(trial.record, {"s": "not a plan"}, trial.folder) for trial in stored.trials)
    found = plan_trees.statement_plans(StoredExperiment(stored.folder, stored.experiment, odd, "blocks"))
    assert found[0].variants[0].scans == "no plan recorded"


def marks(svg: str, colour: str) -> int:
    """How many elements of a drawing are painted in a colour."""
    root = ElementTree.fromstring(svg)
    return sum(1 for node in root.iter() if colour in (node.get("fill"), node.get("stroke")))


def text_of(svg: str) -> str:
    """Every word that a drawing shows."""
    return " ".join("".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text"))


@pytest.mark.parametrize("width", [WIDE_PX, NARROW_PX])
def test_the_interval_plot_has_a_row_for_every_compared_arm_and_the_twin(width: int) -> None:
    result = analyse(examples.stored())
    svg = result_charts.intervals(result, width_px=width)
    shown = text_of(svg)
    for words in ("io_method=worker", "io_method=io_uring", "twin of the control", "1×", "±3 %"):
        assert words in shown
    assert marks(svg, palette.BAND) == 1
    assert marks(svg, palette.ARMS[0]) == 4
    drawn_px = float(ElementTree.fromstring(svg).get("width", "0"))
    assert drawn_px <= width * 1.08


def test_a_longer_interval_is_drawn_longer() -> None:
    stored = examples.stored()
    arms = examples.result(stored).arms
    short = arms[1].model_copy(update={"interval": (1.19, 1.21)})
    long = arms[2].model_copy(update={"interval": (1.0, 1.7)})
    svg = result_charts.intervals(examples.result(stored, arms=(arms[0], short, long)))
    lengths = [
        abs(float(node.get("x2", "0")))
        for node in ElementTree.fromstring(svg).iter(f"{SVG}line")
        if node.get("stroke") == palette.ARMS[0]
    ]
    assert lengths[1] > 10 * lengths[0] > 0


def test_arms_without_an_interval_say_so_and_open_ends_have_arrows() -> None:
    stored = examples.stored(levels=["sync", "worker", "io_uring", "other"])
    arms = examples.result(stored).arms
    nothing = arms[1].model_copy(update={"interval": None, "ratio": None, "trials": 0, "values": ()})
    waiting = arms[2].model_copy(update={"interval": None, "ratio": None})
    unbounded = arms[3].model_copy(update={"interval": (0.0, math.inf), "ratio": 1.0})
    shown = text_of(
        result_charts.intervals(examples.result(stored, arms=(arms[0], nothing, waiting, unbounded)))
    )
    assert "no interval: no valid trial" in shown
    assert "no interval yet" in shown
    svg = result_charts.intervals(examples.result(stored, arms=(arms[0], unbounded)))
    # A line, a point and two arrow heads.
    assert marks(svg, palette.ARMS[0]) == 4


@pytest.mark.parametrize("ratio", [186.0, 1 / 186])
def test_a_very_large_effect_lies_on_its_axis_with_its_interval(ratio: float) -> None:
    stored = examples.stored()
    arms = examples.result(stored).arms
    large = arms[1].model_copy(update={"ratio": ratio, "interval": (ratio * 0.7, ratio * 1.35)})
    drawn = interval_chart.specification(examples.result(stored, arms=(arms[0], large)))
    [row] = [row for row in drawn["datasets"]["rows"] if row["ratio"] == ratio]
    assert not row["open_low"]
    assert not row["open_high"]


def test_drawings_survive_having_nothing_to_draw() -> None:
    stored = examples.stored(blocks=0)
    assert "no interval" in text_of(result_charts.intervals(analyse(stored)))
    empty = result_charts.trials(stored)
    assert "0 trials" in text_of(empty)
    failed = result_charts.trials(with_records(examples.stored(blocks=1), lambda _: {"status": "failed"}))
    assert marks(failed, palette.FAILURE) == 4
    for svg in (empty, failed):
        assert 100 < float(ElementTree.fromstring(svg).get("height", "inf")) < 600
        assert "NaN" not in svg
        assert "Infinity" not in svg


def test_every_trial_is_a_mark_and_every_failure_a_cross() -> None:
    svg = result_charts.trials(examples.stored(blocks=10, failing=frozenset({1, 7})))
    # One more of each colour stands in the key.
    for colour in (*palette.ARMS[:3], palette.TWIN):
        assert marks(svg, colour) == 11
    assert marks(svg, palette.FAILURE) == 2
    assert "42 trials" in text_of(svg)


def test_drawings_of_a_large_grid_and_of_many_trials_stay_small() -> None:
    grid = examples.stored(
        levels=[f"l{number}" for number in range(8)], strata=[str(number) for number in range(12)], blocks=2
    )
    assert len(result_charts.intervals(examples.result(grid))) < 300_000
    assert len(result_charts.trials(examples.stored(blocks=50))) < 300_000
    assert "too many arms for a key" in text_of(
        result_charts.trials(examples.stored(levels=[f"l{n}" for n in range(9)]))
    )


def test_hostile_names_stay_text_in_drawings() -> None:
    stored = examples.stored(levels=["sync", examples.HOSTILE, 'id="x" url(#y)'])
    for svg in (result_charts.intervals(examples.result(stored)), result_charts.trials(stored)):
        root = ElementTree.fromstring(svg)
        assert not list(root.iter(f"{SVG}script"))
        assert "<script" not in svg
        assert 'id="x" url(#y)' in text_of(svg)


def test_identifiers_of_drawings_do_not_meet() -> None:
    stored = examples.stored()
    first, second = (
        set(re.findall(r'\sid="([^"]*)"', result_charts.trials(stored, name=name))) for name in ("one", "two")
    )
    assert not first & second
