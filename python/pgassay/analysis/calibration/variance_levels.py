"""Copies of the data, starts of the server on them, measurements within a start: what each adds to the noise.

The log speed of measurement k in the start of arm a in block b is μ + β_b + copy_a + start_ab + ε_abk. Blocks
are taken out, so slow changes of the machine count in no level. A measurement within a start is one time of
all statements, or a batch of a load's seconds (`noise.py`). Where trials shared the server's starts, each
trial is a measurement. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.calibration import noise, variance
from pgassay.analysis.calibration.variance import Component, LevelCost, MeanSquare
from pgassay.analysis.statistics.eprocess import FloatArray, gather_evidence, log_evidence
from pgassay.analysis.verdicts.blocks import total_elapsed_s
from pgassay.model.arm import Arm
from pgassay.model.calibration import CopyEffect, Level, LevelResult
from pgassay.model.trial import TrialRecord

# Of a comparison's trials that share starts only some were started for themselves.
STARTED_MIN = 0.5
LEVELS: tuple[Level, ...] = ("measurement", "restart", "copy")


@dataclass(frozen=True)
class MeasuredLevels:
    """The trials of equal arms, shape (blocks, arms): log speeds, the copy of each, their records.

    copies: None where a trial has none of its own, as on servers that run already. has_seconds: whether the
    seconds of a load are measurements of the figure too, as they are not of a latency.
    """

    logs: FloatArray
    copies: list[list[int | None]]
    records: list[list[TrialRecord]]
    has_seconds: bool = True


@dataclass(frozen=True)
class _Within:
    """Measurements within starts: their mean square, how many there are in a start, seconds of each."""

    square: MeanSquare
    count: int
    seconds: float


def measured(
    logs: FloatArray, rows: list[list[TrialRecord]], arms: Sequence[Arm], *, has_seconds: bool
) -> MeasuredLevels:
    """The equal arms' trials, shape (blocks, arms), with the copies that they ran on."""
    return MeasuredLevels(logs, [list(map(_copy, row, arms)) for row in rows], rows, has_seconds)


def _copy(record: TrialRecord, arm: Arm) -> int | None:
    if arm.spec.server is not None:
        return None
    return arm.data_copy if record.data_copy is None else record.data_copy


def copy_effect(found: MeasuredLevels, storage: str) -> CopyEffect | None:
    """How much copies of the data differ; None where one copy, or one block, can't tell.

    Copies are compared within blocks where each arm has its own, else between blocks, where the machine's
    slow changes hide more.
    """
    component, evidence = _copies(found)
    if component is None:
        return None
    numbers = {copy for row in found.copies for copy in row}
    return CopyEffect(
        storage=storage,
        copies=len(numbers),
        spread=component.spread,
        interval=component.spread_interval,
        evidence=evidence,
        differ=component.is_found,
    )


def _copies(found: MeasuredLevels) -> tuple[Component | None, float | None]:
    blocks, arms = found.logs.shape
    if blocks < noise.BLOCKS_MIN or arms < 2 or any(copy is None for row in found.copies for copy in row):
        return None, None
    if all(row == found.copies[0] for row in found.copies) and len(set(found.copies[0])) == arms:
        between = _between_columns(found.logs)
        return variance.component(between, _residual(found.logs), blocks), _evidence(found.logs)
    if all(len(set(row)) == 1 for row in found.copies):
        return _between_blocks(found.logs.mean(axis=1), [row[0] for row in found.copies]), None
    return None, None


def _between_columns(logs: FloatArray) -> MeanSquare:
    blocks, arms = logs.shape
    return MeanSquare(float(blocks * np.var(logs.mean(axis=0), ddof=1)), arms - 1)


def _residual(logs: FloatArray) -> MeanSquare:
    """Of trials beside the others of their block, the arms' constant differences taken out."""
    made = noise.components(logs, None)
    return MeanSquare(made.trial, made.degrees)


def _evidence(logs: FloatArray) -> float:
    """The e-value that copies differ: the mean over copies of the evidence that one is unlike the others."""
    arms = logs.shape[1]
    turned = np.stack([np.roll(logs, -place, axis=1) for place in range(arms)])
    found = log_evidence(gather_evidence(turned))[:, -1]
    return float(np.mean(np.exp(np.minimum(found, 700.0))))


def _between_blocks(means: FloatArray, copies: Sequence[int | None]) -> Component | None:
    """One-way components of blocks, each on one copy; n₀ for unequal numbers (Searle, chapter 3)."""
    groups = [means[[each == copy for each in copies]] for copy in sorted({each or 0 for each in copies})]
    degrees = len(means) - len(groups)
    if len(groups) < 2 or degrees < 1:
        return None
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / degrees
    between = sum(len(group) * float(group.mean() - means.mean()) ** 2 for group in groups)
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    usual = float((sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(groups) - 1))
    squares = MeanSquare(between / (len(groups) - 1), len(groups) - 1), MeanSquare(within, degrees)
    return variance.component(*squares, usual)


def levels(found: MeasuredLevels, margin: float, load_s: float | None) -> tuple[LevelResult, ...]:
    """The levels from the outermost to the innermost; () before two blocks of two arms.

    load_s: the seconds that a fresh load of the data takes. What can't be told is None: copies where there is
    one, starts and measurements where they were not repeated in each other.
    """
    blocks, arms = found.logs.shape
    if blocks < noise.BLOCKS_MIN or arms < 2:
        return ()
    components: dict[Level, Component | None] = dict.fromkeys(LEVELS)
    components["copy"] = _copies(found)[0]
    costs: dict[Level, float | None] = {**dict.fromkeys(LEVELS), "copy": load_s}
    records = [record for row in found.records for record in row]
    if _are_started(records):
        within = _within(records) if found.has_seconds else None
        if within is not None:
            between = _between_starts(found, within.count)
            components["measurement"] = variance.alone(within.square)
            components["restart"] = variance.component(between, within.square, within.count)
            costs["measurement"] = within.seconds
            measured_s = within.seconds * within.count
            costs["restart"] = max(0.0, float(np.mean([record.wall_s for record in records])) - measured_s)
    else:
        components["measurement"] = variance.alone(_residual(found.logs))
        costs["measurement"] = float(np.mean([record.wall_s for record in records]))
    known = [(name, made) for name in LEVELS if (made := components[name]) is not None]
    by_name: dict[Level, int | None] = {}
    if components["measurement"] is not None:
        # Without the innermost the others would promise intervals from a part of the noise.
        counts = variance.repetitions([LevelCost(made.variance, costs[name]) for name, made in known], margin)
        by_name = {name: count for (name, _), count in zip(known, counts, strict=True)}
    return tuple(
        LevelResult(
            level=name,
            spread=None if made is None else made.spread,
            interval=None if made is None else made.spread_interval,
            repetitions=by_name.get(name),
            cost_s=costs[name],
        )
        for name in reversed(LEVELS)
        for made in (components[name],)
    )


def _are_started(records: Sequence[TrialRecord]) -> bool:
    """Whether most trials had a start of the server of their own."""
    started = sum(record.facts.started_for_this_trial is True for record in records)
    return started >= STARTED_MIN * len(records)


def _within(records: Sequence[TrialRecord]) -> _Within | None:
    """Measurements within starts; None unless every trial has as many of them, two at least."""
    values = [_measurements(record) for record in records]
    counts = {len(each) for each in values}
    if len(counts) != 1 or counts.pop() < 2:
        return None
    logs = np.array(values, dtype=np.float64)
    seconds = [_measured_s(record) for record in records]
    return _Within(variance.mean_square_within(logs), logs.shape[1], float(np.mean(seconds)) / logs.shape[1])


def _measurements(record: TrialRecord) -> list[float]:
    """Log speeds within one start, [] where there are none."""
    if record.load is not None:
        batches = noise.batch_means(record.load.per_second)
        return [] if batches is None or not (batches > 0).all() else list(np.log(batches))
    first = total_elapsed_s(record)
    times = [*([] if first is None else [first]), *record.repeated_s]
    return [-float(np.log(each)) for each in times] if all(each > 0 for each in times) else []


def _measured_s(record: TrialRecord) -> float:
    if record.load is not None:
        return record.load.elapsed_s
    return (total_elapsed_s(record) or 0.0) + sum(record.repeated_s)


def _between_starts(found: MeasuredLevels, count: int) -> MeanSquare:
    means = np.array([[np.mean(_measurements(record)) for record in row] for row in found.records])
    residual = _residual(means)
    return MeanSquare(count * residual.value, residual.degrees)
