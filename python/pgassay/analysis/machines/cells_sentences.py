"""What a grid that was spread over machines says, in sentences."""

from collections.abc import Iterator

from pgassay.analysis.machines.sentences import common_effect_line
from pgassay.model.machines.cells import CellsResult, OverallEffect, StrataComparison
from pgassay.model.machines.combined import CombinedArm, CombinedResult
from pgassay.words import comparison, interval, join, percent, percent_rounded, plural, ratio, span

# Of differences between strata so many have a sentence; the others stand in the table.
_DIFFERENCES_TOLD_MAX = 8


def cells_lines(result: CombinedResult) -> Iterator[str]:
    """A sentence for each arm of each stratum with where it was measured, then what ties the strata."""
    cells = result.cells
    if cells is None:
        return
    for arm in result.arms:
        yield common_effect_line(arm, result, on=_where(arm, result, cells))
    for each in cells.overall:
        yield _overall(each, result.margin)
    yield from _between(cells)


def cells_family(comparisons: int, alpha: float) -> str:
    """What the error rates are of."""
    shared = (
        f" over {plural(comparisons, 'comparison')} of the whole grid together" if comparisons > 1 else ""
    )
    return (
        f"Two families with an error rate of {percent(alpha)} each{shared}: the effects within strata, on "
        "the machines that ran it; and what is said across strata, half of it for means, half for pairs. The "
        "latter takes each machine to change the effects of all strata alike, as the anchors show. The "
        "intervals of single machines at an anchor are a third."
    )


def _where(arm: CombinedArm, result: CombinedResult, cells: CellsResult) -> str:
    """'On alpha and beta (an anchor)', with the stratum where the arm's name does not have it."""
    given = next((each.machines for each in cells.strata if each.stratum == arm.stratum), ())
    ran = [
        row.name
        for row in result.machines
        if (row.arm, row.stratum) == (arm.name, arm.stratum) and row.blocks
    ]
    at = f"At {arm.stratum}, on" if arm.stratum not in arm.name else "On"
    anchor = " (an anchor)" if arm.stratum in cells.anchors else ""
    return f"{at} {join(ran or list(given))}{anchor}"


def _overall(found: OverallEffect, margin: float) -> str:
    over = f"Over all {found.strata} strata and {plural(found.machines, 'machine')}"
    if found.ratio is None or found.interval is None:
        return f"{over} no mean of {found.arm} is given: {found.note}."
    ends = span(found.interval)
    if found.verdict in ("faster", "slower"):
        small = "" if found.meaningful else f"; it may be less than the margin of {percent_rounded(margin)}"
        return (
            f"{over}, in the mean, {found.arm} is {comparison(found.ratio)} {found.control} ({ends}{small})."
        )
    if found.verdict == "equivalent":
        return f"{over}, in the mean, {found.arm} is equivalent to {found.control} ({ends})."
    note = f"; {found.note}" if found.note else ""
    return f"{over}, in the mean, {found.arm} can't be told from {found.control} yet: {ends}{note}."


def _between(cells: CellsResult) -> Iterator[str]:
    told = [each for each in cells.between if each.word in ("larger", "smaller")]
    for each in told[:_DIFFERENCES_TOLD_MAX]:
        yield _difference(each)
    rest = len(told) - _DIFFERENCES_TOLD_MAX
    if rest > 0:
        yield f"{plural(rest, 'more difference')} between strata: see the table."


def _difference(found: StrataComparison) -> str:
    on = f"{'tied over' if len(found.machines) > 1 else 'on'} {join(found.machines)}"
    return (
        f"The effect of {found.arm} (its ratio) is {found.word} at {found.first} than at {found.second}, "
        f"{on}: {ratio(found.ratio)} times as large ({interval(found.interval)})."
    )
