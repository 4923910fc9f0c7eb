"""A capture, summed up: sessions, statements by their time, how much ran at once, what can't be replayed."""

from collections.abc import Iterator
from functools import partial

from pgassay.model.traffic.capture_summary import CaptureFamily, CaptureSummary
from pgassay.report.page import Page
from pgassay.report.section import QUIET, STRONG, Block, Paragraph, Section, bullets, plain_table
from pgassay.report.text import BARS, excerpt, percent_fixed, plural, seconds, size
from pgassay.words import share

FAMILIES_SHOWN = 15
_NAMES_SHOWN = 5
_TEXT_MAX = 160
_HEADS = ("statement", "time", "calls", "mean", "longest", "rows", "errors")


def page_of(summary: CaptureSummary) -> Page:
    """What was captured, where the time went, how much ran at once, and what a replay can't do."""
    return Page(f"Capture {summary.folder}", summary, partial(_sections, summary))


def _sections(summary: CaptureSummary) -> list[Section]:
    return [
        Section("", "capture", (Paragraph(_first(summary), STRONG), bullets(_head(summary)))),
        _statements(summary),
        Section(*_concurrency(summary)),
        _unreplayable(summary),
    ]


def _first(summary: CaptureSummary) -> str:
    version = (summary.server_version or "").split(" on ")[0]
    began = summary.started_at[:19].replace("T", " ")
    return f"{summary.folder}: {seconds(summary.seconds)} from {began} UTC{version and f', {version}'}"


def _head(summary: CaptureSummary) -> Iterator[str]:
    rate = summary.statements / summary.seconds if summary.seconds else 0.0
    yield (
        f"{plural(summary.sessions, 'session')}, at most {summary.sessions_most} at once; "
        f"{plural(summary.transactions, 'transaction')}; {plural(summary.statements, 'statement')} "
        f"({rate:,.0f}/s); {plural(summary.errors, 'error')}, {_cancels(summary)}"
    )
    each = summary.bytes / summary.statements if summary.statements else 0.0
    yield f"{size(summary.bytes)}, {each:.0f} bytes a statement"
    yield f"users: {_names(summary.users)}; databases: {_names(summary.databases)}"
    for note in summary.notes:
        yield f"note: {note}"


def _cancels(summary: CaptureSummary) -> str:
    # A log has the error of a statement that was cancelled, and not who asked for it.
    is_log = summary.source == "log"
    return "cancel requests are not in a log" if is_log else plural(summary.cancels, "cancel request")


def _names(counts: dict[str, int]) -> str:
    shown = [f"{name} ({count:,})" for name, count in list(counts.items())[:_NAMES_SHOWN]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") if shown else "none"


def _statements(summary: CaptureSummary) -> Section:
    shown = summary.families[:FAMILIES_SHOWN]
    if not shown:
        return Section("Statements", "statements", (Paragraph("No statements.", QUIET),))
    blocks: list[Block] = [plain_table(_HEADS, map(_row, shown))]
    more = len(summary.families) - len(shown)
    if more > 0:
        left = sum(each.share for each in summary.families[FAMILIES_SHOWN:])
        words = f"{plural(more, 'other')} with {percent_fixed(left, 1)} of the time: --json has them"
        blocks.append(Paragraph(words, QUIET))
    if summary.pipelined_s:
        part = share(summary.pipelined_s / summary.busy_s)
        words = (
            f"{seconds(summary.pipelined_s)} of this ({part}) is of pipelines. A server answers their "
            "statements together, so what each took is not known, and they share it evenly. A capture of the "
            "server's log (--log) has the time of each."
        )
        blocks.append(Paragraph(words, QUIET))
    heading = f"Statements by their share of the time ({seconds(summary.busy_s)} in all sessions)"
    return Section(heading, "statements", tuple(blocks), link="Statements")


def _row(each: CaptureFamily) -> tuple[str, ...]:
    return (
        excerpt(each.text, _TEXT_MAX),
        percent_fixed(each.share, 1),
        f"{each.calls:,}",
        seconds(each.mean_ms / 1e3),
        seconds(each.max_ms / 1e3),
        f"{each.rows:,}",
        f"{each.errors:,}",
    )


def _concurrency(summary: CaptureSummary) -> tuple[str, str, tuple[Block, ...], str]:
    most = max((each.active for each in summary.moments), default=0.0)
    each_s = summary.seconds / len(summary.moments) if summary.moments else 0.0
    places = [round((len(BARS) - 1) * each.active / most) if most else 0 for each in summary.moments]
    heading = f"Statements at once: {most:.1f} at most on average in {seconds(each_s)}, each a column"
    return heading, "at-once", (Paragraph("".join(BARS[place] for place in places)),), "Statements at once"


def _unreplayable(summary: CaptureSummary) -> Section:
    if not summary.unreplayable:
        said: Block = Paragraph("A replay can reproduce everything in it.")
        return Section("", "not-replayed", (said,))
    lines = [
        f"{each.count:,}{'' if each.share is None else f', {share(each.share)} of the time'}: {each.reason}"
        for each in summary.unreplayable
    ]
    return Section("What a replay can't reproduce", "not-replayed", (bullets(lines),), link="Not replayed")
