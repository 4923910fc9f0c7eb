"""What matters most of a diagnosis, and its statements: what their calls did and what their plans say."""

from collections.abc import Iterator, Sequence

from pgassay.analysis.diagnosis.sessions import IN_TRANSACTION
from pgassay.model.running_server.diagnosis import Diagnosis, Headline
from pgassay.model.running_server.statement import DiagnosedStatement
from pgassay.report import text
from pgassay.report.explain.plan_lines import tree_lines
from pgassay.report.section import (
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Fold,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Table,
    Tree,
    plain_table,
)

QUERY_CHARACTERS_MAX = 60
# Of a statement's time in one event: less is not worth its name in a table.
_WAIT_SHARE_MIN = 0.2
# Of the time that connections were busy: where the listed statements have less, the rest is told.
_LISTED_MIN = 0.7
_ELSEWHERE = "in other statements, or around these (planning, commits, waiting for a CPU)"
_AFTERWARDS = "its client after it (idle in transaction)"
_PLANS = {
    "generic plan": "its generic plan, not executed",
    "values of a call": "its plan for the values of an observed call, not executed",
    "": "",
}


def query(content: str) -> str:
    """A statement's text in one line that is short enough for a table."""
    shown = text.clean(content)
    return shown if len(shown) <= QUERY_CHARACTERS_MAX else f"{shown[: QUERY_CHARACTERS_MAX - 1]}…"


def headline_section(found: Headline) -> Section:
    """The one thing to read: the sentence, what to do, and what to type."""
    blocks: list[Block] = [Paragraph(text.clean(found.sentence), STRONG)]
    if found.sql:
        blocks.append(Code("\n".join(map(text.clean, found.sql.splitlines()))))
    blocks.append(Paragraph(text.clean(found.remedy)))
    if found.command:
        blocks.append(Code(text.clean(found.command), label="Next"))
    return Section("", "headline", tuple(blocks))


def statements_section(diagnosis: Diagnosis) -> Section | None:
    """The statements that took most of the time; None where none is known."""
    listed = diagnosis.by_statement
    said = [text.clean(line) for line in diagnosis.passed_over]
    if not listed and not said:
        return None
    blocks: list[Block] = []
    if listed:
        heads = ["statement", "time", "calls/s", "mean", "rows", "pages", "waits for"]
        blocks.append(plain_table(heads, [_row(each) for each in listed], where=TERMINAL | MARKDOWN))
        blocks.append(_narrow(listed))
        found = [item for each in listed for item in _found(each, diagnosis.headline)]
        blocks += [Bullets(tuple(found), title="Findings in their plans")] if found else []
        blocks += [Paragraph(line, QUIET) for line in (*_rest(diagnosis), *_without_plan(listed))]
        blocks += [_plan(each) for each in listed if each.plan is not None]
    blocks += [Paragraph(line, QUIET) for line in said]
    return Section("Statements that took most of the time", "statements", tuple(blocks))


def _row(each: DiagnosedStatement) -> list[str]:
    return [query(each.query), *_figures(each), *_of_a_call(each), _waits(each)]


def _narrow(listed: Sequence[DiagnosedStatement]) -> Table:
    """The same for a page, which may be a telephone's: what is no time stands below the statement."""
    columns = (Column("statement", is_figure=False), *map(Column, ("time", "calls/s", "mean")))
    rows = []
    for each in listed:
        a_call = zip(_of_a_call(each), ("rows", "pages"), strict=True)
        counts = ", ".join(f"{name} {count}" for count, name in a_call if count)
        waits = _waits(each)
        notes = (f"of a call: {counts}" if counts else "", f"waits for: {waits}" if waits else "")
        first = Cell(query(each.query), notes=tuple(filter(None, notes)))
        rows.append(Row((first, *map(Cell, _figures(each)))))
    return Table(columns, (Group(tuple(rows)),), where=HTML)


def _figures(each: DiagnosedStatement) -> tuple[str, str, str]:
    """Its share of the time, calls a second, their mean."""
    mean = "" if each.mean_ms is None else text.quantity(each.mean_ms / 1000, "s")
    return text.percent_fixed(each.share), _figure(each.calls_s), mean


def _of_a_call(each: DiagnosedStatement) -> tuple[str, str]:
    return _figure(each.rows), _figure(each.pages)


def _waits(each: DiagnosedStatement) -> str:
    """The two events that take most; a session whose statement has ended waits for its client."""
    told = [
        f"{_AFTERWARDS if event == IN_TRANSACTION else text.clean(event)} {text.percent_fixed(share)}"
        for event, share in each.waits.items()
        if event and share >= _WAIT_SHARE_MIN
    ]
    return ", ".join(told[:2])


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else text.figure(value, 2)


def _found(each: DiagnosedStatement, headline: Headline | None) -> Iterator[Item]:
    """What was found of it, but for what the headline says already."""
    is_told = headline is not None and headline.query_id is not None and headline.query_id == each.query_id
    for number, finding in enumerate(each.findings):
        if is_told and number == 0:
            continue
        sql = f"; {finding.sql}" if finding.sql else ""
        detail = "" if is_told or not each.command else f"Next: {each.command}"
        yield Item(text.clean(f"{query(each.query)}: {finding.sentence}{sql}"), detail=text.clean(detail))


def _rest(diagnosis: Diagnosis) -> Iterator[str]:
    """Where the time of busy connections is that the listed statements don't have, if that is much."""
    busy_s = (diagnosis.activity.connections_busy or 0.0) * diagnosis.seconds
    listed_s = sum(each.seconds for each in diagnosis.by_statement)
    if listed_s >= _LISTED_MIN * busy_s:
        return
    backends = next((each for each in diagnosis.accounts if each.process == "backend"), None)
    idle_s = sum(item.seconds for item in (backends.items if backends else ()) if item.kind == "client")
    idle_s = min(idle_s, busy_s - listed_s)
    others_s = busy_s - listed_s - idle_s
    parts = {"idle in a transaction": idle_s, _ELSEWHERE: others_s}
    rest = ", ".join(
        f"{text.figure(part_s)} s {name}" for name, part_s in parts.items() if part_s >= 0.01 * busy_s
    )
    yield (
        f"These statements took {text.figure(listed_s)} s of the {text.figure(busy_s)} s that connections "
        f"were busy. The rest: {rest}."
    )


def _without_plan(listed: tuple[DiagnosedStatement, ...]) -> Iterator[str]:
    for each in listed:
        if each.plan_missing:
            yield text.clean(f"No plan of {query(each.query)}: {each.plan_missing}.")


def _plan(each: DiagnosedStatement) -> Fold:
    assert each.plan is not None, "for statements with a plan"
    parts: tuple[Block, ...] = (
        Code(text.clean_lines(each.query)),
        Paragraph(text.clean(_PLANS[each.plan_from]), QUIET),
        Tree(tuple(tree_lines(each.plan))),
    )
    return Fold(f"Plan of {query(each.query)}", parts, where=HTML)
