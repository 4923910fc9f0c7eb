"""A plan that was not run: how large it is, how long it takes, what it can decide."""

from functools import partial

from pgassay.model.result import Planned, PlannedCell
from pgassay.report.page import Page
from pgassay.report.section import QUIET, STRONG, WARNING, Block, Paragraph, Section, bullets
from pgassay.words import duration, percent_rounded, plural

_FROM = {
    "earlier experiment": "as in an earlier experiment of its kind on this machine",
    "length of the load": "as long as its load, and some seconds more",
}


def page_of(planned: Planned) -> Page:
    """The size of the experiment, what it takes, and what each cell can decide in the time given."""
    return Page(f"Plan: {planned.title}", planned, partial(_planned, planned), is_wrapped=False)


def _planned(planned: Planned) -> list[Section]:
    cells, arms = len(planned.cells), sum(1 + len(cell.arms) for cell in planned.cells)
    amount = (
        f"{plural(arms, 'arm')} in {cells} {'stratum' if cells == 1 else 'strata'}; a block of each takes "
        f"{plural(planned.trials_per_round, 'trial')}, the twins' among them."
    )
    notes: list[Block] = [bullets(_cell_line(cell, planned) for cell in planned.cells)]
    notes += [Paragraph(f"Skipped: {sentence}", QUIET) for sentence in planned.skipped]
    notes += [Paragraph(f"Warning: {sentence}", WARNING) for sentence in planned.warnings]
    return [
        Section("", "title", (Paragraph(planned.title, STRONG),)),
        Section("", "time", tuple(map(Paragraph, (amount, *_time_lines(planned))))),
        Section("", "cells", tuple(notes)),
        Section("", "next", (Paragraph("Nothing was measured: leave --plan out to run it."),)),
    ]


def _time_lines(planned: Planned) -> list[str]:
    if planned.trial_s is None or planned.least_s is None or planned.wanted_s is None:
        return [
            "How long a trial takes is not known, as no experiment of its kind has run here: the run "
            "starts with a rehearsal of one trial and reports the time then."
        ]
    spread = percent_rounded(planned.spread)
    known = "as it was here before" if planned.spread_known else "as on shared machines"
    least = f"The fewest blocks that can give a verdict ({planned.blocks_least})"
    margin = f"to resolve {percent_rounded(planned.margin)} in all cells"
    return [
        f"A trial takes about {duration(planned.trial_s)}, {_FROM[planned.trial_s_from]}.",
        f"{least} take {duration(planned.least_s)}; {margin}, at a spread of single trials of {spread} "
        f"({known}), takes {plural(planned.blocks_wanted, 'block')}, {duration(planned.wanted_s)}.",
    ]


def _cell_line(cell: PlannedCell, planned: Planned) -> str:
    control = cell.control.removesuffix(cell.stratum).strip()
    line = f"{cell.stratum or 'all arms'}: {plural(len(cell.arms), 'arm')} against {control}"
    if cell.blocks is None:
        return line
    given = f"{plural(cell.blocks, 'block')} in {duration(planned.time_max_s)}"
    if cell.resolves is None:
        return f"{line}; {given}: too few for a verdict"
    verdict = "" if cell.is_decidable else f", not the margin of {percent_rounded(planned.margin)}"
    return f"{line}; {given} resolve {percent_rounded(cell.resolves)}{verdict}"
