"""Two diagnoses beside each other: what mattered most then and now, and each statement before and after."""

from pgassay.model.live.diagnosis import Activity, Headline
from pgassay.model.live.diagnosis_change import ChangedStatement, DiagnosisChange
from pgassay.report import terminal, text
from pgassay.report.compare.json import render_document
from pgassay.report.diagnosis.statements import query
from pgassay.report.html import page
from pgassay.report.section import QUIET, STRONG, Block, Paragraph, Section, plain_table

_ACTIVITY = (
    ("transactions_s", "transactions/s"),
    ("connections_busy", "connections busy"),
    ("server_cpus", "processors used by the server"),
    ("postgres_read_mb_s", "MB/s read by PostgreSQL"),
    ("server_read_mb_s", "MB/s from the device"),
    ("temporary_mb_s", "MB/s of temporary files"),
    ("wal_mb_s", "MB/s of WAL"),
)


def render_json(change: DiagnosisChange) -> str:
    """One JSON document; schema in schemas/diagnose-change.schema.json."""
    return render_document(change)


def render(change: DiagnosisChange, *, unicode: bool = True) -> str:
    """For a terminal."""
    return terminal.render(_sections(change), width=terminal.UNWRAPPED, unicode=unicode)


def render_html(change: DiagnosisChange) -> str:
    """One page that needs nothing but itself and runs nothing, to be written as UTF-8."""
    footer = f"Made by pgassay {change.pgassay_version}."
    return page.render(f"{text.clean(change.server)}, before and after", _sections(change), footer=footer)


def _sections(change: DiagnosisChange) -> list[Section]:
    when = (
        f"{text.clean(change.server)}: {change.started_at_before} ({change.seconds_before:.0f} s) and "
        f"{change.started_at_after} ({change.seconds_after:.0f} s)"
    )
    said: list[Block] = [Paragraph(when, QUIET)]
    said.append(Paragraph(f"Before: {_said(change.headline_before)}", STRONG))
    said.append(Paragraph(f"After: {_said(change.headline_after)}", STRONG))
    heads = ["statement", "before", "after", "× as fast", "calls/s before", "after", "time before", "after"]
    rows = [_row(each) for each in change.statements]
    sections = [Section("", "headline", tuple(said))]
    if rows:
        sections.append(Section("Statements", "statements", (plain_table(heads, rows),)))
    figures = [
        [words, _figure(before), _figure(after)]
        for name, words in _ACTIVITY
        if (before := _of(change.activity_before, name)) is not None
        and (after := _of(change.activity_after, name)) is not None
    ]
    sections.append(Section("The server", "server", (plain_table(["", "before", "after"], figures),)))
    notes = tuple(Paragraph(text.clean(note), QUIET) for note in change.notes)
    return [*sections, Section("", "notes", notes)]


def _said(headline: Headline | None) -> str:
    return text.clean(headline.sentence) if headline is not None else "an earlier version said nothing of it."


def _row(each: ChangedStatement) -> list[str]:
    return [
        query(each.query),
        _time(each.mean_ms_before),
        _time(each.mean_ms_after),
        "" if each.times_as_fast is None else text.figure(each.times_as_fast),
        _figure(each.calls_s_before),
        _figure(each.calls_s_after),
        _share(each.share_before),
        _share(each.share_after),
    ]


def _time(value_ms: float | None) -> str:
    return "" if value_ms is None else text.quantity(value_ms / 1000, "s")


def _share(value: float | None) -> str:
    return "" if value is None else text.percent_fixed(value)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else text.figure(value)


def _of(activity: Activity, name: str) -> float | None:
    value: float | None = getattr(activity, name)
    return value
