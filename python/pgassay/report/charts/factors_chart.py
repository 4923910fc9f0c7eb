"""The drawing of a grid's factors: each main effect with its interval, the largest factor first."""

from pgassay.model.further_results.effects import FactorEffects, LevelEffect
from pgassay.report import text
from pgassay.report.charts import drawing, interval_rows, palette
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, Specification, shortened
from pgassay.report.charts.interval_rows import IntervalRow

_LABEL_WIDE, _LABEL_NARROW = 46, 44


def specification(effects: FactorEffects, margin: float, *, width_px: int = WIDE_PX) -> Specification:
    """Each level against its factor's reference, on a logarithmic axis of the speed ratio."""
    narrow = width_px <= NARROW_PX
    order = [size.factor for size in effects.ranking]
    limit = _LABEL_NARROW if narrow else _LABEL_WIDE
    rows = [
        _row(number, each, limit)
        for number, each in enumerate(sorted(effects.main, key=lambda one: order.index(one.factor)))
    ]
    parts = ["means over all levels of the other factors", f"the band is ±{text.percent(margin)}"]
    title = drawing.title("What each factor does", parts if narrow else ["; ".join(parts)])
    return interval_rows.specification(rows, margin, title, width_px=width_px, kind="factor")


def _row(number: int, effect: LevelEffect, limit: int) -> IntervalRow:
    low, high = text.bounds(effect.interval) if effect.interval else (None, None)
    name = text.clean(f"{effect.factor}: {effect.level} over {effect.reference}")
    return {
        "key": f"{number:04d}",
        "label": shortened(name, limit),
        "ratio": effect.ratio if effect.interval is not None else None,
        "low": low,
        "high": high,
        "colour": palette.QUIET_INK if effect.withheld else palette.ARMS[0],
        "shape": "circle",
        "says": "no single interval fits all rounds" if effect.rounds else "no interval yet",
        "full": name,
        "word": "withheld" if effect.withheld else effect.verdict,
        "ratio_text": text.ratio(effect.ratio),
        "interval_text": text.interval(effect.interval),
    }
