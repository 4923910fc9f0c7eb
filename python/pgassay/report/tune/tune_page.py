"""Symptom, cause, candidates and proof as sections: what is recommended, and what did not help."""

from collections.abc import Iterator, Sequence
from functools import partial

from pgassay.model.tuning.source import TuneSource
from pgassay.model.tuning.tune_answer import (
    Fix,
    FixStatement,
    FixVerdict,
    TuneProof,
    TuneResult,
    TuneSymptom,
)
from pgassay.report.charts import tune_charts
from pgassay.report.page import Page
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
    Code,
    Column,
    Figure,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    Tone,
    Tree,
    TreeLine,
    bullets,
    plain_table,
)
from pgassay.report.tune.figures import ends_words, gain_words, interval_words, time_words
from pgassay.report.tune.statement_sections import OTHERS_SHOWN_MAX, by_statement
from pgassay.words import amount, amount_within, figure, join, plural, seconds, share, size

_TONES: dict[FixVerdict, Tone] = {
    "recommended": STRONG,
    "worse": ALARM,
    "unsafe": ALARM,
    "not decided": WARNING,
    "not needed": QUIET,
    "no help": QUIET,
    "screened out": QUIET,
}
_EVIDENCE = {"proof": "proven", "search": "tried", "planner": "by the planner", "none": ""}
# So many notes of the same words are one.
_ALIKE_MIN = 3
# Writes that take more or less by no more than this are told to be as fast.
_SAME = 0.02
# A column of these; on a page its cells are notes of another one.
_WIDE = TERMINAL | MARKDOWN
# Of statements that were read from a server: a statement's mean there, and its part of all.
_THERE = ("mean on the source", "share there")


def page_of(result: TuneResult) -> Page:
    """The answer first, then the way to it."""
    title = f"Fixes for {result.symptom.workload}"
    return Page(title, result, partial(sections, result), partial(tune_charts.drawings, result))


def sections(result: TuneResult) -> list[Section]:
    """The answer first, then the way to it."""
    recommended = [fix for fix in result.fixes if fix.verdict == "recommended"]
    others = [fix for fix in result.fixes if fix.verdict != "recommended"]
    made = [
        Section("", "answer", tuple(_answer(result))),
        Section("Statements", "statements", tuple(by_statement(result))),
        Section("Symptom", "symptom", tuple(_symptom(result))),
        Section("Cause", "cause", (Paragraph(_cause(result)),)),
    ]
    if result.symptom.source is not None:
        made.insert(2, Section("Source", "source", tuple(_source(result.symptom.source))))
    if recommended:
        made.append(Section("What helps", "fixes", tuple(_recommended(result, recommended))))
    if others:
        blocks = tuple(_others(others, is_drawn=not recommended))
        made.append(Section("Tried, but not recommended", "others", blocks))
    made.append(Section("From symptom to proof", "tree", (Tree(tuple(_tree(result)), where=HTML),)))
    if result.not_rewritten:
        refused = bullets(result.not_rewritten)
        made.append(Section("Not rewritten", "not-rewritten", (refused,), folded=HTML))
    if result.warnings:
        made.append(Section("Warnings", "warnings", (bullets(result.warnings, tone=WARNING),)))
    made.append(Section("", "folder", (Code(result.folder, label="Folder", where=TERMINAL),)))
    return made


def _answer(result: TuneResult) -> Iterator[Block]:
    yield Paragraph(result.verdict, STRONG)
    if result.interrupted:
        yield Paragraph("Stopped early: these are the results so far.", WARNING)


def _symptom(result: TuneResult) -> Iterator[Block]:
    symptom = result.symptom
    took = time_words(symptom.seconds, at_least=symptom.at_least)
    is_weighted = any(each.weight != 1 for each in symptom.statements)
    often = "in total, each as often as it is called" if is_weighted else "for all of them once"
    yield Paragraph(
        f"{plural(len(symptom.statements), 'statement')} of {symptom.workload} on {symptom.data}, PostgreSQL "
        f"{symptom.version}, cache {symptom.cache}: {took} {often}."
    )
    if symptom.clients > 1:
        yield Paragraph(
            f"In the proof {symptom.clients} clients execute them concurrently, as often as their weights "
            "say; the times below are for a single client."
        )
    yield _times(symptom)
    if symptom.copy_notes:
        yield bullets(symptom.copy_notes, title="The copy")


def _times(symptom: TuneSymptom) -> Table:
    """A statement in each row. On a page, which may be a telephone's, words stand below name and figure."""
    there = _THERE if symptom.source is not None else ()
    columns = (
        Column("statement", is_figure=False),
        *map(Column, ("time", "share")),
        *(Column(head, where=_WIDE) for head in there),
        Column("where most of it goes", is_figure=False, where=_WIDE),
    )
    rows = []
    for each in symptom.statements:
        of_source = (_milliseconds(each.source_ms), _share(each.source_share)) if there else ("", "")
        time_there, share_there = ((f"{words} there",) if words else () for words in of_source)
        rows.append(
            Row(
                (
                    Cell(each.name, notes=(each.plan,) if each.plan else ()),
                    Cell(time_words(each.seconds, at_least=each.at_least), notes=time_there),
                    Cell(share(each.share), notes=share_there),
                    *(map(Cell, of_source) if there else ()),
                    Cell(each.plan),
                )
            )
        )
    return Table(columns, (Group(tuple(rows)),))


def _source(source: TuneSource) -> Iterator[Block]:
    since = f" since {source.since}" if source.since else ""
    passed = ", ".join(f"{count} {kind}" for kind, count in source.ignored.items())
    counted = plural(source.statements, "statement")
    yield Paragraph(
        f"{source.name}, PostgreSQL {source.version}, counted {counted}{since}, {seconds(source.seconds)} "
        f"in all. The statements above took {share(source.share)} of that on the source."
        + ("" if source.sessions is None else f" {_sessions(source.sessions)}.")
        + (f" Skipped: {passed}." if passed else "")
    )
    if source.left_out:
        reasons = [f"{each.name} ({share(each.share)}): {each.reason}" for each in source.left_out]
        yield bullets(reasons, title="Left out", tone=WARNING)
    if source.settings:
        taken = ", ".join(f"{name} = {value}" for name, value in source.settings.items())
        yield Fold("Settings copied from the source", (Paragraph(taken),))


def _sessions(count: float) -> str:
    return f"On average {figure(count, 2)} of its sessions are active at the same time"


def _milliseconds(value: float | None) -> str:
    return "" if value is None else seconds(value / 1000)


def _share(value: float | None) -> str:
    return "" if value is None else share(value)


def _cause(result: TuneResult) -> str:
    """In the statement's own words where they are known."""
    cause = result.cause
    return cause.sentence or f"{cause.layer}: {cause.cause}"


def _recommended(result: TuneResult, fixes: Sequence[Fix]) -> Iterator[Block]:
    yield _table(fixes)
    yield Figure("gains")
    for fix in fixes:
        reason = f"{fix.reason_of}: {fix.reason}" if fix.reason_of and fix.reason else fix.reason
        yield Paragraph(f"{fix.rank}. {fix.title}: {'; '.join(filter(None, (reason, fix.note)))}")
        if fix.statements:
            yield bullets([_statement_words(each) for each in fix.statements])
        for name, text in fix.rewritten.items():
            yield Code(text, label=f"{name} rewritten (same rows: {fix.same_results})")
    if result.apply_sql:
        yield Fold("apply.sql", (Code(result.apply_sql),), is_open=True)
        yield Fold("undo.sql", (Code(result.undo_sql),))
    if result.parameter_group:
        yield Fold("As lines for a parameter group", (Code("\n".join(result.parameter_group)),))
    proof = result.confirmation or result.proof
    # Answers that were stored before have no table of their statements.
    if proof is not None and proof.statements and not result.statements:
        yield Subheading("All chosen fixes together, statement by statement")
        yield Figure("statements")
        yield _of_statements(result, proof)


def _of_statements(result: TuneResult, proof: TuneProof) -> Table:
    """What all chosen fixes do to each statement that the proof measured."""
    before = {each.name: each for each in result.symptom.statements}
    heads = ("statement", "as it was", "with them", "times as fast", "interval")
    rows = []
    for each in proof.statements:
        was = before.get(each.name)
        times = ("", "")
        if was is not None:
            with_s = (each.waited_s or was.seconds) / each.ratio
            times = (time_words(was.seconds, at_least=was.at_least), seconds(with_s))
        gain = gain_words(each.ratio, at_least=each.at_least)
        rows.append((each.name, *times, gain, interval_words(each.interval)))
    made = plain_table(heads, rows)
    return Table(tuple(Column(head, is_figure=place > 0) for place, head in enumerate(heads)), made.groups)


def _statement_words(statement: FixStatement) -> str:
    if statement.ratio < 1 and not statement.at_least:
        return f"{statement.name}: {amount_within(statement.ratio, statement.interval)}"
    gain = gain_words(statement.ratio, at_least=statement.at_least)
    return f"{statement.name}: {gain} as fast{ends_words(statement.interval)}"


def _others(fixes: Sequence[Fix], *, is_drawn: bool) -> Iterator[Block]:
    yield _table(fixes[:OTHERS_SHOWN_MAX])
    if is_drawn:
        yield Figure("gains")
    notes = _notes(fixes[:OTHERS_SHOWN_MAX])
    if notes:
        yield bullets(notes)
    if len(fixes) > OTHERS_SHOWN_MAX:
        yield Paragraph(f"… and {len(fixes) - OTHERS_SHOWN_MAX} more: --json has them all.", QUIET)


def _notes(fixes: Sequence[Fix]) -> list[str]:
    """What is said of each; what is said of many is said once, of their numbers."""
    by_note: dict[str, list[Fix]] = {}
    for fix in fixes:
        if fix.note:
            by_note.setdefault(fix.note, []).append(fix)
    made = []
    for note, alike in by_note.items():
        ranks = [str(fix.rank) for fix in alike]
        if len(alike) >= _ALIKE_MIN:
            made.append(f"{join(ranks)}: {note}")
        else:
            made += [f"{fix.rank}. {fix.title}: {note}" for fix in alike]
    return made


_COLUMNS = (
    Column("fix", is_figure=False),
    Column("layer", is_figure=False, where=_WIDE),
    Column("verdict", is_figure=False),
    Column("times as fast", short="× as fast"),
    *(Column(head, where=_WIDE) for head in ("interval", "predicted", "takes", "on disk", "writes")),
)


def _table(fixes: Sequence[Fix]) -> Table:
    """The fixes with what is known of any of them: a column without figures takes room for nothing."""
    rows = [_row(fix) for fix in fixes]
    kept = [place for place in range(len(_COLUMNS)) if any(row.cells[place].text for row in rows)]
    group = Group(tuple(Row(tuple(row.cells[place] for place in kept)) for row in rows))
    return Table(tuple(_COLUMNS[place] for place in kept), (group,))


def _how(fix: Fix) -> str:
    """What the verdict rests on, in a word or two; '' where there is nothing."""
    is_open = fix.verdict == "not decided" and fix.evidence == "proof"
    return "so far" if is_open else _EVIDENCE[fix.evidence]


def _writes(fix: Fix) -> str:
    """What it does to the statements that write; '' where that is not known, or another text of a query."""
    ratio = fix.cost.write_ratio
    # One block's ratio of one short statement may be anything: it is shown when the proof bounds something.
    is_open = fix.interval == (None, None) if fix.evidence == "proof" else fix.evidence == "search"
    if not ratio or is_open or fix.applied_by == "statement":
        return ""
    return "unchanged" if abs(ratio - 1) < _SAME else amount(1 / ratio)


def _row(fix: Fix) -> Row:
    how = _how(fix)
    verdict = f"{fix.verdict} ({how})" if how and fix.verdict != "screened out" else fix.verdict
    cost = fix.cost
    interval = interval_words(fix.interval)
    predicted = "" if fix.predicted_gain is None else gain_words(fix.predicted_gain)
    takes = "" if cost.build_s is None else seconds(cost.build_s)
    on_disk, writes = "" if not cost.bytes else _bytes(cost.bytes), _writes(fix)
    price = (("takes {}", takes), ("{} on disk", on_disk), ("writes {}", writes))
    below = ", ".join(said.format(words) for said, words in price if words)
    expected = f"predicted {predicted}" if predicted else ""
    cells = (
        Cell(f"{fix.rank}. {fix.title}", notes=(below,) if below else ()),
        Cell(fix.layer),
        Cell(verdict, _TONES[fix.verdict]),
        Cell(
            "" if fix.gain is None else gain_words(fix.gain, at_least=fix.at_least),
            notes=tuple(filter(None, (interval, expected))),
        ),
        *map(Cell, (interval, predicted, takes, on_disk, writes)),
    )
    return Row(cells)


def _bytes(count: int) -> str:
    return size(count) if count >= 0 else f"−{size(-count)}"


def _tree(result: TuneResult) -> Iterator[TreeLine]:
    """Symptom → cause → candidate → proof."""
    symptom = result.symptom
    yield TreeLine(0, f"{symptom.workload}: {time_words(symptom.seconds, at_least=symptom.at_least)}", STRONG)
    for each in symptom.statements:
        took = time_words(each.seconds, at_least=each.at_least)
        yield TreeLine(1, f"{each.name}: {took}, {share(each.share)}; {each.plan}")
    yield TreeLine(1, f"cause: {_cause(result)}", STRONG)
    for fix in result.fixes:
        yield TreeLine(2, f"{fix.title} [{fix.kind}]: {fix.reason}", _TONES[fix.verdict])
        gain = gain_words(fix.gain, at_least=fix.at_least) if fix.gain is not None else ""
        gain = f", {gain}{ends_words(fix.interval)}" if gain else ""
        how = _how(fix)
        yield TreeLine(
            3, f"{fix.verdict}{f' ({how})' if how else ''}{gain}{f'; {fix.note}' if fix.note else ''}"
        )
    for name, proof in (("proof", result.proof), ("the rest of it", result.confirmation)):
        if proof is None:
            continue
        gain = "no figure yet"
        if proof.gain is not None:
            gain = f"{gain_words(proof.gain, at_least=proof.at_least)}{ends_words(proof.interval)}"
        yield TreeLine(
            1, f"{name}: {plural(proof.blocks, 'block')} of {proof.folder}, {gain}, {proof.verdict}", STRONG
        )
