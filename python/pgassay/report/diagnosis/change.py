"""Two diagnoses beside each other: what mattered most then and now, and each statement before and after."""

from functools import partial

from pgassay.model.running_server.diagnosis import Activity, Headline
from pgassay.model.running_server.diagnosis_change import ChangedStatement, DiagnosisChange
from pgassay.report import text
from pgassay.report.diagnosis.statement_sections import query
from pgassay.report.page import Page
from pgassay.report.section import QUIET, STRONG, Block, Paragraph, Section, plain_table

_ACTIVITY = (
    ("transactions_s", "transactions/s"),
    ("connections_busy", "connections busy"),
    ("server_cpus", "processors used by the server"),
    ("postgres_read_mb_s", "MB/s read by PostgreSQL"),
    ("server_read_mb_s", "MB/s from the device"),
    ("device_write_mb_s", "MB/s written to the device"),
    ("temporary_mb_s", "MB/s of temporary files"),
    ("wal_mb_s", "MB/s of WAL"),
)


def page_of(change: DiagnosisChange) -> Page:
    """Both headlines, the statements, the figures."""
    return Page(
        f"{change.server}, before and after",
        change,
        partial(_sections, change),
        footer=f"Made by pgassay {change.pgassay_version}.",
        is_wrapped=False,
    )


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
    return text.clean(headline.sentence) if headline is not None else "not recorded by the earlier version."


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
