"""Symptom, cause, candidates and proof as sections: what is recommended, and what did not help."""

from collections.abc import Iterator, Sequence
from functools import partial

from pgassay.model.tuning.source import TuneSource
from pgassay.model.tuning.tune_answer import Fix, FixStatement, FixVerdict, TuneProof, TuneResult
from pgassay.report.charts import tune_charts
from pgassay.report.page import Page
from pgassay.report.section import (
    ALARM,
    HTML,
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
from pgassay.words import figure, join, plural, seconds, share, size

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
    yield Paragraph(
        f"{plural(len(symptom.statements), 'statement')} of {symptom.workload} on {symptom.data}, PostgreSQL "
        f"{symptom.version}, cache {symptom.cache}: {took} for all of them once."
    )
    if symptom.clients > 1:
        yield Paragraph(
            f"In the proof {symptom.clients} clients execute them concurrently, as often as their weights "
            "say; the times below are for a single client."
        )
    heads: tuple[str, ...] = ("statement", "time", "share", "where most of it goes")
    rows: list[tuple[str, ...]] = [
        (each.name, time_words(each.seconds, at_least=each.at_least), share(each.share), each.plan)
        for each in symptom.statements
    ]
    if symptom.source is not None:
        heads = (*heads[:3], *_THERE, heads[3])
        there = [(_milliseconds(each.source_ms), _share(each.source_share)) for each in symptom.statements]
        rows = [(*row[:3], *more, row[3]) for row, more in zip(rows, there, strict=True)]
    made = plain_table(heads, rows)
    columns = tuple(Column(head, is_figure=head in ("time", "share", *_THERE)) for head in heads)
    yield Table(columns, made.groups)
    if symptom.copy_notes:
        yield bullets(symptom.copy_notes, title="The copy")


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
        yield Paragraph(f"{fix.rank}. {fix.title}: {'; '.join(filter(None, (fix.reason, fix.note)))}")
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
    gain = gain_words(statement.ratio, at_least=statement.at_least)
    return f"{statement.name}: {gain}{ends_words(statement.interval)}"


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
    Column("layer", is_figure=False),
    Column("verdict", is_figure=False),
    Column("times as fast", short="× as fast"),
    Column("interval"),
    Column("predicted"),
    Column("takes"),
    Column("on disk"),
    Column("writes"),
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
    return "" if ratio is None or is_open or fix.applied_by == "statement" else f"{ratio:.2f} ×"


def _row(fix: Fix) -> Row:
    how = _how(fix)
    verdict = f"{fix.verdict} ({how})" if how and fix.verdict != "screened out" else fix.verdict
    cost = fix.cost
    cells = (
        Cell(f"{fix.rank}. {fix.title}"),
        Cell(fix.layer),
        Cell(verdict, _TONES[fix.verdict]),
        Cell("" if fix.gain is None else gain_words(fix.gain, at_least=fix.at_least)),
        Cell(interval_words(fix.interval)),
        Cell("" if fix.predicted_gain is None else gain_words(fix.predicted_gain)),
        Cell("" if cost.build_s is None else seconds(cost.build_s)),
        Cell("" if not cost.bytes else _bytes(cost.bytes)),
        Cell(_writes(fix)),
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
