"""Experiments of several machines as one result."""

from functools import partial

from pgassay.model.machines.combined import CombinedArm, CombinedResult, MachineResult
from pgassay.model.machines.spread_grid import CellsResult, OverallEffect, StrataComparison
from pgassay.report.charts import machines_chart
from pgassay.report.page import Page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    WARNING,
    Block,
    Figure,
    Paragraph,
    Section,
    bullets,
    plain_table,
)
from pgassay.report.text import duration, interval_or_why, percent, plural, ratio
from pgassay.words import join

# Of more arms the first are drawn: a page of hundreds of drawings is read by nobody.
_DRAWN_MAX = 12
_STRATA_HEADS = ("stratum", "machines", "", "blocks", "a block takes")
_MEAN_HEADS = ("arm", "over", "ratio", "interval", "verdict")
_PAIR_HEADS = ("arm", "effect at", "relative to", "machines", "ratio", "interval", "it is")
# Of pairs that say nothing yet no more are shown; JSON has all.
_PAIRS_SHOWN_MAX = 60
_CELLS_TITLE = "Which machine ran what"
_HEADS = ("machine", "arm", "blocks", "ratio", "interval", "verdict")


def page_of(result: CombinedResult) -> Page:
    """Both answers for every arm, each machine's own, in what machines differ."""
    return Page(
        f"{result.workload} on several machines",
        result,
        partial(_sections, result),
        lambda: machines_chart.drawings(result, _drawn(result)[:_DRAWN_MAX]),
    )


def _sections(result: CombinedResult) -> list[Section]:
    names = dict.fromkeys(machine.name for machine in result.machines)
    head = (
        f"{plural(len(result.folders), 'experiment')} on {plural(len(names), 'machine')}, "
        f"workload {result.workload}, margin {percent(result.margin)}"
    )
    rows = [_row(machine) for machine in result.machines]
    confounds = result.confounds or ("No recorded facts differ between them.",)
    warnings = (bullets(result.warnings, tone=WARNING),) if result.warnings else ()
    return [
        Section("", "experiments", (Paragraph(head, QUIET),)),
        Section("", "verdict", tuple(Paragraph(line, STRONG) for line in result.verdict.splitlines())),
        *_cells_sections(result.cells),
        Section("The effect on each machine", "effects", _figures(result), titled=HTML),
        Section("Each machine alone", "machines", (plain_table(_HEADS, rows, names=2),)),
        Section("Differences between the machines", "confounds", (bullets(confounds),)),
        Section("Warnings", "warnings", warnings),
        Section("", "family", (Paragraph(result.family, QUIET),)),
    ]


def _drawn(result: CombinedResult) -> tuple[CombinedArm, ...]:
    """The arms whose machines are drawn one by one: all, or in a spread grid those of several machines."""
    if result.cells is None:
        return result.arms
    return tuple(arm for arm in result.arms if arm.these_machines.machines > 1)


def _figures(result: CombinedResult) -> tuple[Block, ...]:
    arms = len(_drawn(result))
    figures: list[Block] = [Figure("strata")] if result.cells is not None else []
    figures += [Figure(f"machines-{number}") for number in range(1, min(arms, _DRAWN_MAX) + 1)]
    if arms > _DRAWN_MAX:
        figures.append(Paragraph(f"The first {_DRAWN_MAX} of {arms} are drawn.", QUIET, where=HTML))
    return tuple(figures)


def _row(machine: MachineResult) -> tuple[str, ...]:
    word = "withheld" if machine.withheld else machine.verdict
    where = f" ({machine.stratum})" if machine.stratum and machine.stratum not in machine.arm else ""
    return (
        machine.name,
        f"{machine.arm}{where}",
        str(machine.blocks),
        ratio(machine.ratio),
        interval_or_why(machine.interval, machine.ratio),
        word,
    )


def _cells_sections(cells: CellsResult | None) -> list[Section]:
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
    more = (Paragraph(f"{plural(left, 'pair')} more in the --json document."),) if left else ()
    return [
        Section(_CELLS_TITLE, "cells", (plain_table(_STRATA_HEADS, strata, names=3),)),
        Section("Across strata", "strata", (*blocks, *more)),
        Section("Not compared", "not-compared", (bullets(cells.not_compared),)),
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
