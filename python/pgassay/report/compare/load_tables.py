"""Tables of loads and transactions, by arm: latencies, statements, failures, connections, checkpoints."""

from collections.abc import Sequence
from statistics import median

from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmConnections, ArmLatency
from pgassay.model.trial import StatementObservation
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.compare.within_trials import unit_of_work
from pgassay.report.labels import arm_at, arm_name
from pgassay.report.section import ALARM, QUIET, Block, Paragraph, Section, Subheading, plain_table
from pgassay.words import figure, lost_connections

_EXAMPLE_MAX = 100
_STATEMENT_MAX = 60
_TRANSACTIONS = (
    "Medians over the valid trials; the verdict is on the whole transaction, from its BEGIN to the answer "
    "to its COMMIT. Between two statements lie the network round trip and the client's time."
)
# What is compared needs checkpoints, which a short trial may not have.
_CHECKPOINTS_MIN = 3
_SETTINGS_OF_CHECKPOINTS = frozenset(
    {"max_wal_size", "min_wal_size", "checkpoint_timeout", "checkpoint_completion_target"}
)


def latency(material: Material) -> Section:
    """Mean and standard deviation of a load's latencies, for each arm."""
    found = material.result.latencies
    is_compared = any(each.latency_stddev_ratio is not None for each in found)
    heads = (
        *("arm", "mean", "standard deviation"),
        *(("of the control's",) if is_compared else ()),
        *(unit_of_work(material), "trials"),
    )
    rows = [
        [
            arm_at(each),
            text.seconds(each.latency_mean_ms / 1000),
            text.seconds(each.latency_stddev_ms / 1000),
            *([_of_control(each)] if is_compared else []),
            f"{each.transactions:,}",
            str(each.trials),
        ]
        for each in found
    ]
    title = f"Latency of {unit_of_work(material)}"
    if not rows:
        return Section(title, "latency", ())
    without = "" if material.is_replay else ", without the warm-up"
    note = f"All {unit_of_work(material)} of the valid trials together{without}; no verdict is based on it."
    if is_compared:
        note += " Relative to the control's: the median over blocks, with an interval for all arms together."
    return Section(title, "latency", (plain_table(heads, rows), Paragraph(note, QUIET)))


def _of_control(each: ArmLatency) -> str:
    if each.latency_stddev_ratio is None:
        return ""
    return f"{text.ratio(each.latency_stddev_ratio)} ({text.interval(each.latency_stddev_interval)})"


def checkpoints(material: Material) -> Section:
    """Checkpoints and WAL of a load that writes, for each arm."""
    title = "Checkpoints and WAL"
    found = material.result.checkpoints
    if not found:
        return Section(title, "checkpoints", ())
    heads = ("arm", "requested", "timed", "WAL", "full-page images", "trials")
    rows = [
        [
            arm_at(each),
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
            f" Fewer than {_CHECKPOINTS_MIN} checkpoints in a trial say little about what is compared: raise "
            "the workload's duration."
        )
    return Section(title, "checkpoints", (plain_table(heads, rows), Paragraph(note, QUIET)))


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
    title = "Failed executions" if names else f"Failed {unit_of_work(material)}"
    if not rows:
        return Section(title, "failures", ())
    note = f"All {'executions' if names else unit_of_work(material)} in the valid trials. They count in this "
    note += "figure only; an arm that fails more is not faster."
    return Section(title, "failures", (plain_table(heads, rows), Paragraph(note, QUIET)))


def poolers(material: Material) -> Section:
    """What PgBouncer did between the clients and the server, for each arm that has it."""
    title = "The pooler"
    heads = ("arm", "server connections", "its core", "its CPU", "wait for a connection", "trials")
    found = material.result.poolers
    rows = [
        [
            arm_at(each),
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
            arm_at(each),
            _connections(each),
            figure(each.opened_per_s),
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
    lost, refused = lost_connections(each.lost, each.refused)
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
            arm_at(each),
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


def capacities(material: Material) -> Section:
    """Highest rate that each arm sustains within the bound of its latencies."""
    result = material.result
    heads = ("arm", "holds", "interval", "vs. control", "met the limit", "trials")
    rows = []
    for each in result.capacities:
        ratio = "" if each.ratio is None else _span(each.ratio_interval, ".2f", "×")
        name = arm_at(each)
        shown = (f"{each.rate:,.0f}", _span(each.interval, ",.0f"), ratio)
        rows.append([name, *shown, str(each.kept), str(each.trials)])
    if not rows:
        return Section("Highest rate that each arm sustains", "capacities", ())
    metric = result.metric
    note = (
        f"Transactions per second at which at least half of the trials keep {metric.latency} under "
        f"{figure(metric.bound_ms, 6)} ms with no growing queue. All intervals hold together, at any time "
        "you look. The control's trials include its twin's. "
        "All other figures are for the same rates in all arms."
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
