"""The drawing of intervals against the margin."""

import math

from pgassay.model.result import ArmResult, CompareResult, TwinResult
from pgassay.report import text
from pgassay.report.charts import drawing, interval_rows, palette
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, Specification, shortened, shortened_apart
from pgassay.report.charts.interval_rows import IntervalRow
from pgassay.report.labels import compared_factors, levels_alone, short_name


def specification(result: CompareResult, *, width_px: int = WIDE_PX) -> Specification:
    """The interval of every compared arm, and of the twins, on a logarithmic axis of the speed ratio.

    An arm without an interval has a row that says so; an end beyond the axis is drawn to its edge
    with an arrow.
    """
    narrow = width_px <= NARROW_PX
    title = drawing.title("Speed compared with the control, by arm", _interval_subtitle(result, narrow))
    rows = _interval_rows(result, narrow=narrow)
    return interval_rows.specification(rows, result.margin, title, width_px=width_px, kind="arm")


def _interval_rows(result: CompareResult, *, narrow: bool) -> list[IntervalRow]:
    """Data of the interval plot: compared arms in the result's order, each stratum's twin after them."""
    factors = compared_factors(result.arms)
    twins = {twin.stratum: twin for twin in result.twins or (result.twin,)}
    named: list[tuple[str, ArmResult | TwinResult]] = []
    for stratum in dict.fromkeys(arm.stratum for arm in result.arms):
        suffix = f" at {text.clean(stratum)}" if stratum else ""
        for arm in result.arms:
            if arm.stratum == stratum and arm.verdict != "control":
                # In a grid the stratum needs the room that the compared factor's name would take.
                name = levels_alone(arm, factors) if stratum else short_name(arm, factors)
                named.append((name + suffix, arm))
        if stratum in twins:
            named.append((f"twin{suffix}" if stratum else "twin of the control", twins[stratum]))
    labels = shortened_apart((name for name, _ in named), 44 if narrow else 40)
    return [_row_of(number, labels[name], member) for number, (name, member) in enumerate(named)]


def _says(arm: ArmResult | TwinResult) -> str:
    if isinstance(arm, TwinResult):
        return "no interval yet"
    if arm.trials == 0:
        return "no interval: no valid trial"
    is_empty = arm.interval is None and arm.ratio is not None
    return "no interval fits all blocks" if is_empty else "no interval yet"


def _row_of(number: int, label: str, member: ArmResult | TwinResult) -> IntervalRow:
    is_twin = isinstance(member, TwinResult)
    low, high = text.bounds(member.interval) if member.interval else (None, None)
    # Where no single figure fits all blocks a point would pass for an answer.
    is_shown = member.interval is not None and member.ratio and math.isfinite(member.ratio)
    withheld = isinstance(member, ArmResult) and member.withheld
    return {
        "key": f"{number:04d}",
        "label": label,
        "ratio": member.ratio if is_shown else None,
        "low": low,
        "high": high,
        "colour": palette.QUIET_INK if withheld else palette.TWIN if is_twin else palette.ARMS[0],
        "shape": "diamond" if is_twin else "circle",
        "says": _says(member),
        "full": text.clean(member.name) if isinstance(member, ArmResult) else label,
        "word": _word(member),
        "ratio_text": text.ratio(member.ratio),
        "interval_text": text.interval(member.interval),
    }


def _word(member: ArmResult | TwinResult) -> str:
    """The verdict in a word."""
    if isinstance(member, ArmResult):
        return "withheld" if member.withheld else member.verdict
    return "not yet tested" if member.ok is None else "no difference" if member.ok else "differs"


def _interval_subtitle(result: CompareResult, narrow: bool) -> list[str]:
    control = next((arm for arm in result.arms if arm.verdict == "control"), None)
    name = short_name(control, compared_factors(result.arms)) if control else text.clean(result.control)
    parts = [
        f"right of 1× is faster than {shortened(name, 24 if narrow else 60)}",
        f"the band is ±{text.percent(result.margin)}",
    ]
    return parts if narrow else ["; ".join(parts)]
