"""The parts of the screen of `pgassay watch`, each a heading and rows; how much fits is another's question.

Pure: samples in, styled text out. Whatever came from a server is made harmless for a terminal.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pgassay.model.running_server.watch import (
    CommandProgress,
    ExperimentState,
    HostUse,
    ServerSample,
    Wait,
    WatchSample,
    pass_number,
)
from pgassay.report import interval_bar, text
from pgassay.watch.drawing.figures import bar, byte_rate, count, percent, size

# Text and style, as rich names styles.
Segment = tuple[str, str]
Line = list[Segment]
DIM, BOLD, HEADING = "dim", "bold", "bold cyan"
_NAME_WIDTH = 26
_WAIT_BAR_WIDTH_MAX = 40
# What stands before the bar of a wait.
_WAIT_WIDTH = _NAME_WIDTH + 40
_STYLES = {"running": "green", "device": "magenta", "asleep": "yellow", "unknown": ""}
_CLIENTS = ("backend", "parallel worker")
_INTERVAL_BAR_WIDTH = 25
_IOSTAT_SHOWN = (
    *("r/s", "rkB/s", "r_await", "rareq-sz", "w/s", "wkB/s", "w_await", "wareq-sz", "f/s", "aqu-sz", "%util"),
)
# What a narrow terminal goes without, in this order.
_IOSTAT_LEFT_OUT = ("wareq-sz", "f/s", "rareq-sz", "%util", "w_await", "aqu-sz")
_FIGURE_WIDTH = 6


@dataclass
class ScreenPart:
    """A heading with rows below it; of the rows as many are shown as fit, the first ones."""

    heading: list[Line]
    rows: list[Line] = field(default_factory=list)


def mean_waits(samples: Sequence[WatchSample], kinds: Sequence[str]) -> list[tuple[Wait, float]]:
    """What threads of these kinds were at, as means over the samples, the most frequent first."""
    sums: dict[tuple[str, str, str, str], float] = defaultdict(float)
    firsts: dict[tuple[str, str, str, str], Wait] = {}
    seen = [sample.server.waits for sample in samples if sample.server and sample.server.waits is not None]
    for waits in seen:
        for wait in waits:
            if wait.kind in kinds:
                key = (wait.state, wait.event_type, wait.event, wait.scheduler)
                sums[key] += wait.threads
                firsts.setdefault(key, wait)
    ordered = sorted(sums, key=lambda key: (-sums[key], key))
    return [(firsts[key], sums[key] / len(seen)) for key in ordered]


def connections(samples: Sequence[WatchSample]) -> list[Line]:
    """How many connections there are, by state, as means over the samples."""
    seen = [sample.server.connections for sample in samples if sample.server and sample.server.connections]
    if not seen:
        return []
    states = sorted({state for each in seen for state in each.by_state})
    means = {state: sum(each.by_state.get(state, 0.0) for each in seen) / len(seen) for state in states}
    ordered = sorted(means, key=lambda state: (-means[state], state))
    limit = f" of {seen[-1].limit}" if seen[-1].limit is not None else ""
    figures = ", ".join(
        f"{count(means[state])} {text.clean(state) or 'starting'}" for state in ordered if means[state] > 0
    )
    return [
        [
            ("connections ", BOLD),
            (f"{count(sum(means.values()))}{limit}", ""),
            (f": {figures}" if figures else "", ""),
        ]
    ]


def throughput(server: ServerSample) -> list[Line]:
    """What the server did in the last interval, and what is under way."""
    moved = server.throughput
    if moved is None:
        return []
    lines: list[Line] = [
        [
            ("transactions ", BOLD), (f"{count(moved.transactions_s)}/s", ""),
            (f", rolled back {count(moved.rollbacks_s)}/s", ""),
            ("  tuples ", BOLD), (f"read {count(moved.tuples_read_s)}/s", ""),
            (f", written {count(moved.tuples_written_s)}/s", ""),
        ],
        [
            ("blocks ", BOLD), (f"hit {count(moved.blocks_hit_s)}/s", ""),
            (f", read {count(moved.blocks_read_s)}/s ({percent(moved.hit_share)} hit)", ""),
            ("  WAL ", BOLD), (byte_rate(moved.wal_bytes_s), ""),
            ("  temp ", BOLD), (byte_rate(moved.temp_bytes_s), ""),
        ],
    ]  # fmt: skip
    if moved.checkpoints:
        lines[1] += [("  CHECKPOINT", "bold magenta")]
    if moved.deadlocks:
        lines[0].insert(2, (f", {text.plural(round(moved.deadlocks), 'DEADLOCK')}", "bold red"))
    if server.aios:
        figures = ", ".join(
            f"{each.handles} {each.operation} {each.state.lower()} ({size(each.bytes)})"
            for each in server.aios
        )
        lines.append([("asynchronous ", BOLD), (text.clean(figures), "")])
    return lines


def waits(samples: Sequence[WatchSample], seconds: float, width: int, *, unicode: bool) -> ScreenPart:
    """Connections and their parallel workers by what they are at, with bars in what `width` leaves."""
    found = mean_waits(samples, _CLIENTS)
    bar_width = min(_WAIT_BAR_WIDTH_MAX, max(4, width - _WAIT_WIDTH))
    full = max((mean for _, mean in found), default=0.0)
    over = f"mean over {seconds:.0f} s"
    part = ScreenPart(
        [[(f"{'connections wait for':<{_NAME_WIDTH}} {'scheduler':<9} {'state':<20} {over}", HEADING)]]
    )
    for wait, mean in found:
        name = f"{wait.event_type}:{wait.event}" if wait.event_type else "no wait event"
        drawn = bar(mean, full, bar_width, unicode=unicode)
        part.rows.append([
            (f"{text.clean(name)[:_NAME_WIDTH]:<{_NAME_WIDTH}}", ""),
            (f" {wait.scheduler:<9}", _STYLES[wait.scheduler]),
            (f" {text.clean(wait.state)[:20]:<20}", DIM),
            (f" {mean:6.1f} ", BOLD),
            (drawn, _STYLES[wait.scheduler]),
        ])  # fmt: skip
    if not part.rows:
        part.rows.append([("no connection is at work", DIM)])
    return part


def threads(server: ServerSample, samples: Sequence[WatchSample]) -> ScreenPart:
    """What the threads of each kind used in the last interval, and what they are at most often."""
    columns = f"{'number':>7} {'CPU':>6} {'queue':>6} {'read/s':>9} {'write/s':>9}  most often"
    part = ScreenPart([[(f"{'threads':<18}", HEADING), (columns, HEADING)]])
    for use in server.threads or ():
        most = mean_waits(samples, (use.kind,))
        wait = most[0][0] if most else None
        at = "" if wait is None else f"{wait.event_type}:{wait.event}" if wait.event_type else wait.scheduler
        idle = use.cpu + use.queue < 0.005
        if idle and not use.threads:
            continue  # they ended in this interval
        # Sessions of pgassay's own: what this command, or a measurement, costs the server.
        name = "pgassay's own" if use.kind == "pgassay" else use.kind
        part.rows.append([
            (f"{name:<18}", DIM if idle else ""),
            (f"{use.threads:>7} {use.cpu:>6.2f} {use.queue:>6.2f}", DIM if idle else ""),
            (f" {byte_rate(use.read_bytes_s):>9} {byte_rate(use.write_bytes_s):>9}", DIM if idle else ""),
            (f"  {text.clean(at)}", DIM),
        ])  # fmt: skip
    return part


def statements(samples: Sequence[WatchSample]) -> ScreenPart:
    """The statements that run, the most waiting first, as means over the samples."""
    active: dict[tuple[int | None, str], float] = defaultdict(float)
    waiting: dict[tuple[int | None, str], float] = defaultdict(float)
    events: dict[tuple[int | None, str], str] = {}
    texts: dict[tuple[int | None, str], str] = {}
    seen = [
        sample.server.statements
        for sample in samples
        if sample.server and sample.server.statements is not None
    ]
    for found in seen:
        for each in found:
            key = (each.query_id, "" if each.query_id is not None else each.query)
            active[key] += each.active / len(seen)
            waiting[key] += each.waiting / len(seen)
            texts[key] = each.query
            events[key] = each.event or events.get(key, "")
    heading = f"{'waiting':>7} {'of':>5}  {'most often for':<26} statement"
    part = ScreenPart([[(heading, HEADING)]])
    for key in sorted(active, key=lambda key: (-waiting[key], -active[key], texts[key])):
        part.rows.append([
            (f"{waiting[key]:>7.1f} {active[key]:>5.1f}", BOLD if waiting[key] >= 0.05 else ""),
            (f"  {text.clean(events[key])[:26]:<26}", "yellow"),
            (f" {text.clean(texts[key])}", ""),
        ])  # fmt: skip
    return part


def progress(server: ServerSample) -> ScreenPart:
    """Commands that report how far they are: phase, how much of it is done, the room for dead rows."""
    part = ScreenPart([[(f"{'progress':<16} {'of phase':>8}  {'phase':<28} relation", HEADING)]])
    for each in server.progress or ():
        done = "" if each.done is None or not each.total else percent(min(1.0, each.done / each.total))
        name = f"{each.command} (auto)" if each.autovacuum else each.command
        part.rows.append([
            (f"{text.clean(name)[:16]:<16}", BOLD),
            (f" {done:>8}", ""),
            (f"  {text.clean(progress_phase(each))[:28]:<28}", ""),
            (f" {text.clean(progress_relation(each))}", ""),
            (dead_rows(each), DIM),
        ])  # fmt: skip
    return part


def progress_phase(command: CommandProgress) -> str:
    """The phase, with the number of VACUUM's pass over the indexes from the second on."""
    number = pass_number(command.phase or "", command.passes or 0)
    return (
        f"{command.phase}{f' (pass {number})' if number > 1 else ''}"
        if command.phase
        else "not shown to this role"
    )


def progress_relation(command: CommandProgress) -> str:
    """The relation, with its database where that is not told by the name."""
    if not command.relation:
        return ""
    is_number = command.relation.isdigit()
    return f"{command.relation} of {command.database}" if is_number and command.database else command.relation


def dead_rows(command: CommandProgress) -> str:
    """How full the memory for dead rows is, and what was slept; '' where neither is told."""
    told = []
    if command.dead_rows_bytes is not None and command.dead_rows_bytes_max:
        told.append(f"dead rows {size(command.dead_rows_bytes)} of {size(command.dead_rows_bytes_max)}")
    elif command.dead_rows is not None and command.dead_rows_max:
        told.append(f"dead rows {count(command.dead_rows)} of {count(command.dead_rows_max)}")
    if command.delay_ms:
        told.append(f"slept {command.delay_ms / 1000:.1f} s")
    return f"  ({', '.join(told)})" if told else ""


def device(sample: WatchSample, width: int) -> list[Line]:
    """iostat's columns of the device, as many as fit into `width`."""
    if sample.device is None or not sample.device.iostat:
        return []
    first = max(len("device"), len(sample.device.name))
    widths = {name: 1 + max(_FIGURE_WIDTH, len(name)) for name in _IOSTAT_SHOWN}
    for name in _IOSTAT_LEFT_OUT:
        if first + sum(widths.values()) > width:
            del widths[name]
    names = "".join(f"{name:>{each}}" for name, each in widths.items())
    values = "".join(f"{_iostat(name, sample.device.iostat[name]):>{each}}" for name, each in widths.items())
    return [
        [(f"{'device':<{first}}{names}", HEADING)],
        [(f"{text.clean(sample.device.name):<{first}}{values}", "")],
    ]


def _iostat(name: str, value: float) -> str:
    return count(value) if name.endswith("/s") else f"{value:.1f}" if name == "%util" else f"{value:.2f}"


def host(use: HostUse) -> list[Line]:
    """The machine's processors, pressure and dirty memory."""
    shares = use.cpu
    busy = {
        "user": shares.get("user", 0.0) + shares.get("nice", 0.0),
        "system": shares.get("system", 0.0) + shares.get("irq", 0.0) + shares.get("softirq", 0.0),
        "iowait": shares.get("iowait", 0.0),
        "steal": shares.get("steal", 0.0),
        "idle": shares.get("idle", 0.0),
    }
    figures = "  ".join(f"{name} {percent(value)}" for name, value in busy.items())
    lines: list[Line] = [[("processors ", BOLD), (f"{use.processors}  {figures}", "")]]
    rest = "  ".join(
        f"{resource} {percent(use.pressure[f'{resource}_some'])}"
        for resource in ("cpu", "io", "memory")
        if f"{resource}_some" in use.pressure
    )
    parts: Line = [("pressure ", BOLD), (f"{rest}  ", "")] if rest else []
    if "dirty_bytes" in use.memory:
        parts += [("dirty ", BOLD), (f"{size(use.memory['dirty_bytes'])}", "")]
        parts += [("  available ", BOLD), (f"{size(use.memory.get('available_bytes'))}", "")]
    return [*lines, parts] if parts else lines


def experiment(state: ExperimentState) -> list[Line]:
    """Where an experiment stands: its title, block and time, and the running trial."""
    done = sum(state.trials.values())
    bad = done - state.trials.get("ok", 0)
    block = state.trial.block + 1 if state.trial else state.blocks
    figures = [f"block {block} of at most {state.blocks_max}"] if block else []
    figures += [text.plural(done, "trial") + (f", {bad} not ok" if bad else "")]
    if state.time_left_s is not None:
        figures.append(f"at most {text.duration(state.time_left_s)} left")
    lines: list[Line] = [[(text.clean(state.title), BOLD)], [(" · ".join(figures), "")]]
    return [*lines, [(trial_words(state), "green" if state.trial else DIM)]]


def trial_words(state: ExperimentState) -> str:
    """The trial that runs: its place in the block, its arm and its time; else why none runs."""
    trial = state.trial
    if trial is None:
        return "between two trials, or preparing" if state.is_running else ending(state)
    again = f", attempt {trial.attempt}" if trial.attempt > 1 else ""
    of = f" of about {text.duration(trial.expected_s)}" if trial.expected_s is not None else ""
    return (
        f"trial {trial.position + 1} of {state.arms}{again} (arm {text.clean(trial.arm_id)}): "
        f"{text.duration(trial.elapsed_s)}{of}"
    )


def ending(state: ExperimentState) -> str:
    """What became of an experiment that nobody runs."""
    words = {
        "decided": "it has ended: every comparison is decided",
        "max-time": "it has ended: its time was used up",
        "blocks": "it has ended: all its blocks were run",
        "failed": "it has ended: its blocks could not be completed",
        "interrupted": "it was interrupted",
        "running": "not running: it was killed, or has not started",
    }
    return words[state.stopped]


def estimates(state: ExperimentState, width: int, *, unicode: bool) -> ScreenPart:
    """The arms against their controls so far, with intervals."""
    names = [
        text.clean(f"{arm.name} at {arm.stratum}" if arm.stratum else arm.name) for arm in state.estimates
    ]
    wide = min(40, max((len(name) for name in names), default=3))
    part = ScreenPart([[(f"{'arm':<{wide}} {'speed':>8} {'interval so far':>17}  so far", HEADING)]])
    scale = interval_bar.scale_for(
        [arm.interval for arm in state.estimates], [arm.ratio for arm in state.estimates],
        state.margin, _INTERVAL_BAR_WIDTH,
    )  # fmt: skip
    glyphs = interval_bar.UNICODE if unicode else interval_bar.ASCII
    for name, arm in zip(names, state.estimates, strict=True):
        word = "withheld" if arm.withheld else arm.verdict
        row: Line = [
            (f"{name[:wide]:<{wide}} {text.ratio(arm.ratio):>8}", ""),
            (f" {text.interval_or_why(arm.interval, arm.ratio):>17}  {word:<13}", ""),
        ]
        if width >= wide + 42 + _INTERVAL_BAR_WIDTH:
            row.append((interval_bar.draw(scale, arm.interval, arm.ratio, glyphs), DIM))
        part.rows.append(row)
    return part
