"""The first table of an answer of `tune`: each statement before and after, and by which fix."""

from collections.abc import Iterator

from pgassay.model.tuning.answer import Fix, StatementVerdict, TuneResult
from pgassay.report.section import (
    ALARM,
    QUIET,
    STRONG,
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
from pgassay.words import plural, seconds

# As many as are read; --json has them all.
OTHERS_SHOWN_MAX = 40
_STATEMENT_TONES: dict[StatementVerdict, Tone] = {
    "faster": STRONG,
    "slower": ALARM,
    "not decided": WARNING,
    "measured once": WARNING,
    "as it was": QUIET,
}


def by_statement(result: TuneResult) -> Iterator[Block]:
    """Each statement, before and after, and by which fix: what the question was."""
    if not result.statements:
        return
    titles = {fix.id: f"{fix.rank}. {fix.title}" for fix in result.fixes}
    heads = ("statement", "before", "after", "times as fast", "interval", "by", "verdict")
    rows = []
    for each in result.statements:
        gain = "" if each.ratio is None else gain_words(each.ratio, at_least=each.at_least)
        by = "; ".join(titles.get(name, name) for name in each.fixes)
        word = f"{each.verdict} (proven)" if each.verdict in ("faster", "slower") else each.verdict
        rows.append(
            Row(
                (
                    Cell(each.name),
                    Cell(time_words(each.seconds_before, at_least=each.at_least)),
                    Cell("" if each.seconds_after is None else seconds(each.seconds_after)),
                    Cell(gain),
                    Cell(interval_words(each.interval)),
                    Cell(by),
                    Cell(word, _STATEMENT_TONES[each.verdict]),
                )
            )
        )
    shorts = {"times as fast": "× as fast"}
    columns = (
        Column(head, is_figure=1 <= place <= 4, short=shorts.get(head, ""))
        for place, head in enumerate(heads)
    )
    yield Table(tuple(columns), (Group(tuple(rows)),))
    if any(each.interval is not None for each in result.statements):
        yield Figure("statements")
    proof = result.proof
    if proof is not None and proof.assumption:
        starts = plural(proof.blocks, "start")
        yield Paragraph(f"Proven from {starts} of the server; each verdict {proof.assumption}.", QUIET)
    if result.workload_gain is not None:
        yield Paragraph(
            f"The whole workload, as often as each is called: {gain_words(result.workload_gain)}", QUIET
        )
    unproven = [
        fix for fix in result.fixes if fix.verdict == "not decided" and fix.evidence != "none" and fix.sql
    ]
    if unproven:
        listed = [
            f"{fix.rank}. {fix.title}: {_looked(fix)}{shortened(fix.sql)}"
            for fix in unproven[:OTHERS_SHOWN_MAX]
        ]
        yield bullets(listed, title="Found and not proven", tone=WARNING)


def _looked(fix: Fix) -> str:
    """What a fix that is not proven was seen to do to statements."""
    seen = [f"{each.name} {gain_words(each.ratio)}" for each in fix.statements if each.ratio > 1]
    return f"{', '.join(seen)}; " if seen else ""
