"""A grid of arms at a glance, for a terminal: strata down, compared levels across."""

from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from pgassay.model.result import ArmResult, CompareResult
from pgassay.report import text
from pgassay.report.labels import compared_factors, short_name, strata

Draw = Callable[[str, str], Text]


def fill(table: Table, result: CompareResult, draw: Draw) -> bool:
    """Add the columns and rows to an empty table; False where the arms are one list and no grid.

    `draw(words, verdict)` makes a text for this output; the verdict ('' for names) gives its colour.
    """
    compared = [arm for arm in result.arms if arm.verdict != "control"]
    factors = compared_factors(result.arms)
    places = {(arm.stratum, short_name(arm, factors)): arm for arm in compared}
    levels = list(dict.fromkeys(level for _, level in places))
    if len(strata(compared)) < 2:
        return False
    table.add_column("at", overflow="fold", min_width=12)
    for level in levels:
        table.add_column(draw(level, ""), overflow="fold", min_width=12)
    for stratum in strata(compared):
        cells = [_cell(places.get((stratum, level)), result.margin, draw) for level in levels]
        table.add_row(draw(text.clean(stratum), ""), *cells)
    return True


def _cell(arm: ArmResult | None, margin: float, draw: Draw) -> Text:
    """What is known of one arm: its ratio and a word."""
    if arm is None:
        return draw("", "")
    words = f"{text.ratio(arm.ratio)} {text.verdict_word(arm, margin)}".strip()
    return draw(words, "" if arm.withheld else arm.verdict)
