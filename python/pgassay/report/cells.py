"""A grid whose strata were spread over machines: which machine ran what, what is said across strata; pure."""

from pgassay.model.machines.cells import CellsResult, OverallEffect, StrataComparison
from pgassay.report.section import Paragraph, Section, bullets, plain_table
from pgassay.report.text import duration, interval_or_why, plural, ratio
from pgassay.words import join

_STRATA_HEADS = ("stratum", "machines", "", "blocks", "a block takes")
_MEAN_HEADS = ("arm", "over", "ratio", "interval", "verdict")
_PAIR_HEADS = ("arm", "effect at", "over that at", "machines", "ratio", "interval", "it is")
# Of pairs that say nothing yet no more are shown; JSON has all.
_PAIRS_SHOWN_MAX = 60
TITLE = "Which machine ran what"


def sections(cells: CellsResult | None) -> list[Section]:
    """The strata with their machines, means and pairs, and what is not compared; nothing without cells."""
    if cells is None:
        return []
    strata = [
        (
            each.stratum,
            join(each.machines) or "none",
            "anchor" if each.is_anchor else "",
            str(each.blocks),
            "" if each.block_s is None else duration(each.block_s),
        )
        for each in cells.strata
    ]
    shown = _shown(cells.between)
    blocks = [plain_table(_MEAN_HEADS, [_mean(each) for each in cells.overall], names=1)]
    if shown:
        blocks.append(plain_table(_PAIR_HEADS, [_pair(each) for each in shown], names=4))
    left = len(cells.between) - len(shown)
    more = (Paragraph(f"{plural(left, 'pair')} more in the document of --json."),) if left else ()
    return [
        Section(TITLE, "cells", (plain_table(_STRATA_HEADS, strata, names=3),)),
        Section("Across strata", "strata", (*blocks, *more)),
        Section("What is not compared", "not-compared", (bullets(cells.not_compared),)),
    ]


def _shown(pairs: tuple[StrataComparison, ...]) -> list[StrataComparison]:
    """What is decided first; each in the order of the grid."""
    return sorted(pairs, key=lambda each: each.word == "inconclusive")[:_PAIRS_SHOWN_MAX]


def _mean(found: OverallEffect) -> tuple[str, ...]:
    over = f"{found.strata} strata, {plural(found.machines, 'machine')}"
    if found.ratio is None:
        return found.arm, over, "", found.note, "withheld" if found.withheld else found.verdict
    return found.arm, over, ratio(found.ratio), interval_or_why(found.interval, found.ratio), found.verdict


def _pair(found: StrataComparison) -> tuple[str, ...]:
    head = (found.arm, found.first, found.second, join(found.machines))
    if found.ratio is None:
        return *head, "", found.note, "withheld" if found.withheld else found.word
    return *head, ratio(found.ratio), interval_or_why(found.interval, found.ratio), found.word
