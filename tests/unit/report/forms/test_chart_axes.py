"""Axes of drawings hold all that is drawn: what costs nothing, and predictions that were far off."""

import re

import pytest

from pgassay.model.volumes.size import SizedGroup, SizedVolume
from pgassay.report.charts import drawing, interval_rows, size_charts
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX
from pgassay.report.charts.interval_rows import IntervalRow


def volume(name: str, price: float) -> SizedVolume:
    return SizedVolume.model_construct(
        volume=name,
        price_per_month=price,
        currency="USD",
        seconds_per_unit=1.0,
        low_s=None,
        high_s=None,
        slow_down=0.0,
        is_on_front=False,
        is_recommended=False,
    )


@pytest.mark.parametrize("prices", [(0.0, 10.0, 100.0), (1.0, 10.0, 100.0)])
def test_a_volume_that_costs_nothing_leaves_the_others_their_places(prices: tuple[float, ...]) -> None:
    volumes = tuple(volume(f"v{price:g}", price) for price in prices)
    group = SizedGroup.model_construct(volumes=volumes, unit="query", against="v1", against_s=1.0)
    drawn = drawing.svg(size_charts.pareto(group, 0.1, width_px=WIDE_PX), "x")
    places = re.findall(r'aria-roledescription="point" transform="translate\(([^,]+),', drawn)
    assert len({round(float(place)) for place in places}) == len(places) == 3


def row(number: int, ratio: float, predicted: float | None) -> IntervalRow:
    return {
        "key": f"{number:04d}",
        "label": "a fix",
        "ratio": ratio,
        "low": ratio / 1.1,
        "high": ratio * 1.1,
        "colour": "#000000",
        "shape": "circle",
        "says": "",
        "full": "a fix",
        "word": "recommended",
        "ratio_text": "",
        "interval_text": "",
        "predicted": predicted,
    }


@pytest.mark.parametrize("width_px", [NARROW_PX, WIDE_PX])
@pytest.mark.parametrize("predicted", [2.5, 1000.0, 0.001])
def test_a_prediction_that_was_far_off_is_drawn(width_px: int, predicted: float) -> None:
    """It is what a reader looks for."""
    rows = [row(0, 3.0, predicted), row(1, 1.1, None)]
    made = interval_rows.specification(rows, 0.03, drawing.title("x", []), width_px=width_px, kind="fix")
    assert [each["predicted"] for each in made["datasets"]["rows"]] == [predicted, None]
