"""The section of the functions of one server, compared with nothing: what takes its time per unit of work."""

from collections.abc import Sequence

from pgassay.analysis.profile.flame import FlameNode
from pgassay.analysis.profile.result import function_name, time_words
from pgassay.model.profile.result import ServerFunction, ServerProfile
from pgassay.report import text
from pgassay.report.section import (
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    TERMINAL,
    Block,
    FlameGraph,
    Formats,
    Paragraph,
    Section,
    Table,
    plain_table,
)
from pgassay.words import figure, join

_ROWS_TERMINAL, _ROWS_PAGE = 12, 40
_LEGEND = (
    "A frame is as wide as its time per {unit}; below it is what it calls. Click a frame to enlarge it; the "
    "arrow keys move, Enter enlarges, Escape shows all again."
)
_WAITING = (
    "Waiting per {unit} by the function that waits, off the processor, in all sessions; waits for the client "
    "are left out:"
)


def section_of(found: ServerProfile, server: str, flame: FlameNode | None) -> Section:
    """All time, the functions with most of it, and on the page the flame graph and the callers."""
    basis = (
        f"CPU time of the server's processes: {time_words(found.us)} per {found.unit}, from "
        f"{found.samples:,} samples of perf, {found.rate_hz:.0f} a second of each running process "
        f"({found.stacks}). All clients of the server are in it, and what perf itself takes."
    )
    blocks: list[Block] = [
        Paragraph(basis, QUIET),
        _table(found.functions[:_ROWS_TERMINAL], found.unit, "function", TERMINAL | MARKDOWN),
    ]
    if flame is not None:
        sample_us = found.us / found.samples
        name = text.clean(server)
        blocks.append(Paragraph(_LEGEND.format(unit=found.unit), QUIET, where=HTML))
        blocks.append(FlameGraph("flame-1", name, name, found.unit, flame, sample_us))
    blocks.append(_table(found.functions[:_ROWS_PAGE], found.unit, "function", HTML))
    blocks.append(_table(found.callers[:_ROWS_PAGE], found.unit, "including callees", HTML))
    if found.waiting:
        blocks += [
            Paragraph(_WAITING.format(unit=found.unit), where=EVERYWHERE),
            _table(found.waiting[:_ROWS_TERMINAL], found.unit, "waits in", TERMINAL | MARKDOWN),
            _table(found.waiting[:_ROWS_PAGE], found.unit, "waits in", HTML),
        ]
    if found.counted:
        counted = join([f"{figure(count)} {event}" for event, count in found.counted.items()])
        blocks.append(Paragraph(f"Counted by the processor per {found.unit}: {counted}."))
    if found.notes:
        notes = " ".join(f"{note[:1].upper()}{note[1:]}." for note in map(text.clean, found.notes))
        blocks.append(Paragraph(notes, QUIET, where=EVERYWHERE))
    return Section("Functions", "functions", tuple(blocks), link="Functions")


def _table(functions: Sequence[ServerFunction], unit: str, head: str, where: Formats) -> Table:
    rows = [
        (text.clean(function_name(each)), text.percent_fixed(each.share, 1), time_words(each.us))
        for each in functions
    ]
    return plain_table((head, "share", f"per {unit}"), rows, where=where)
