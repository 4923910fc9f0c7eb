"""The section of the functions: what takes more or less time per transaction, and a table of the times."""

from collections.abc import Sequence

from pgassay.analysis.profile.flame import flames
from pgassay.analysis.profile.result import function_name, time_words
from pgassay.model.profile.result import FunctionArm, FunctionTimes, ProfileResult, WaitTimes
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.section import (
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    Block,
    Bullets,
    Cell,
    Column,
    FlameGraph,
    Formats,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    plain_table,
)
from pgassay.words import figure

HEADING = "Functions"
ANCHOR = "functions"
ROWS_TERMINAL, ROWS_PAGE = 12, 40
ARMS_MAX = 6
GRAPHS_MAX = 4
MEANINGS_TERMINAL = 3
_WAITS = (
    "Waits of the connections per {unit}, estimated from samples of the trials that were judged; they have "
    "no interval:"
)
_WAITING = (
    "Waiting per {unit} by the function that waits, off the processor, from the same trials; waits for the "
    "client are left out:"
)
_LEGEND = (
    "A frame is as wide as its time per {unit}, the mean of both arms; below it is what it calls. Red takes "
    "more time in the arm than in the control, blue less, grey as much; a difference of a few samples is "
    "pale. Click a frame to enlarge it; the arrow keys move, Enter enlarges, Escape shows all again."
)


def section(material: Material) -> Section:
    """Sentences, the table of functions, that of their callers; empty without a profile."""
    found = material.result.profile
    if found is None:
        return Section(HEADING, ANCHOR, ())
    blocks: list[Block] = [Paragraph(_basis(found), QUIET)]
    if found.sentences:
        blocks.append(Bullets(tuple(Item(f"{text.clean(line)}.") for line in found.sentences)))
    else:
        blocks.append(Paragraph(f"No function is found to differ per {found.unit}.", STRONG))
    blocks += [
        _table(material, found.functions, ROWS_TERMINAL, "function", TERMINAL | MARKDOWN),
        *_graphs(material, found),
        _table(material, found.functions, ROWS_PAGE, "function", HTML),
        _table(material, found.callers, ROWS_PAGE, "including callees", HTML),
    ]
    if found.counted:
        blocks.append(counted_table(found, names_of(material, found)))
    if found.waiting:
        blocks += [
            Paragraph(_WAITING.format(unit=found.unit), where=EVERYWHERE),
            _table(material, found.waiting, ROWS_TERMINAL, "waits in", TERMINAL | MARKDOWN),
            _table(material, found.waiting, ROWS_PAGE, "waits in", HTML),
        ]
    blocks += _waits(material, found)
    if found.notes:
        blocks.append(Paragraph(" ".join(f"{_sentence(note)}" for note in found.notes), QUIET))
    return Section(HEADING, ANCHOR, tuple(blocks), link=HEADING, folded=MARKDOWN)


def names_of(material: Material, found: ProfileResult) -> list[str]:
    """The profile's arms as a table's heads."""
    names = {(arm.name, arm.stratum): material.label_at(arm) for arm in material.result.arms}
    return [names.get((arm.name, arm.stratum), text.clean(arm.name)) for arm in found.arms[:ARMS_MAX]]


def counted_table(found: ProfileResult, names: Sequence[str]) -> Table:
    """Instructions and cycles per unit in each arm, and of two arms how they differ."""
    is_pair = len(found.arms) == 2
    heads = (f"per {found.unit}", *names, *(("change", "interval") if is_pair else ()))
    rows = []
    for each in found.counted:
        row = [each.event, *(counted_words(arm.count) for arm in each.arms[:ARMS_MAX])]
        if is_pair:
            compared = next((arm for arm in each.arms if arm.verdict != "control"), each.arms[-1])
            row += [text.ratio(compared.ratio), text.interval(compared.interval)]
        rows.append(tuple(row))
    return plain_table(heads, rows, where=EVERYWHERE)


def counted_words(count: float | None) -> str:
    """A number of instructions or cycles: '41,200'."""
    return "-" if count is None else figure(count)


def _graphs(material: Material, found: ProfileResult) -> list[Block]:
    """A flame graph for each comparison, with what its widths and colours mean."""
    names = {(arm.name, arm.stratum): material.label_at(arm) for arm in material.result.arms}
    drawn = flames(material.stored, GRAPHS_MAX)
    graphs: list[Block] = []
    for place, each in enumerate(drawn, start=1):
        control = names.get((each.control, each.stratum), text.clean(each.control))
        arm = names.get((each.arm, each.stratum), text.clean(each.arm))
        graphs.append(Subheading(f"{arm} against {control}", where=HTML))
        graphs.append(FlameGraph(f"flame-{place}", control, arm, found.unit, each.root, each.sample_us))
    if graphs:
        graphs.insert(0, Paragraph(_LEGEND.format(unit=found.unit), QUIET, where=HTML))
    return graphs


def _sentence(note: str) -> str:
    shown = text.clean(note)
    return f"{shown[:1].upper()}{shown[1:]}."


def _basis(found: ProfileResult) -> str:
    """What the figures are of."""
    arms = "; ".join(
        f"{text.clean(arm.name)} {time_words(arm.us)} ({arm.samples:,} samples)"
        for arm in found.arms[:ARMS_MAX]
    )
    how = "; ".join(text.clean(words) for words in found.stacks if words)
    return (
        f"CPU time of the server per {found.unit}, from {text.plural(found.rounds, 'round')} of further "
        f"trials in which perf sampled it {found.rate_hz:.0f} times a second ({how}); no verdict on speed "
        "uses them. "
        f"In all: {arms}."
    )


def _table(
    material: Material, functions: Sequence[FunctionTimes], rows_max: int, head: str, where: Formats
) -> Table:
    """Functions that differ first, then those with most time."""
    arms = [(arm.name, arm.stratum) for arm in functions[0].arms[:ARMS_MAX]] if functions else []
    names = {(arm.name, arm.stratum): material.label_at(arm) for arm in material.result.arms}
    is_pair = len(functions[0].arms) == 2 if functions else False
    columns = [Column(head, is_figure=False), Column("share")]
    columns += [Column(names.get(arm, text.clean(arm[0]))) for arm in arms]
    columns += [Column("change"), Column("interval")] if is_pair else []
    ordered = sorted(functions, key=lambda each: (not _differs(each), -each.share))[:rows_max]
    return Table(
        tuple(columns),
        (Group(tuple(_row(each, is_pair=is_pair) for each in ordered)),),
        where=where,
    )


def _waits(material: Material, found: ProfileResult) -> list[Block]:
    """What the connections waited for, and what is known of it."""
    if not found.waits:
        return []
    heads = ("wait", *names_of(material, found))
    rows = [
        (wait_name(wait), *("-" if us is None else time_words(us) for us in wait.us[:ARMS_MAX]))
        for wait in found.waits
    ]
    known = [wait for wait in found.waits if wait.meaning is not None]
    return [
        Paragraph(_WAITS.format(unit=found.unit), where=EVERYWHERE),
        plain_table(heads, rows[:ROWS_TERMINAL], where=TERMINAL | MARKDOWN),
        plain_table(heads, rows, where=HTML),
        _meanings(known[:MEANINGS_TERMINAL], TERMINAL | MARKDOWN),
        _meanings(known, HTML),
    ]


def wait_name(wait: WaitTimes) -> str:
    """A wait by its type and its name."""
    return text.clean(f"{wait.event_type} {wait.event}")


def _meanings(waits: Sequence[WaitTimes], where: Formats) -> Bullets:
    return Bullets(
        tuple(
            Item(f"{wait_name(wait)}: {wait.meaning.means}. Remedy: {wait.meaning.relief}.")
            for wait in waits
            if wait.meaning is not None
        ),
        where=where,
    )


def _differs(function: FunctionTimes) -> bool:
    return any(arm.verdict in ("less", "more") for arm in function.arms)


def _row(function: FunctionTimes, *, is_pair: bool) -> Row:
    arms = function.arms[:ARMS_MAX]
    cells = [Cell(text.clean(function_name(function))), Cell(text.percent_fixed(function.share, 1))]
    cells += [Cell(time_words(arm.us), _tone(arm)) for arm in arms]
    if is_pair:
        compared = next((arm for arm in arms if arm.verdict != "control"), arms[-1])
        cells += [Cell(text.ratio(compared.ratio), _tone(compared)), Cell(text.interval(compared.interval))]
    return Row(tuple(cells), differs=_differs(function))


def _tone(arm: FunctionArm) -> str:
    return {"less": "faster", "more": "slower"}.get(arm.verdict, "")
