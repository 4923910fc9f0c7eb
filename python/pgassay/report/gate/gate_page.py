"""A gate's result."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from pgassay.model.gates.gate import Finding, GatedSystem, GateResult, GateUnit
from pgassay.report.page import Page
from pgassay.report.section import (
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    Cell,
    Column,
    Formats,
    Group,
    Paragraph,
    Row,
    Section,
    Table,
)
from pgassay.words import figure, interval, percent_rounded, plural, quantity, ratio

# What a reader must see first.
_ORDER: tuple[Finding, ...] = ("slow-down", "undecided", "within the margin", "none found", "excluded")
_TONES: dict[Finding, str] = {
    "slow-down": "slower",
    "undecided": "inconclusive",
    "within the margin": "slower",
    "none found": "inconclusive",
    "excluded": "equivalent",
}
_COLUMNS = (
    Column("unit", is_figure=False),
    Column("finding", is_figure=False),
    Column("speed", short="speed"),
    Column("interval"),
    Column("baseline"),
    Column("change"),
    Column("margin"),
    Column("blocks"),
    Column("findable"),
)


def page_of(result: GateResult) -> Page:
    """The verdict, then a row for each unit; in Markdown what matters is open, the other units are folded."""
    return Page(f"Gate {result.file}", result, partial(sections, result))


def headline(result: GateResult) -> str:
    """The outcome in a few words, for a title."""
    counted = Counter(unit.finding for unit in result.units)
    if result.outcome == "interrupted":
        return "Interrupted"
    if result.outcome == "slow-down":
        return f"Slow-down of {plural(counted['slow-down'], 'unit')}"
    return "Undecided" if result.outcome == "undecided" else "No slow-down found"


def sections(result: GateResult) -> list[Section]:
    """What there is to say of a gate, for every output."""
    lines = [Paragraph(line, STRONG) for line in result.verdict.splitlines()]
    sides = Paragraph(f"Change: {side_words(result.change)}. Baseline: {side_words(result.baseline)}.", QUIET)
    notable = [unit for unit in ordered(result.units) if unit.finding in _ORDER[:3]]
    others = [unit for unit in ordered(result.units) if unit.finding not in _ORDER[:3]]
    return [
        Section("", "verdict", (Paragraph(headline(result), STRONG, where=MARKDOWN), *lines, sides)),
        Section("Units", "units", _tables([*notable, *others], TERMINAL | HTML), titled=frozenset()),
        Section("", "notable", _tables(notable, MARKDOWN)),
        Section(
            f"{plural(len(others), 'other unit')}, none slower",
            "others",
            _tables(others, MARKDOWN),
            folded=MARKDOWN,
        ),
        Section("", "notes", _notes(result)),
    ]


def _notes(result: GateResult) -> tuple[Paragraph, ...]:
    said = [*result.warnings]
    for each in result.workloads:
        said += [each.promise, *(f"{each.name}: {sentence}" for sentence in each.warnings)]
    notes = [Paragraph(sentence, QUIET) for sentence in said if sentence]
    if result.units:
        notes.append(Paragraph(rule_sentence(result), QUIET))
    return tuple(notes)


def rule_sentence(result: GateResult) -> str:
    """How false alarms are bounded, in a sentence."""
    rule = result.rule
    earlier = f", with {plural(result.earlier_runs, 'earlier run')}" if result.earlier_runs else ""
    return (
        f"A slow-down counts as found at an evidence of {figure(rule.threshold)} "
        f"({plural(rule.units, 'unit')}{earlier}): without any, {figure(rule.runs_per_year, 6)} runs "
        f"have at most {figure(rule.false_alarms_per_year, 6)} false alarms in expectation. "
        "Intervals hold at that level."
    )


def side_words(system: GatedSystem) -> str:
    """One side in words: what was typed, the commit, the version."""
    words = [system.name]
    if system.revision:
        words.append(f"at {system.revision[:12]}{'+' * system.revision.endswith('+')}")
    if system.versions:
        words.append(f"on PostgreSQL {', '.join(system.versions)}")
    return " ".join(words)


def ordered(units: Sequence[GateUnit]) -> list[GateUnit]:
    """The units, what must be seen first; within one finding the slowest first."""
    return sorted(units, key=lambda unit: (_ORDER.index(unit.finding), unit.ratio or 0.0))


def _tables(units: Sequence[GateUnit], where: Formats) -> tuple[Table, ...]:
    if not units:
        return ()
    rows = tuple(Row(tuple(Cell(text, tone) for text, tone in _cells(unit))) for unit in units)
    return (Table(_COLUMNS, (Group(rows),), where=where),)


def _cells(unit: GateUnit) -> list[tuple[str, str]]:
    return [
        (unit.name, ""),
        (unit.finding, _TONES[unit.finding]),
        (ratio(unit.ratio), ""),
        (interval(unit.interval), ""),
        (quantity(unit.median_baseline, unit.unit), ""),
        (quantity(unit.median_change, unit.unit), ""),
        (percent_rounded(unit.margin), ""),
        (plural(unit.blocks, "start") if unit.starts else str(unit.blocks), ""),
        ("" if unit.findable is None else percent_rounded(unit.findable), ""),
    ]
