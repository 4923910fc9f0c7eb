"""A replay: what came out, the statements with their times then and now."""

from collections.abc import Iterator
from functools import partial

from pgassay.analysis.profile.flame import FlameNode
from pgassay.model.traffic.replay_result import Percentiles, ReplayFamily, ReplayResult
from pgassay.report.charts.replay_charts import FAMILIES_MAX, drawings
from pgassay.report.page import Page
from pgassay.report.profile.one_server import section_of
from pgassay.report.section import (
    QUIET,
    STRONG,
    Block,
    Figure,
    Paragraph,
    Section,
    bullets,
    plain_table,
)
from pgassay.report.text import excerpt, figure, percent_fixed, plural, seconds

DIVERGED_SHOWN = 5
_HEADS = ("statement", "calls", "otherwise", "then", "now", "now/then", "p95 now", "p99 now")
_TEXT_MAX, _TEXT_MAX_DIVERGED = 60, 120
_MS = 1e3
# Who must be told what the sessions waited for: where it took so much longer than the capture.
_LONGER = 1.1


def page_of(result: ReplayResult, flame: FlameNode | None = None) -> Page:
    """What came out as it did, how long it took, whether the player was the limit, and each statement.

    flame: the stacks of its profile, where it has one.
    """
    title = f"Replay of {result.folder} on {result.server}"
    return Page(title, result, partial(_sections, result, flame), partial(drawings, result))


def _sections(result: ReplayResult, flame: FlameNode | None) -> list[Section]:
    latency: list[Block] = [Figure("latency")] if result.latency_ms is not None else []
    profile = [] if result.profile is None else [section_of(result.profile, result.server, flame)]
    return [
        Section("", "replay", (Paragraph(_first(result), STRONG), bullets(_head(result)), *latency)),
        *_statements(result),
        *_diverged(result),
        *profile,
    ]


def _first(result: ReplayResult) -> str:
    pace = "as fast as their order allows" if result.speed is None else f"at speed {figure(result.speed)}"
    return (
        f"{result.folder} on PostgreSQL {result.server_version}, {result.server}, {pace}: "
        f"{plural(result.replayed, 'statement')} of {plural(result.sessions, 'session')} in "
        f"{seconds(result.seconds)} (captured in {seconds(result.seconds_captured)})"
    )


def _head(result: ReplayResult) -> Iterator[str]:
    if result.is_stopped:
        yield f"Stopped before its end: {result.statements - result.replayed:,} statements were not played."
    of = "time" if result.busy_captured_s else "statements"
    same = 1 - result.diverged / result.statements if result.statements else 1.0
    yield (
        f"{percent_fixed(same, 2)} came out as captured; {result.diverged:,} did not "
        f"({percent_fixed(result.diverged_share, 2)} of the {of}), {result.other_values:,} had the same "
        "number of rows with different values"
    )
    if not result.is_stopped and result.diverged_share > result.bound:
        yield (
            f"Not valid: more than {percent_fixed(result.bound, 1)} of the {of} differed, so the times "
            "are not those of the same work. Is the data a copy as of the start of the capture?"
        )
    # Of statements that were not executed only the time then is known.
    if result.busy_captured_s and result.replayed >= result.statements:
        ratio = result.busy_s / result.busy_captured_s
        yield (
            f"Statements took {seconds(result.busy_captured_s)} then and {seconds(result.busy_s)} now, "
            f"{ratio:.2f} × (one replay: repeat it before you conclude)"
        )
    if result.latency_ms is not None and result.speed is not None:
        yield f"From the intended start to the answer: {_shown(result.latency_ms)}"
    yield from _waiting(result)
    share = result.player.cpu_s / result.seconds if result.seconds else 0.0
    limit = (
        "Not valid: the player may be the limit, not the server"
        if result.player.is_limit
        else "not the limit"
    )
    yield (
        f"The player: {share:.2f} of a core, {seconds(result.player.late_p99_ms / _MS)} late at p99 by "
        f"its own fault: {limit}"
    )
    yield from _notes(result)


def _waiting(result: ReplayResult) -> Iterator[str]:
    """Why it took longer than the capture, where that is the order between sessions."""
    if result.speed is None or not result.sessions:
        return
    intended_s = result.seconds_captured / result.speed
    if result.seconds < _LONGER * intended_s or result.waited_s < result.seconds - intended_s:
        return
    timed = [(each.times_ms.max, each.text) for each in result.families if each.times_ms is not None]
    slowest = ""
    if timed:
        most_ms, text = max(timed)
        slowest = f"; the slowest took {seconds(most_ms / _MS)}: {excerpt(text, _TEXT_MAX)}"
    yield (
        f"A session waited {seconds(result.waited_s / result.sessions)} on average for what other sessions "
        f"had done before it in the capture: one slow statement delays all that follow it{slowest}"
    )


def _notes(result: ReplayResult) -> Iterator[str]:
    if result.reordered:
        yield f"{plural(result.reordered, 'step')} were sent out of order: an earlier step waited for a lock"
    if result.replaced:
        yield f"{plural(result.replaced, 'value')} replaced by what the server generated this time"
    if result.lacking:
        yield f"{plural(result.lacking, 'statement')} can't give the same result (timing, missing data)"
    if result.sessions_left_out:
        yield f"{plural(result.sessions_left_out, 'session')} left out: not chosen, or refused then"
    for why, count in result.failures.items():
        yield f"{plural(count, 'session')} lost: {why}"
    for note in result.notes:
        yield f"note: {note}"


def _shown(times: Percentiles) -> str:
    named = (("p50", times.p50), ("p95", times.p95), ("p99", times.p99), ("p99.9", times.p99_9))
    return ", ".join(f"{name} {seconds(value / _MS)}" for name, value in named)


def _statements(result: ReplayResult) -> list[Section]:
    shown = result.families[:FAMILIES_MAX]
    if not shown:
        return [Section("Statements", "statements", (Paragraph("No statements.", QUIET),))]
    blocks: list[Block] = [Figure("families"), plain_table(_HEADS, map(_row, shown))]
    more = len(result.families) - len(shown)
    if more > 0:
        blocks.append(Paragraph(f"{plural(more, 'other')}: --json has them", QUIET))
    heading = "Statements by their time in the capture; mean times then and now"
    return [Section(heading, "statements", tuple(blocks), link="Statements")]


def _row(each: ReplayFamily) -> tuple[str, ...]:
    then = each.seconds_captured / each.calls if each.calls else 0.0
    times = each.times_ms
    executed = each.seconds / each.calls if each.calls else 0.0
    if each.diverged and times is not None:
        # Some may not have been executed: the histogram has those that were.
        executed = times.mean / _MS
    ratio = f"{executed / then:.2f} ×" if then else ""
    tail = ("", "") if times is None else (seconds(times.p95 / _MS), seconds(times.p99 / _MS))
    name = excerpt(each.text, _TEXT_MAX)
    return name, f"{each.calls:,}", f"{each.diverged:,}", seconds(then), seconds(executed), ratio, *tail


def _diverged(result: ReplayResult) -> list[Section]:
    found = sorted((each for each in result.families if each.diverged), key=lambda each: -each.diverged)
    if not found:
        return []
    lines = [
        f"{each.diverged:,} of {each.calls:,} × {excerpt(each.text, _TEXT_MAX_DIVERGED)}"
        + (f": {each.example.captured} → {each.example.now}" if each.example else "")
        for each in found[:DIVERGED_SHOWN]
    ]
    heading = "Statements that differ, the first of each"
    return [Section(heading, "otherwise", (bullets(lines),), link="Otherwise")]
