"""`pgassay watch` where nothing draws: a line for each interval below a heading, as vmstat's. Pure."""

import shlex
from collections.abc import Callable

from pgassay.model.running_server.watch import ServerSample, ThreadUse, WatchSample
from pgassay.report import text
from pgassay.watch.drawing.figures import clock, count, fixed, percent
from pgassay.watch.drawing.screen_parts import dead_rows, ending, progress_phase, progress_relation

HEADING_EVERY = 20
# Rates are in 10⁶ bytes a second; iostat's kB are of 1024.
_MB = 1e6
_MB_OF_KIB = 1e6 / 1024
_Cell = Callable[[WatchSample], str]


def _server(read: Callable[[ServerSample], float | None]) -> _Cell:
    """A figure of the server; '-' where there is none."""

    def cell(sample: WatchSample) -> str:
        return count(read(sample.server) if sample.server else None)

    return cell


def _iostat(name: str, scale: float = 1.0) -> _Cell:
    def cell(sample: WatchSample) -> str:
        columns = sample.device.iostat if sample.device else {}
        value = columns[name] / scale if name in columns else None
        return fixed(value, 2) if name.endswith("await") else count(value)

    return cell


def _share(*names: str) -> _Cell:
    """Percent of the processors' time."""

    def cell(sample: WatchSample) -> str:
        shares = sample.host.cpu if sample.host else {}
        return fixed(sum(100 * shares.get(name, 0.0) for name in names), 0) if shares else "-"

    return cell


def _connected(server: ServerSample) -> float | None:
    return sum(server.connections.by_state.values()) if server.connections else None


def _active(server: ServerSample) -> float | None:
    return server.connections.by_state.get("active", 0.0) if server.connections else None


def _waiting(server: ServerSample) -> float | None:
    """Connections at work that wait for anything but their client."""
    if server.waits is None or server.connections is None:
        return None
    return sum(
        wait.threads
        for wait in server.waits
        if wait.kind == "backend" and wait.event_type not in ("", "Client") and wait.scheduler != "running"
    )


def _used(read: Callable[[ThreadUse], float]) -> Callable[[ServerSample], float | None]:
    def total(server: ServerSample) -> float | None:
        return None if server.threads is None else sum(read(use) for use in server.threads)

    return total


def _moved(name: str, scale: float = 1.0) -> Callable[[ServerSample], float | None]:
    def value(server: ServerSample) -> float | None:
        found = getattr(server.throughput, name) if server.throughput else None
        return None if found is None else found / scale

    return value


def _two_digits(read: Callable[[ServerSample], float | None]) -> _Cell:
    def cell(sample: WatchSample) -> str:
        return fixed(read(sample.server) if sample.server else None, 2)

    return cell


def _trial(sample: WatchSample) -> str:
    trial = sample.experiment.trial if sample.experiment else None
    return "-" if trial is None else f"{trial.block + 1}/{trial.position + 1}"


def _left(sample: WatchSample) -> str:
    left_s = sample.experiment.time_left_s if sample.experiment else None
    return "-" if left_s is None else f"{left_s:.0f}s"


_MACHINE: tuple[tuple[str, int, _Cell], ...] = (
    ("cpu", 6, _two_digits(_used(lambda use: use.cpu))),
    ("queue", 6, _two_digits(_used(lambda use: use.queue))),
    ("r/s", 7, _iostat("r/s")),
    ("rMB/s", 7, _iostat("rkB/s", _MB_OF_KIB)),
    ("r_await", 8, _iostat("r_await")),
    ("w/s", 7, _iostat("w/s")),
    ("wMB/s", 7, _iostat("wkB/s", _MB_OF_KIB)),
    ("us", 4, _share("user", "nice")),
    ("sy", 4, _share("system", "irq", "softirq")),
    ("wa", 4, _share("iowait")),
    ("st", 4, _share("steal")),
)
_OF_SERVER: tuple[tuple[str, int, _Cell], ...] = (
    ("conn", 5, _server(_connected)),
    ("act", 5, _server(_active)),
    ("wait", 5, _server(_waiting)),
    ("xact/s", 7, _server(_moved("transactions_s"))),
    ("blkhit/s", 9, _server(_moved("blocks_hit_s"))),
    ("blkrd/s", 8, _server(_moved("blocks_read_s"))),
    ("WALMB/s", 8, _server(_moved("wal_bytes_s", _MB))),
)
_OF_EXPERIMENT: tuple[tuple[str, int, _Cell], ...] = (
    ("trial", 8, _trial),
    ("arm", 14, lambda sample: _arm(sample)[:13]),
    ("left", 8, _left),
)


def _arm(sample: WatchSample) -> str:
    trial = sample.experiment.trial if sample.experiment else None
    return "-" if trial is None else text.clean(trial.arm_id)


class PlainLines:
    """Lines for a file or a pipe; the heading comes again now and then."""

    def __init__(self) -> None:
        self._since_heading = HEADING_EVERY
        self._blocks = 0

    def lines(self, sample: WatchSample) -> list[str]:
        """What to write of one interval."""
        columns = (*(_OF_EXPERIMENT if sample.experiment else _OF_SERVER), *_MACHINE)
        if sample.experiment is not None and not sample.experiment.is_running:
            return self._estimates(sample)
        made = []
        if self._since_heading >= HEADING_EVERY:
            self._since_heading = 0
            made.append("time    " + "".join(f"{name:>{width}}" for name, width, _ in columns))
        self._since_heading += 1
        made += self._estimates(sample)
        made.append(clock(sample.time) + "".join(f"{cell(sample):>{width}}" for _, width, cell in columns))
        return made + _progress(sample)

    def _estimates(self, sample: WatchSample) -> list[str]:
        """A line for each arm when a block has been completed since the last time, and one at the end."""
        state = sample.experiment
        if state is None:
            return []
        made = []
        if state.blocks > self._blocks:
            self._blocks = state.blocks
            for arm in state.estimates:
                name = text.clean(f"{arm.name} at {arm.stratum}" if arm.stratum else arm.name)
                ends = text.interval_or_why(arm.interval, arm.ratio)
                speed = f"{text.ratio(arm.ratio) or 'no ratio'} ({ends})"
                word = "withheld" if arm.withheld else arm.verdict
                made.append(f"after block {state.blocks}: {name}: {speed} {word}")
        return made


def _progress(sample: WatchSample) -> list[str]:
    """A line for each command that reports how far it is."""
    commands = sample.server.progress or () if sample.server else ()
    made = []
    for each in commands:
        done = (
            f", {percent(min(1.0, each.done / each.total))}" if each.done is not None and each.total else ""
        )
        name = f"{each.command} (auto)" if each.autovacuum else each.command
        told = f"{name} {progress_relation(each)}: {progress_phase(each)}{done}{dead_rows(each)}"
        made.append(f"{clock(sample.time)} {text.clean(told)}")
    return made


def last_lines(sample: WatchSample) -> list[str]:
    """What to say of an experiment that nobody runs any more; nothing of a server."""
    state = sample.experiment
    if state is None or state.is_running:
        return []
    message = ending(state)
    if state.stopped in ("interrupted", "running"):
        return [f"{message}: continue with 'pgassay resume {text.clean(state.folder)}'"]
    report = state.report or f"make it with 'pgassay report {shlex.quote(str(state.folder))}'"
    return [message, f"report: {text.clean(report)}"]
