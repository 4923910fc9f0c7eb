"""The first table of an answer of `tune`: each statement before and after, and by which fix."""

from collections.abc import Iterator, Mapping, Sequence

from pgassay.model.tuning.tune_answer import Fix, StatementAnswer, StatementVerdict, TuneResult
from pgassay.report.section import (
    ALARM,
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    WARNING,
    Block,
    Cell,
    Column,
    Figure,
    Group,
    Paragraph,
    Row,
    Table,
    Tone,
    bullets,
)
from pgassay.report.tune.figures import gain_words, interval_words, shortened, time_words
from pgassay.words import amount, plural, seconds

# As many as are read; --json has them all.
OTHERS_SHOWN_MAX = 40
_UNTRIED_SHOWN_MAX = 10
# What a statement was seen to gain once by less may be chance.
_LOOKED_MIN = 1.5
_PROVEN = ("faster", "slower")
_STATEMENT_TONES: dict[StatementVerdict, Tone] = {
    "faster": STRONG,
    "slower": ALARM,
    "not decided": WARNING,
    "measured once": WARNING,
    "as it was": QUIET,
}


def _wide(listed: Sequence[StatementAnswer], by: Mapping[str, str]) -> Table:
    """A column for each figure, where lines are long."""
    heads = ("statement", "before", "after", "times as fast", "interval", "by", "verdict")
    shorts = {"times as fast": "× as fast"}
    columns = [
        Column(head, is_figure=1 <= place <= 4, short=shorts.get(head, ""))
        for place, head in enumerate(heads)
    ]
    rows = [
        (
            Cell(each.name),
            *_times(each),
            Cell(_gain(each)),
            Cell(_interval(each)),
            Cell(by[each.name]),
            _verdict(each),
        )
        for each in listed
    ]
    # A column without figures takes room for nothing.
    kept = [place for place in range(len(heads)) if any(row[place].text for row in rows)]
    group = Group(tuple(Row(tuple(row[place] for place in kept)) for row in rows))
    return Table(tuple(columns[place] for place in kept), (group,), where=TERMINAL | MARKDOWN)


def _narrow(listed: Sequence[StatementAnswer], by: Mapping[str, str]) -> Table:
    """The same for a page, which may be a telephone's: what belongs to a figure stands below it."""
    columns = (
        Column("statement", is_figure=False),
        *map(Column, ("before → after", "× as fast")),
        Column("verdict", is_figure=False),
    )
    rows = (
        Row(
            (
                Cell(each.name, notes=(by[each.name],) if by[each.name] else ()),
                _time(each),
                Cell(_gain(each), notes=(_interval(each),) if _interval(each) else ()),
                _verdict(each),
            )
        )
        for each in listed
    )
    return Table(columns, (Group(tuple(rows)),), where=HTML)


def _time(each: StatementAnswer) -> Cell:
    after = () if each.seconds_after is None else (f"→ {seconds(each.seconds_after)}",)
    return Cell(seconds(each.seconds_before), notes=(*(("or more",) if each.at_least else ()), *after))


def _times(each: StatementAnswer) -> tuple[Cell, Cell]:
    after = "" if each.seconds_after is None else seconds(each.seconds_after)
    return Cell(time_words(each.seconds_before, at_least=each.at_least)), Cell(after)


def _gain(each: StatementAnswer) -> str:
    return "" if each.ratio is None else gain_words(each.ratio, at_least=each.at_least)


def _interval(each: StatementAnswer) -> str:
    """Its interval; nothing of one that no block bounds yet, whose verdict says so."""
    return "" if each.interval == (None, None) else interval_words(each.interval)


def _verdict(each: StatementAnswer) -> Cell:
    word = f"{each.verdict} (proven)" if each.verdict in _PROVEN else each.verdict
    return Cell(word, _STATEMENT_TONES[each.verdict])


def _with_what(result: TuneResult) -> str:
    """With which fixes the table's times are, where not all of them are recommended."""
    proof = result.confirmation or result.proof
    recommended = {fix.id for fix in result.fixes if fix.verdict == "recommended"}
    if proof is None or recommended.issuperset(proof.members):
        return ""
    return ", with all chosen fixes, also those not recommended"


def by_statement(result: TuneResult) -> Iterator[Block]:
    """Each statement, before and after, and by which fix: what the question was."""
    if not result.statements:
        return
    if any(each.interval is not None for each in result.statements):
        yield Figure("statements")
    titles = {fix.id: f"{fix.rank}. {fix.title}" for fix in result.fixes}
    # What changed comes first, and most of all what changed most.
    listed = sorted(result.statements, key=lambda each: (each.ratio is None, -(each.ratio or 0.0)))
    by = {each.name: "; ".join(titles.get(name, name) for name in each.fixes) for each in listed}
    yield _wide(listed, by)
    yield _narrow(listed, by)
    proof = result.proof
    if proof is not None and proof.assumption:
        starts = plural(proof.blocks, "start")
        yield Paragraph(f"Proven from {starts} of the server; each verdict {proof.assumption}.", QUIET)
    if result.workload_gain is not None:
        yield Paragraph(
            f"The whole workload, weighted by calls{_with_what(result)}: {amount(result.workload_gain)}",
            QUIET,
        )
    unproven = [
        fix for fix in result.fixes if fix.verdict == "not decided" and fix.evidence != "none" and fix.sql
    ]
    if unproven:
        found = [
            f"{fix.rank}. {fix.title}: {_looked(fix)}{shortened(fix.sql)}"
            for fix in unproven[:OTHERS_SHOWN_MAX]
        ]
        yield bullets(found, title="Found and not proven", tone=WARNING)
    untried = [
        fix for fix in result.fixes if fix.verdict == "not decided" and fix.evidence == "none" and fix.sql
    ]
    if untried:
        waiting = [f"{fix.rank}. {fix.title}: {shortened(fix.sql)}" for fix in untried[:_UNTRIED_SHOWN_MAX]]
        yield bullets(waiting, title="Not tried yet, the most promising first", tone=QUIET)


def _looked(fix: Fix) -> str:
    """What a fix that is not proven was seen to do to statements."""
    seen = [
        f"{each.name} {gain_words(each.ratio)} as fast"
        for each in fix.statements
        if each.ratio >= _LOOKED_MIN or (each.interval and each.interval[0] and each.interval[0] > 1)
    ]
    return f"{', '.join(seen)}; " if seen else ""
