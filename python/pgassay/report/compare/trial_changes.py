"""What changed within the trials: the load by second, latencies, single trials over time.

Of transactions of a file their statements, and the executions that the server refused.
"""

from collections.abc import Sequence
from statistics import median

from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmConnections, ArmLatency
from pgassay.model.trial import StatementObservation
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.compare.trial_series import PERCENTILES, LatencyRow
from pgassay.report.labels import arm_name
from pgassay.report.section import (
    ALARM,
    QUIET,
    Block,
    Figure,
    Fold,
    Paragraph,
    Section,
    Subheading,
    plain_table,
)

_TIMELINES_OPEN_MAX = 2
_EXAMPLE_MAX = 100
_STATEMENT_MAX = 60
_CLOSED_LOOP = (
    "A closed loop of connections: a waiting connection sends nothing meanwhile, so a wait for a "
    "busy server is counted once."
)
_OPEN_LOOP = (
    "Measured from when a transaction was due, so a wait for a connection counts. Transactions that never "
    "started count with the time they had waited. A verdict is based on the percentile of each trial, not "
    "on these overall figures."
)
_REPLAY = (
    "Measured from when a statement was due to its answer, so a wait for a busy server counts; with "
    "speed=max from when its session could send it. A verdict is based on the figures of each trial, not "
    "on these."
)

_TRANSACTIONS = (
    "Medians over the valid trials; the verdict is on the whole transaction, from its BEGIN to the answer "
    "to its COMMIT. Between two statements lie the network round trip and the client's time."
)

# What is compared needs checkpoints, which a short trial may not have.
_CHECKPOINTS_MIN = 3
_SETTINGS_OF_CHECKPOINTS = frozenset(
    {"max_wal_size", "min_wal_size", "checkpoint_timeout", "checkpoint_completion_target"}
)


def section(material: Material) -> Section:
    """Drawings of all series that were observed, with the percentiles of the latencies in figures."""
    observed = material.observed
    blocks: list[Block] = [Paragraph(sentence, ALARM) for sentence in observed.unreadable]
    blocks += [Figure("seconds")] if observed.seconds else []
    if observed.latencies:
        heads = ("arm", *(f"p{each:g}" for each in PERCENTILES), "slowest", _unit(material), "trials")
        blocks += [
            Figure("latency"),
            plain_table(heads, [_latencies(row) for row in observed.latencies]),
            Paragraph(_loop(material), QUIET),
        ]
        blocks += [Figure("latency-map")] if observed.latency_map else []
    if observed.timelines:
        other = (
            f" The arms at {observed.timeline_stratum}; the other strata are in the observations."
            if observed.timeline_stratum
            else ""
        )
        blocks += [
            Subheading("Single trials over time"),
            Paragraph(
                "Client, server and device on one time axis; shaded: a checkpoint, autovacuum or "
                "throttling; dashed: a change of a mean. Two events at the same time need not be cause and "
                "effect." + other,
                QUIET,
            ),
        ]
        for number, each in enumerate(observed.timelines, start=1):
            drawing = Figure(f"timeline-{number}")
            blocks.append(drawing if number <= _TIMELINES_OPEN_MAX else Fold(each.group, (drawing,)))
    return Section("Within the trials", "series", tuple(blocks), link="Within the trials")


def _loop(material: Material) -> str:
    """From when on latencies are."""
    if material.is_replay:
        return _REPLAY
    loads = (arm.spec.workload.load for arm in material.stored.experiment.arms)
    is_open = any(load is not None and load.pace is not None for load in loads)
    return _OPEN_LOOP if is_open else _CLOSED_LOOP


def _unit(material: Material) -> str:
    return "statements" if material.is_replay else "transactions"


def latency(material: Material) -> Section:
    """Mean and standard deviation of a load's latencies, for each arm."""
    found = material.result.latencies
    is_compared = any(each.latency_stddev_ratio is not None for each in found)
    heads = (
        *("arm", "mean", "standard deviation"),
        *(("of the control's",) if is_compared else ()),
        *(_unit(material), "trials"),
    )
    rows = [
        [
            text.clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm),
            text.seconds(each.latency_mean_ms / 1000),
            text.seconds(each.latency_stddev_ms / 1000),
            *([_of_control(each)] if is_compared else []),
            f"{each.transactions:,}",
            str(each.trials),
        ]
        for each in found
    ]
    title = f"Latency of {_unit(material)}"
    if not rows:
        return Section(title, "latency", ())
    without = "" if material.is_replay else ", without the warm-up"
    note = f"All {_unit(material)} of the valid trials together{without}; no verdict is based on it."
    if is_compared:
        note += " Relative to the control's: the median over blocks, with an interval for all arms together."
    return Section(title, "latency", (plain_table(heads, rows), Paragraph(note, QUIET)))


def checkpoints(material: Material) -> Section:
    """Checkpoints and WAL of a load that writes, for each arm."""
    title = "Checkpoints and WAL"
    found = material.result.checkpoints
    if not found:
        return Section(title, "checkpoints", ())
    heads = ("arm", "requested", "timed", "WAL", "full-page images", "trials")
    rows = [
        [
            text.clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm),
            text.figure(each.requested),
            text.figure(each.timed),
            text.size(each.wal_bytes),
            f"{each.full_page_images:,.0f}",
            str(each.trials),
        ]
        for each in found
    ]
    varied = {factor for arm in material.stored.experiment.arms for factor in arm.levels}
    few = max(each.requested + each.timed for each in found) < _CHECKPOINTS_MIN
    note = "Means of the valid trials. Requested: for max_wal_size; timed: for checkpoint_timeout."
    if few and varied & _SETTINGS_OF_CHECKPOINTS:
        note += (
            f" Fewer than {_CHECKPOINTS_MIN} checkpoints in a trial say little of what is compared: raise "
            "the workload's duration."
        )
    return Section(title, "checkpoints", (plain_table(heads, rows), Paragraph(note, QUIET)))


def _of_control(each: ArmLatency) -> str:
    if each.latency_stddev_ratio is None:
        return ""
    return f"{text.ratio(each.latency_stddev_ratio)} ({text.interval(each.latency_stddev_interval)})"


def _latencies(row: LatencyRow) -> list[str]:
    return [
        f"{row.group} at {row.stratum}" if row.stratum else row.group,
        *(text.seconds(value / 1000) for value in row.percentiles_ms),
        text.seconds(row.max_ms / 1000),
        f"{row.transactions:,}",
        str(row.trials),
    ]


def transactions(material: Material) -> Section:
    """For each transaction what its statements took in each arm."""
    arms, observed = _statements(material)
    names = dict.fromkeys(each.name for mine in observed for each in mine if each.parts_s)
    blocks: list[Block] = []
    for name in names:
        mine = [[each for each in found if each.name == name and each.parts_s] for found in observed]
        parts = dict.fromkeys(part for found in mine for each in found for part in each.parts_s)
        rows = [
            [text.clean(part), *(_median([each.parts_s.get(part) for each in found]) for found in mine)]
            for part in parts
        ]
        rows.append(["the whole", *(_median([each.elapsed_s for each in found]) for found in mine)])
        blocks += [Subheading(text.clean(name)), plain_table(["statement", *map(arm_name, arms)], rows)]
    if blocks:
        blocks.append(Paragraph(_TRANSACTIONS, QUIET))
    return Section("Within the transactions", "transactions", tuple(blocks))


def failures(material: Material) -> Section:
    """How many executions or transactions the server refused, by statement, arm and SQLSTATE."""
    errors = material.result.errors
    names = list(dict.fromkeys(each.name for each in errors if each.name))
    heads = [*(["statement"] if names else []), "arm", "SQLSTATE", "failed", "of all", "the first"]
    rows = [
        [
            *([text.clean(each.name)] if names else []),
            text.clean(each.arm),
            each.sqlstate,
            f"{each.failed:,}",
            text.percent(each.share),
            text.excerpt(text.clean(each.example), _EXAMPLE_MAX) or "-",
        ]
        for each in sorted(errors, key=lambda each: names.index(each.name) if each.name else -1)
    ]
    title = "Failed executions" if names else f"Failed {_unit(material)}"
    if not rows:
        return Section(title, "failures", ())
    note = f"All {'executions' if names else _unit(material)} in the valid trials. They count in this "
    note += "figure only; an arm that fails more is not faster."
    return Section(title, "failures", (plain_table(heads, rows), Paragraph(note, QUIET)))


def poolers(material: Material) -> Section:
    """What PgBouncer did between the clients and the server, for each arm that has it."""
    title = "The pooler"
    heads = ("arm", "server connections", "its core", "its CPU", "wait for a connection", "trials")
    found = material.result.poolers
    rows = [
        [
            text.clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm),
            f"{each.server_connections_max} of at most {each.size}",
            f"{text.percent_fixed(each.busy)}{' (full)' if each.is_full else ''}",
            text.seconds(each.cpu_us / 1e6),
            text.seconds(each.wait_ms / 1e3),
            str(each.trials),
        ]
        for each in found
    ]
    if not rows:
        return Section(title, "poolers", ())
    note = (
        f"PgBouncer {text.clean(found[0].version)} has one thread: its core is full when that thread works, "
        "or waits for a processor, nearly all of the time. CPU and wait: means per transaction, in the "
        "median trial. None of it is the server's."
    )
    return Section(title, "poolers", (plain_table(heads, rows), Paragraph(note, QUIET)))


def connections(material: Material) -> Section:
    """How the clients came to their connections, for each arm that shares, closes or reopens them."""
    title = "The clients' connections"
    opening = ("opened a second", "to open one")
    heads = ("arm", "connections", *opening, "wait: mean", "p99", "longest", "lost", "trials")
    found = material.result.connections
    rows = [
        [
            text.clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm),
            _connections(each),
            f"{each.opened_per_s:.3g}",
            text.seconds(each.opening_ms / 1e3) if each.opened_per_s else "-",
            *(text.seconds(ms / 1e3) for ms in (each.wait_mean_ms, each.wait_p99_ms, each.wait_max_ms)),
            f"{each.lost:,}",
            str(each.trials),
        ]
        for each in found
    ]
    if not rows:
        return Section(title, "connections", ())
    blocks: list[Block] = [plain_table(heads, rows)]
    blocks += [Paragraph(sentence, ALARM) for each in found if (sentence := _outages(each))]
    note = (
        "Wait: from when a client wanted a connection until it could begin, a part of its latency. Medians "
        "over the trials; the longest, and those that were lost, of all of them."
    )
    return Section(title, "connections", (*blocks, Paragraph(note, QUIET)))


def _connections(each: ArmConnections) -> str:
    held = "one for each client" if each.pool is None else f"a pool of {each.pool}"
    if each.lifetime_s is None:
        return held
    return f"{held}, each for {text.seconds(each.lifetime_s) if each.lifetime_s else 'one transaction'}"


def _outages(each: ArmConnections) -> str:
    """How long the server was gone, and what was tried meanwhile; '' where it was not."""
    if not each.lost:
        return ""
    lengths = [text.seconds(length) for length in each.outages]
    gone = f"; no transaction ended for {text.join(lengths)}" if lengths else ", while others continued"
    states = ", ".join(f"{state} {count:,}" for state, count in each.refused.items())
    refused = f"; attempts to open one that failed, by SQLSTATE: {states}" if states else ""
    lost = f"{text.plural(each.lost, 'connection')} {'was' if each.lost == 1 else 'were'} lost"
    return text.clean(f"{each.arm}: {lost}{gone}{refused}.")


def load_statements(material: Material) -> Section:
    """What each statement of a load's transactions took in each arm."""
    title = "Statements of the transactions"
    heads = ("statement", "arm", "mean", "p50", "p95", "p99", "slowest", "executions", "trials")
    found = material.result.load_statements
    order = list(dict.fromkeys((each.name, each.text) for each in found))
    rows = [
        [
            text.excerpt(text.clean(f"{each.name} {each.text}".strip()), _STATEMENT_MAX),
            text.clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm),
            *(text.seconds(ms / 1e3) for ms in (each.mean_ms, each.p50_ms, each.p95_ms, each.p99_ms)),
            text.seconds(each.max_ms / 1e3),
            f"{each.executions:,}",
            str(each.trials),
        ]
        for each in sorted(found, key=lambda each: order.index((each.name, each.text)))
    ]
    if not rows:
        return Section(title, "load-statements", ())
    note = (
        "From sending a statement to its answer, of transactions that were committed; medians over the "
        "trials, and no verdict. Histograms of each trial are in its latency.hlog."
    )
    return Section(title, "load-statements", (plain_table(heads, rows), Paragraph(note, QUIET)))


def _statements(material: Material) -> tuple[list[Arm], list[list[StatementObservation]]]:
    """The arms, and for each what was observed of statements in its valid trials."""
    arms = list(material.stored.experiment.arms)
    trials = [each.record for each in material.stored.trials if each.record.status == "ok"]
    return arms, [
        [each for record in trials if record.arm_id == arm.id for each in record.statements] for arm in arms
    ]


def _median(seconds: Sequence[float | None]) -> str:
    known = [each for each in seconds if each is not None]
    return text.seconds(median(known)) if known else "-"


def capacities(material: Material) -> Section:
    """Highest rate that each arm sustains within the bound of its latencies."""
    result = material.result
    heads = ("arm", "holds", "interval", "vs. control", "met the limit", "trials")
    rows = []
    for each in result.capacities:
        ratio = "" if each.ratio is None else _span(each.ratio_interval, ".2f", "×")
        name = text.clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm)
        shown = (f"{each.rate:,.0f}", _span(each.interval, ",.0f"), ratio)
        rows.append([name, *shown, str(each.kept), str(each.trials)])
    if not rows:
        return Section("Highest rate that each arm sustains", "capacities", ())
    metric = result.metric
    note = (
        f"Transactions per second at which at least half of the trials keep {metric.latency} under "
        f"{metric.bound_ms:g} ms with no growing queue. All intervals hold together, at any time you look. "
        "The control's trials include its twin's. All other figures are for the same rates in all arms."
    )
    return Section(
        "Highest rate that each arm sustains",
        "capacities",
        (plain_table(heads, rows), Paragraph(note, QUIET)),
    )


def _span(interval: tuple[float, float | None] | None, digits: str, unit: str = "") -> str:
    lower, upper = interval or (0.0, None)
    if upper is None:
        return f"at least {lower:{digits}}{unit}" if lower > 0 else "not bounded yet"
    return (
        f"{lower:{digits}}{unit} to {upper:{digits}}{unit}"
        if lower > 0
        else f"at most {upper:{digits}}{unit}"
    )
