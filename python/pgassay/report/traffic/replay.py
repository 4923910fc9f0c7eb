"""A replay, for a person or as one document; pure."""

from collections.abc import Iterator

from pgassay.model.traffic.replay import Percentiles, ReplayFamily, ReplayResult
from pgassay.report.text import ascii_only, clean, percent_fixed, plural, seconds

FAMILIES_SHOWN = 15
DIVERGED_SHOWN = 5
_HEADS = ("calls", "diverged", "then", "now", "now/then")
_TEXT_WIDTH_MIN = 60
_INDENT = 10
_MS = 1e3


def render_json(result: ReplayResult) -> str:
    """The result as one JSON document."""
    return result.model_dump_json(by_alias=True, indent=2) + "\n"


def render(result: ReplayResult, *, width: int = 80, unicode: bool = True) -> str:
    """What came out as it did, how long it took, whether the player was the limit, and each statement."""
    lines = [*_head(result), "", *_statements(result, width)]
    lines += [*_diverged(result)]
    text = "\n".join(lines) + "\n"
    return text if unicode else ascii_only(text)


def _head(result: ReplayResult) -> Iterator[str]:
    pace = "as fast as their order allows" if result.speed is None else f"at speed {result.speed:g}"
    yield (
        f"{clean(result.folder)} on PostgreSQL {result.server_version}, {clean(result.server)}, {pace}: "
        f"{plural(result.replayed, 'statement')} of {plural(result.sessions, 'session')} in "
        f"{seconds(result.seconds)} (captured in {seconds(result.seconds_captured)})"
    )
    if result.is_stopped:
        yield f"  Stopped before its end: {result.statements - result.replayed:,} statements were not played."
    same = 1 - result.diverged / result.statements if result.statements else 1.0
    yield (
        f"  {percent_fixed(same, 2)} came out as captured; {result.diverged:,} did not "
        f"({percent_fixed(result.diverged_share, 2)} of the time), {result.other_values:,} had as many rows "
        "with other values"
    )
    if not result.is_stopped and result.diverged_share > result.bound:
        yield (
            f"  Not valid: more than {percent_fixed(result.bound, 1)} of the time came out otherwise, so the "
            "times are not those of the same work. Is the data a copy as of the capture's beginning?"
        )
    if result.busy_captured_s:
        ratio = result.busy_s / result.busy_captured_s
        yield (
            f"  Statements took {seconds(result.busy_captured_s)} then and {seconds(result.busy_s)} now, "
            f"{ratio:.2f} × (one replay: repeat it before you conclude)"
        )
    if result.latency_ms is not None and result.speed is not None:
        yield f"  From the intended start to the answer: {_shown(result.latency_ms)}"
    share = result.player.cpu_s / result.seconds if result.seconds else 0.0
    limit = (
        "Not valid: the player may be the limit, not the server"
        if result.player.is_limit
        else "not the limit"
    )
    yield (
        f"  The player: {share:.2f} of a core, {seconds(result.player.late_p99_ms / _MS)} late at p99 by its "
        f"own doing: {limit}"
    )
    yield from _notes(result)


def _notes(result: ReplayResult) -> Iterator[str]:
    if result.reordered:
        yield f"  {plural(result.reordered, 'step')} went out of order: locks kept what came before them"
    if result.replaced:
        yield f"  {plural(result.replaced, 'value')} replaced by what the server made this time"
    if result.lacking:
        yield f"  {plural(result.lacking, 'statement')} can't come out the same (timing, missing data)"
    if result.sessions_left_out:
        yield f"  {plural(result.sessions_left_out, 'session')} left out: not chosen, or refused then"
    for why, count in result.failures.items():
        yield f"  {plural(count, 'session')} lost: {clean(why)}"
    for note in result.notes:
        yield f"  note: {clean(note)}"


def _shown(times: Percentiles) -> str:
    named = (("p50", times.p50), ("p95", times.p95), ("p99", times.p99), ("p99.9", times.p99_9))
    return ", ".join(f"{name} {seconds(value / _MS)}" for name, value in named)


def _statements(result: ReplayResult, width: int) -> Iterator[str]:
    shown = result.families[:FAMILIES_SHOWN]
    if not shown:
        yield "No statements."
        return
    yield "Statements by their time in the capture; mean times then and now"
    rows = [_row(each) for each in shown]
    widths = [max(len(head), *(len(row[place]) for row in rows)) for place, head in enumerate(_HEADS)]
    room = width - sum(widths) - 2 * len(widths) - 4
    separator = "  "
    if room < _TEXT_WIDTH_MIN:
        separator, room = "\n" + " " * _INDENT, max(_TEXT_WIDTH_MIN, width - _INDENT)
    heads = "  ".join(head.rjust(wide) for head, wide in zip(_HEADS, widths, strict=True))
    yield f"  {heads}  statement"
    for row, each in zip(rows, shown, strict=True):
        text = clean(each.text)
        text = text if len(text) <= room else text[: room - 1] + "…"
        figures = "  ".join(word.rjust(wide) for word, wide in zip(row, widths, strict=True))
        yield f"  {figures}{separator}{text}"
    if len(result.families) > len(shown):
        yield f"  {plural(len(result.families) - len(shown), 'other')}: --json has them"


def _row(each: ReplayFamily) -> tuple[str, ...]:
    then = each.seconds_captured / each.calls if each.calls else 0.0
    executed = each.seconds / each.calls if each.calls else 0.0
    ratio = f"{each.seconds / each.seconds_captured:.2f} ×" if each.seconds_captured else ""
    return f"{each.calls:,}", f"{each.diverged:,}", seconds(then), seconds(executed), ratio


def _diverged(result: ReplayResult) -> Iterator[str]:
    found = sorted((each for each in result.families if each.diverged), key=lambda each: -each.diverged)
    if not found:
        return
    yield ""
    yield "What came out otherwise, the first of each"
    for each in found[:DIVERGED_SHOWN]:
        said = f"{each.example.captured} → {each.example.now}" if each.example else ""
        yield f"  {each.diverged:,} of {each.calls:,}: {clean(said)}"
        yield f"          {clean(each.text)[: _TEXT_WIDTH_MIN * 2]}"
    if len(found) > DIVERGED_SHOWN:
        yield f"  {plural(len(found) - DIVERGED_SHOWN, 'other')}: --json has them"
