"""The table of `pgassay list`: the results below a folder, newest last."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.report.text import ascii_only, clean
from pgassay.words import plural

_TITLE_WIDTH_MAX = 44
# How it ended, where the stored word alone would be a riddle beside the number of blocks.
_STOPPED = {"max-time": "limit of time", "blocks": "limit of blocks", "running": "not ended"}


@dataclass(frozen=True)
class ListingRow:
    """One result: `verdict` may hold several sentences, each on a line, of which the first is shown.

    `started` is its ISO time; `amount` what it rests on, as '8 blocks'; `error` says why the folder can't be
    read, '' when it can.
    """

    folder: str
    started: str
    title: str
    amount: str
    stopped: str
    verdict: str
    error: str = ""


def render(rows: Sequence[ListingRow], *, unicode: bool = True) -> str:
    """Two lines per result: folder, start, amount, how it stopped, title; then its verdict.

    Ordered by start. Without `unicode` the text is pure ASCII.
    """
    if not rows:
        return "No results here: 'pgassay compare' makes some, 'pgassay list FOLDER' looks elsewhere.\n"
    ordered = sorted(rows, key=lambda row: (row.started, row.folder))
    cells = [_cells(row) for row in ordered]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]) - 1)]
    lines = []
    for row, line in zip(ordered, cells, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        lines.append("  ".join([*padded, line[-1]]).rstrip())
        lines.append(f"    {_verdict(row)}")
    page = "\n".join(lines) + "\n"
    return page if unicode else "\n".join(ascii_only(line) for line in page.split("\n"))


def blocks_words(count: int) -> str:
    """What a result rests on."""
    return plural(count, "block")


def ended_words(stopped: str) -> str:
    """How it ended, in words."""
    return _STOPPED.get(stopped, stopped)


def _cells(row: ListingRow) -> list[str]:
    """Folder, start to the minute, amount, how it stopped, title."""
    if row.error:
        return [clean(row.folder), "", "", "unreadable", ""]
    started = row.started[:16].replace("T", " ")
    title = clean(row.title)
    if len(title) > _TITLE_WIDTH_MAX:
        title = title[: _TITLE_WIDTH_MAX - 1] + "…"
    return [clean(row.folder), clean(started), row.amount, clean(ended_words(row.stopped)), title]


def _verdict(row: ListingRow) -> str:
    """The first sentence, with the number of those that follow."""
    if row.error:
        return clean(row.error)
    lines = [line for line in row.verdict.splitlines() if line.strip()]
    if not lines:
        return "no verdict yet"
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return clean(lines[0]) + more
