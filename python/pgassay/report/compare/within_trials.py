"""What changed within the trials: the load by second, latencies, single trials over time."""

from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.compare.trial_series import PERCENTILES, LatencyRow
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


def section(material: Material) -> Section:
    """Drawings of all series that were observed, with the percentiles of the latencies in figures."""
    observed = material.observed
    blocks: list[Block] = [Paragraph(sentence, ALARM) for sentence in observed.unreadable]
    blocks += [Figure("seconds")] if observed.seconds else []
    if observed.latencies:
        heads = ("arm", *(f"p{each:g}" for each in PERCENTILES), "slowest", unit_of_work(material), "trials")
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


def unit_of_work(material: Material) -> str:
    """What a load does and its latencies are of."""
    return "statements" if material.is_replay else "transactions"


def _latencies(row: LatencyRow) -> list[str]:
    return [
        f"{row.group} at {row.stratum}" if row.stratum else row.group,
        *(text.seconds(value / 1000) for value in row.percentiles_ms),
        text.seconds(row.max_ms / 1000),
        f"{row.transactions:,}",
        str(row.trials),
    ]
