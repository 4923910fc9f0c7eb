"""The drawing of one trial over time: one axis, comparable heights, lanes of what happened."""

from collections.abc import Iterator
from typing import Any

import report_examples as examples
from pgassay.analysis.changes.timeline import Panel, Point, Timeline
from pgassay.model.changes import Change, Event
from pgassay.report.charts import timeline_chart
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, svg


def points(series: str, *values: float) -> tuple[Point, ...]:
    return tuple(Point(series, place, place + 1, value) for place, value in enumerate(values))


def shown(*values: float) -> Timeline:
    return Timeline(
        number=7,
        measured_s=20.0,
        panels=(
            Panel("transactions/s", points("transactions", *values)),
            Panel("server CPU", (*points("a", 0.5, 1.0), *points(examples.HOSTILE, 0.5, 0.25)), stacked=True),
        ),
        events=(
            Event(kind="checkpoint", what="a checkpoint", began_s=-3.0, ended_s=2.5),
            Event(kind="autovacuum", what="automatic vacuum of a.b", began_s=15.0, ended_s=None),
            Event(kind="log", what=f"WARNING: {examples.HOSTILE}\x1b[2J", began_s=9.0, ended_s=9.0),
        ),
        changes=(
            Change(series="throughput", unit="transactions/s", at_s=8.0, before=5205.0, after=3105.0),
        ),
    )  # fmt: skip


def drawn(timeline: Timeline, width_px: int = WIDE_PX) -> dict[str, Any]:
    heights = timeline_chart.peaks([shown(5000), shown(9000)])
    return timeline_chart.specification(
        timeline, examples.HOSTILE, heights, width_px=width_px, note="trials/7"
    )


def layers(chart: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in chart["vconcat"]:
        yield from panel["layer"]


def test_all_panels_have_one_axis_of_time_and_the_heights_of_all_trials() -> None:
    chart = drawn(shown(5000, 3100))
    domains = [layer["encoding"]["x"]["scale"]["domain"] for layer in layers(chart)]
    assert domains == [[0, 20.0]] * len(domains)
    assert len(chart["vconcat"]) == 3
    assert len({panel["width"] for panel in chart["vconcat"]}) == 1
    ends = [panel["layer"][-1]["encoding"]["y"]["scale"]["domain"] for panel in chart["vconcat"][1:]]
    assert ends == [[0, 9000], [0, 1.25]], "stacked series by their sum"
    with_labels = [panel for panel in chart["vconcat"] if panel["layer"][-1]["encoding"]["x"]["axis"]]
    assert with_labels == chart["vconcat"][-1:]


def test_what_happened_stands_in_lanes_cut_to_the_measured_part() -> None:
    data = drawn(shown(5000))["datasets"]
    lanes = {row["lane"]: (row["begin"], row["end"]) for row in data["lanes"]}
    assert lanes["checkpoint"] == (0.0, 2.5)
    assert lanes["autovacuum"] == (15.0, 20.0)
    assert lanes["log"] == (9.0, 9.08), "a moment can be seen"
    assert lanes["change"][0] == 8.0
    assert [row["kind"] for row in data["bands"]] == ["checkpoint", "autovacuum"]
    assert data["changes"] == [{"begin": 8.0}]
    what = {row["what"] for row in data["lanes"]}
    assert "throughput: 5,205 → 3,105 transactions/s" in what
    assert data["panel0"] == [
        {"s": "transactions", "t": 0, "v": 5000.0},
        {"s": "transactions", "t": 1, "v": 5000.0},
    ]


def test_hostile_texts_are_text_at_both_widths() -> None:
    for width_px in (WIDE_PX, NARROW_PX):
        picture = svg(drawn(shown(5000), width_px), "timeline-1")
        assert "<script" not in picture
        assert "\x1b" not in picture
        assert "checkpoint" in picture


def test_a_trial_in_which_nothing_happened_has_no_lanes() -> None:
    bare = Timeline(
        number=0, measured_s=2.0, panels=(Panel("transactions/s", points("t", 1, 2)),), events=(), changes=()
    )
    chart = drawn(bare)
    assert len(chart["vconcat"]) == 1
    assert len(chart["vconcat"][0]["layer"]) == 1
    assert "<svg" in svg(chart, "t")
