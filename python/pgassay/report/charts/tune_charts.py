"""The drawings of `pgassay tune`: what each fix gains, what was predicted, and each statement's time."""

from collections.abc import Iterator

from pgassay.model.tuning.tune_answer import Ends, Fix, FixVerdict, TuneProof, TuneResult
from pgassay.report import text
from pgassay.report.charts import drawing, interval_rows, palette
from pgassay.report.charts.drawing import (
    NARROW_PX,
    Drawing,
    Specification,
    both_widths,
    field,
    layer,
    shortened,
    tips,
)
from pgassay.report.charts.interval_rows import IntervalRow
from pgassay.words import ratio, seconds

# Of more the tables have all.
_FIXES_MAX, _STATEMENTS_MAX = 24, 30
_LABEL_MAX = 44
# What was tried before the proof has no interval, and no verdict that lasts.
_COLOURS: dict[FixVerdict, str] = {
    "recommended": palette.ARMS[0],
    "worse": palette.FAILURE,
    "unsafe": palette.FAILURE,
}
_ALL = "all chosen fixes together"
_BEFORE, _AFTER, _SLOWER = "as it was", "with all chosen fixes", "slower with them"


def drawings(result: TuneResult) -> Iterator[Drawing]:
    """What there is to draw, in the page's order: `gains`, `statements`."""
    if any(fix.gain for fix in result.fixes):
        yield both_widths("gains", lambda width: gains(result, width_px=width))
    proof = result.confirmation or result.proof
    if proof is not None and proof.statements:
        yield both_widths("statements", lambda width: statements(result, proof, width_px=width))


def gains(result: TuneResult, *, width_px: int) -> Specification:
    """Each measured fix with its interval and its prediction; below a line all that were chosen.

    One that a statement was stopped with has no ratio that could be drawn, and a gain of 0.
    """
    narrow = width_px <= NARROW_PX
    known = [fix for fix in result.fixes if fix.gain][:_FIXES_MAX]
    rows = [_fix_row(number, fix) for number, fix in enumerate(known)]
    proof = result.confirmation or result.proof
    together = [] if proof is None else [_together(len(rows), proof)]
    parts = ["right of 1× is faster with it", "vertical bar: predicted", "grey: tried, not proven"]
    title = drawing.title("What each fix gains", parts if narrow else ["; ".join(parts)])
    return interval_rows.specification(
        [*rows, *together], 0.0, title, width_px=width_px, kind="fix", apart=len(together)
    )


def _fix_row(number: int, fix: Fix) -> IntervalRow:
    name = f"{fix.rank}. {text.clean(fix.title)}"
    colour = _COLOURS.get(fix.verdict, palette.QUIET_INK)
    figures = fix.gain, fix.interval, fix.predicted_gain
    return _row(number, name, figures, fix.verdict, colour, at_least=fix.at_least)


def _together(number: int, proof: TuneProof) -> IntervalRow:
    figures = proof.gain, proof.interval, proof.predicted_gain
    return _row(
        number, _ALL, figures, proof.verdict, palette.ARMS[1], shape="diamond", at_least=proof.at_least
    )


def _row(
    number: int,
    name: str,
    figures: tuple[float | None, Ends | None, float | None],
    word: str,
    colour: str,
    *,
    shape: str = "circle",
    at_least: bool = False,
) -> IntervalRow:
    """A row of (gain, interval, prediction); without an interval its point stands alone."""
    gain, interval, predicted = figures
    low, high = text.bounds(interval) if interval else (gain, gain)
    return {
        "key": f"{number:04d}",
        "label": shortened(name, _LABEL_MAX),
        "ratio": gain,
        "low": low,
        "high": high,
        "colour": colour,
        "shape": shape,
        "says": "not decided yet",
        "full": name,
        "word": word,
        "ratio_text": f"{'at least ' if at_least else ''}{ratio(gain)}",
        "interval_text": text.interval(interval),
        "predicted": predicted,
    }


def statements(result: TuneResult, proof: TuneProof, *, width_px: int) -> Specification:
    """The time of each statement as it was and with all chosen fixes, by its share of the whole."""
    narrow = width_px <= NARROW_PX
    rows = _statement_rows(result, proof)
    names_px = 0 if narrow else 24 + round(7.4 * max(len(str(row["label"])) for row in rows))
    keys = list(dict.fromkeys(row["key"] for row in rows))
    y = field("key", "nominal", scale={"domain": keys, "padding": 0.5}, axis=None)
    scale = {"type": "log", "nice": True}
    x = field("seconds", scale=scale, axis={"title": "seconds", "format": "~g", "tickCount": 6})
    colours = {
        "domain": [_BEFORE, _AFTER, _SLOWER],
        "range": [palette.QUIET_INK, palette.ARMS[0], palette.FAILURE],
    }
    colour = field("when", "nominal", scale=colours, legend={"title": None, "orient": "top"})
    tip = tips(full="statement", when="", shown="time", ratio_text="speed ratio", interval_text="interval")
    way = {"type": "rule", "strokeWidth": 2, "color": palette.GRID}
    point = {"type": "point", "filled": True, "size": 70, "opacity": 1}
    chart = {
        "layer": [
            layer("rows", way, {"y": y, "x": x, "x2": {"field": "until"}}, "datum.until != null"),
            layer("rows", point, {"y": y, "x": x, "color": colour, "tooltip": tip}),
            interval_rows.names(
                y, above=narrow, limit_px=width_px if narrow else names_px, keep="datum.first"
            ),
        ],
        "width": width_px - names_px - 28,
        "height": (46 if narrow else 28) * len(keys),
        "title": drawing.title("Time of each statement", ["largest share of total time first"]),
        "padding": {"left": 4, "right": 16, "top": 4, "bottom": 4},
    }
    return drawing.specification(chart, {"rows": rows})


def _statement_rows(result: TuneResult, proof: TuneProof) -> list[dict[str, object]]:
    """Two rows of each statement that the proof measured, one of those that it did not."""
    found = {each.name: each for each in proof.statements}
    shown = sorted(result.symptom.statements, key=lambda each: -each.share)[:_STATEMENTS_MAX]
    rows: list[dict[str, object]] = []
    for number, statement in enumerate(shown):
        gained = found.get(statement.name)
        after = None
        if gained is not None and gained.ratio:
            after = (gained.waited_s or statement.seconds) / gained.ratio
        name = text.clean(statement.name)
        shared = {"key": f"{number:04d}", "full": name, "ratio_text": "", "interval_text": ""}
        label = shortened(name, _LABEL_MAX)
        rows.append(
            shared
            | {
                "label": label,
                "first": True,
                "seconds": statement.seconds,
                "until": after,
                "when": _BEFORE,
                "shown": f"{'more than ' if statement.at_least else ''}{seconds(statement.seconds)}",
            }
        )
        if gained is not None and after is not None:
            rows.append(
                shared
                | {
                    "label": label,
                    "first": False,
                    "seconds": after,
                    "until": None,
                    "when": _SLOWER if statement.name in proof.slower else _AFTER,
                    "shown": seconds(after),
                    "ratio_text": f"{'at least ' if gained.at_least else ''}{ratio(gained.ratio)}",
                    "interval_text": text.interval(gained.interval),
                }
            )
    return rows
