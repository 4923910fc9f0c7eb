"""What a search for a commit found."""

import shlex
from collections.abc import Sequence
from functools import partial

from pgassay.model.further_results.bisection import BisectionResult
from pgassay.model.profile.result import ProfileResult
from pgassay.report import text
from pgassay.report.page import TEXT_WIDTH, Page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Table,
)
from pgassay.words import duration_rounded, interval, join, plural, ratio

_COLUMNS = (Column("measured", is_figure=False), Column("speed"), Column("interval"), Column("blocks"))


def page_of(result: BisectionResult) -> Page:
    """The answer with what was measured."""
    return Page(f"Bisect {result.good} to {result.bad}", result, partial(_sections, result))


def _sections(result: BisectionResult) -> list[Section]:
    opening: list[Block] = [Paragraph(result.headline, STRONG)]
    if result.notes:
        opening.append(Bullets(tuple(Item(note) for note in result.notes)))
    sections = [Section("", "answer", tuple(opening))]
    if result.measured:
        rows = tuple(
            Row(
                (
                    Cell(" ".join(part for part in (each.name, each.subject) if part)),
                    Cell(ratio(each.ratio)),
                    Cell(interval(each.interval)),
                    Cell(str(each.blocks)),
                )
            )
            for each in result.measured
        )
        about = (
            f"Speeds relative to {result.good}, with 95 % intervals, in the order of the commits or releases."
        )
        table = Table(_COLUMNS, (Group(rows),))
        sections.append(Section("What was measured", "measured", (table, Paragraph(about, QUIET))))
    if result.profile is not None:
        sections.append(Section("Functions", "functions", tuple(_functions(result, result.profile))))
    sections.append(Section("How it was found", "notes", tuple(_quiet(result)), titled=HTML))
    return sections


def _functions(result: BisectionResult, found: ProfileResult) -> list[Block]:
    """Which functions differ over the step; the profile's own report has all of them."""
    sides = join([each.name for each in found.arms])
    said = tuple(Item(f"{line}.") for line in found.sentences)
    none = Paragraph(f"No function is found to differ per {found.unit}.", STRONG)
    return [
        Paragraph(f"{plural(found.rounds, 'round')} with perf, {sides}.", QUIET),
        Bullets(said) if said else none,
        Paragraph("The table and the flame graph:", QUIET),
        _command(["pgassay", "report", f"{result.folder}/profile"]),
    ]


def _command(words: Sequence[str]) -> Code:
    """A command as it is pasted, in lines that fit a mail."""
    return Code("\n".join(text.command_lines(words, TEXT_WIDTH - 2)))


def _quiet(result: BisectionResult) -> list[Block]:
    word = "commit" if result.kind == "commits" else "build"
    line = f"{result.good} to {result.bad}: {plural(result.candidates, word)}"
    if result.aside:
        line += f"; {result.aside} more change nothing that is built or searched"
    if result.untestable:
        names = ", ".join(result.untestable[:5])
        line += f"; {plural(len(result.untestable), word)} did not build or run ({names})"
    took = (
        f"{plural(result.trials, 'trial')} in {plural(result.blocks, 'block')} and "
        f"{plural(result.rounds, 'round')} in addition to the ends, {duration_rounded(result.seconds_used)} "
        "in all"
    )
    blocks: list[Block] = [Paragraph(f"{line}. {took}.", QUIET)]
    if result.machine:
        blocks.append(Paragraph(f"Machine: {text.clean(result.machine)}", QUIET))
    if result.built_with:
        blocks.append(Paragraph(f"Built with: {text.clean(result.built_with)}", QUIET))
    return [*blocks, Paragraph("Again:", QUIET), _command(shlex.split(result.command))]
