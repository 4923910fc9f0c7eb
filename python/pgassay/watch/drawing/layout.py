"""The screen of `pgassay watch`: the parts laid out for the terminal's width and height. Pure.

Lines are made here and not by rich's tables: a screen takes 0.2 ms of a processor, the three lists of it as
rich's grids 9 ms (a virtual machine of two cores), and that processor may be one that is being measured.
rich draws the lines (1 ms) and owns the terminal.
"""

from collections.abc import Sequence

from pgassay.model.running_server.watch import WatchSample
from pgassay.report import text
from pgassay.watch.drawing import screen_parts as watch_parts
from pgassay.watch.drawing.figures import clock
from pgassay.watch.drawing.screen_parts import BOLD, DIM, Line, ScreenPart

# Bars and means are over this long: one interval alone jumps too much to be read.
SHOWN_S = 10.0


def recent(samples: Sequence[WatchSample]) -> list[WatchSample]:
    """The samples of the last seconds, one at least, of the server that the last one saw."""
    last = samples[-1]
    pid = last.server.pid if last.server else None
    return [
        sample
        for sample in samples
        if last.clock_ns - sample.clock_ns < SHOWN_S * 1e9
        and (sample.server.pid if sample.server else None) == pid
    ]


def layout(samples: Sequence[WatchSample], width: int, height: int, *, unicode: bool = True) -> list[Line]:
    """The lines of the screen, at most `height` of at most `width` characters; `samples` are in order.

    What is most asked for stands first; lists share the lines that are left.
    """
    shown, last = recent(samples), samples[-1]
    top, parts = _head(last), list[ScreenPart]()
    if last.experiment is not None:
        top += watch_parts.experiment(last.experiment)
        parts.append(watch_parts.estimates(last.experiment, width, unicode=unicode))
    if last.server is not None:
        top += watch_parts.connections(shown)
        top += watch_parts.throughput(last.server)
        if last.server.progress:
            parts.append(watch_parts.progress(last.server))
        seconds = sum(sample.interval_s for sample in shown)
        if any(sample.server and sample.server.connections for sample in shown):
            parts.append(watch_parts.waits(shown, seconds, width, unicode=unicode))
        if last.server.threads is not None:
            parts.append(watch_parts.threads(last.server, shown))
    bottom = watch_parts.device(last, width) + (watch_parts.host(last.host) if last.host else [])
    if last.server is not None and last.server.statements is not None:
        parts.append(watch_parts.statements(shown))
    missing: list[Line] = [[("not seen: ", BOLD), (text.clean("; ".join(last.missing)), DIM)]]
    if not last.missing:
        missing = []
    lines = _fitted(top, parts, bottom, missing, height)
    return [cut(_shown(line, unicode=unicode), width) for line in lines[:height]]


def cut(line: Line, width: int) -> Line:
    """The line without what goes beyond `width` characters."""
    left, kept = width, Line()
    for content, style in line:
        if left <= 0:
            break
        kept.append((content[:left], style))
        left -= len(content)
    return kept


def plain(lines: Sequence[Line]) -> str:
    """The lines without their styles."""
    return "\n".join("".join(content for content, _ in line).rstrip() for line in lines)


def _head(sample: WatchSample) -> list[Line]:
    name, version = "", ""
    if sample.experiment is not None:
        name = sample.experiment.folder
    elif sample.server is not None:
        name = sample.server.name
        version = f"PostgreSQL {sample.server.version}  " if sample.server.version else "no answer from  "
    return [[(f"{clock(sample.time)} UTC  ", DIM), (text.clean(version), ""), (text.clean(name), BOLD)]]


def _fitted(
    top: list[Line], parts: list[ScreenPart], bottom: list[Line], missing: list[Line], height: int
) -> list[Line]:
    """Give each list in turn one more row while there is room; then empty lines between parts."""
    fixed = len(top) + len(bottom) + len(missing) + sum(len(part.heading) for part in parts)
    left = height - fixed
    given = [0] * len(parts)
    while left > 0 and any(given[place] < len(part.rows) for place, part in enumerate(parts)):
        for place, part in enumerate(parts):
            if left > 0 and given[place] < len(part.rows):
                given[place] += 1
                left -= 1
    gaps = len(parts) + (1 if bottom else 0)
    gap: list[Line] = [[]] if left >= gaps else []
    lines = list(top)
    for part, rows in zip(parts, given, strict=True):
        if rows or height >= fixed:
            lines += [*gap, *part.heading, *part.rows[:rows]]
    lines += [*gap, *bottom] if bottom else []
    return [*lines, *missing]


def _shown(line: Line, *, unicode: bool) -> Line:
    return line if unicode else [(text.ascii_only(content), style) for content, style in line]
