"""A capture, summed up, for a person or as one document; pure."""

from collections.abc import Iterator

from pgassay.model.traffic.capture_summary import CaptureSummary
from pgassay.report.text import ascii_only, clean, percent_fixed, plural, seconds, size
from pgassay.words import share

FAMILIES_SHOWN = 15
_NAMES_SHOWN = 5
_BARS = "▁▂▃▄▅▆▇█"
_BARS_ASCII = "_.-=+*%#"
_HEADS = ("time", "calls", "mean", "longest", "rows", "errors")
# Where less is left for the statement it stands in a line of its own.
_TEXT_WIDTH_MIN = 60
_INDENT = 10


def render_json(summary: CaptureSummary) -> str:
    """The summary as one JSON document."""
    return summary.model_dump_json(by_alias=True, indent=2) + "\n"


def render(summary: CaptureSummary, *, width: int = 80, unicode: bool = True) -> str:
    """What was captured, where the time went, how much ran at once, and what a replay can't do."""
    lines = [*_head(summary), "", *_statements(summary, width), "", *_concurrency(summary, unicode=unicode)]
    lines += ["", *_unreplayable(summary)]
    text = "\n".join(lines) + "\n"
    return text if unicode else ascii_only(text)


def _head(summary: CaptureSummary) -> Iterator[str]:
    version = (summary.server_version or "").split(" on ")[0]
    began = summary.started_at[:19].replace("T", " ")
    yield f"{clean(summary.folder)}: {seconds(summary.seconds)} from {began} UTC{version and f', {version}'}"
    rate = summary.statements / summary.seconds if summary.seconds else 0.0
    yield (
        f"  {plural(summary.sessions, 'session')}, at most {summary.sessions_most} at once; "
        f"{plural(summary.transactions, 'transaction')}; {plural(summary.statements, 'statement')} "
        f"({rate:,.0f}/s); {plural(summary.errors, 'error')}, {plural(summary.cancels, 'cancel request')}"
    )
    each = summary.bytes / summary.statements if summary.statements else 0.0
    yield f"  {size(summary.bytes)}, {each:.0f} bytes a statement"
    yield f"  users: {_names(summary.users)}; databases: {_names(summary.databases)}"
    for note in summary.notes:
        yield f"  note: {clean(note)}"


def _names(counts: dict[str, int]) -> str:
    shown = [f"{clean(name)} ({count:,})" for name, count in list(counts.items())[:_NAMES_SHOWN]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") if shown else "none"


def _statements(summary: CaptureSummary, width: int) -> Iterator[str]:
    shown = summary.families[:FAMILIES_SHOWN]
    if not shown:
        yield "No statements."
        return
    yield f"Statements by their share of the time ({seconds(summary.busy_s)} in all sessions)"
    rows = [
        (
            percent_fixed(each.share, 1),
            f"{each.calls:,}",
            seconds(each.mean_ms / 1e3),
            seconds(each.max_ms / 1e3),
            f"{each.rows:,}",
            f"{each.errors:,}",
        )
        for each in shown
    ]
    widths = [max(len(head), *(len(row[place]) for row in rows)) for place, head in enumerate(_HEADS)]
    room = width - sum(widths) - 2 * len(widths) - 4
    separator = "  "
    if room < _TEXT_WIDTH_MIN:
        separator, room = "\n" + " " * _INDENT, max(_TEXT_WIDTH_MIN, width - _INDENT)
    yield (
        "  " + "  ".join(head.rjust(wide) for head, wide in zip(_HEADS, widths, strict=True)) + "  statement"
    )
    for row, each in zip(rows, shown, strict=True):
        text = clean(each.text)
        text = text if len(text) <= room else text[: room - 1] + "…"
        figures = "  ".join(word.rjust(wide) for word, wide in zip(row, widths, strict=True))
        yield f"  {figures}{separator}{text}"
    more = len(summary.families) - len(shown)
    if more > 0:
        share = sum(each.share for each in summary.families[FAMILIES_SHOWN:])
        yield f"  {plural(more, 'other')} with {percent_fixed(share, 1)} of the time: --json has them"


def _concurrency(summary: CaptureSummary, *, unicode: bool) -> Iterator[str]:
    most = max((each.active for each in summary.moments), default=0.0)
    each_s = summary.seconds / len(summary.moments) if summary.moments else 0.0
    yield f"Statements at once: {most:.1f} at most on average in {seconds(each_s)}, each a column"
    bars = _BARS if unicode else _BARS_ASCII
    places = [round((len(bars) - 1) * each.active / most) if most else 0 for each in summary.moments]
    yield "  " + "".join(bars[place] for place in places)


def _unreplayable(summary: CaptureSummary) -> Iterator[str]:
    if not summary.unreplayable:
        yield "A replay can reproduce everything in it."
        return
    yield "What a replay can't reproduce"
    for each in summary.unreplayable:
        part = "" if each.share is None else f", {share(each.share)} of the time"
        yield f"  {each.count:,}{part}: {clean(each.reason)}"
