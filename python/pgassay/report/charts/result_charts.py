"""All drawings of a result, made offline; none refers to anything outside itself."""

from collections.abc import Iterator
from functools import partial

from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report.charts import (
    account_chart,
    drawing,
    factors_chart,
    heat_map,
    interval_chart,
    load_charts,
    timeline_chart,
    trial_chart,
)
from pgassay.report.charts.drawing import WIDE_PX, Drawing, Specification, both_widths
from pgassay.report.charts.timelines import ArmTimeline
from pgassay.report.compare.accounts import account_tables
from pgassay.report.compare.trial_series import ObservedSeries
from pgassay.report.text import plural


def intervals(result: CompareResult, *, width_px: int = WIDE_PX, name: str = "intervals") -> str:
    """The interval plot as an SVG element `width_px` wide; its identifiers begin with `name`."""
    return drawing.svg(interval_chart.specification(result, width_px=width_px), name)


def trials(stored: StoredExperiment, *, width_px: int = WIDE_PX, name: str = "trials") -> str:
    """Every trial in run order as an SVG element `width_px` wide; its identifiers begin with `name`."""
    return drawing.svg(trial_chart.specification(stored, width_px=width_px), name)


def drawings(result: CompareResult, stored: StoredExperiment, observed: ObservedSeries) -> Iterator[Drawing]:
    """What there is to draw, in the page's order; `observed` holds what the samplers saw.

    Most are small multiples on a wide page: too tall for a still picture of a narrow one.
    """
    multiples = partial(both_widths, is_wide_only=True)
    effects = result.effects
    if effects is not None and any(size.ratio or size.at_most for size in effects.ranking):
        yield both_widths(
            "factors",
            lambda width: factors_chart.specification(effects, result.margin, width_px=width),
        )
    if heat_map.is_grid(result):
        yield multiples("grid", lambda width: heat_map.specification(result, width_px=width))
    yield both_widths("intervals", lambda width: interval_chart.specification(result, width_px=width))
    yield both_widths("trials", lambda width: trial_chart.specification(stored, width_px=width))
    tables = account_tables(result)
    if tables:
        yield multiples("accounts", lambda width: account_chart.specification(tables, width_px=width))
    if observed.seconds:
        yield multiples("seconds", lambda width: load_charts.seconds(observed.seconds, width_px=width))
    if observed.latencies:
        yield multiples("latency", lambda width: load_charts.latency(observed.latencies, width_px=width))
    if observed.latency_map:
        yield multiples(
            "latency-map", lambda width: load_charts.latency_map(observed.latency_map, width_px=width)
        )
    yield from _timelines(observed)


def _timelines(observed: ObservedSeries) -> Iterator[Drawing]:
    """One for each arm, whose panels end at the same heights."""
    peaks = timeline_chart.peaks([each.shown for each in observed.timelines])
    for number, each in enumerate(observed.timelines, start=1):
        note = f"trials/{each.shown.number:06d}, the nearest to the median of {plural(each.trials, 'trial')}"

        def make(width: int, each: ArmTimeline = each, note: str = note) -> Specification:
            return timeline_chart.specification(each.shown, each.group, peaks, width_px=width, note=note)

        yield both_widths(f"timeline-{number}", make, is_wide_only=True)
