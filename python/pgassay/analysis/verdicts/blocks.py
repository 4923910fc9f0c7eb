"""The figures of a trial that are compared, from its raw record, and the complete blocks of trials.

The rules for failures never look at which arm failed.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray
from pgassay.errors import UsageError
from pgassay.model.experiment import ATTEMPTS_MAX, Covariate, Experiment, StatisticalContract
from pgassay.model.percentiles import transactions_min
from pgassay.model.trial import TrialRecord
from pgassay.model.workload import Metric
from pgassay.record.experiment import StoredExperiment

# Beside the one that is compared: what a distribution looks like at its middle, its shoulder and its tail.
OTHER_LATENCIES = ("p50", "p95", "p99")
_PER_SECOND = {"s": 1.0, "ms": 1e3, "µs": 1e6, "us": 1e6}


@dataclass(frozen=True)
class Measure:
    """One figure of a trial.

    value: the figure in `unit`, or None when the record holds none that is above 0. sign: +1 when log(value)
    is compared, −1 when −log(value) is, so that more is better for speeds.
    """

    name: str
    unit: str
    kind: Literal["primary", "statement", "cpu", "latency"]
    sign: int
    value: Callable[[TrialRecord], float | None]

    def log_value(self, record: TrialRecord) -> float:
        """What enters the statistics: the signed log of the value; NaN when there is none."""
        value = self.value(record)
        return math.nan if value is None else self.sign * math.log(value)


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def per_second(unit: str) -> float:
    """How many of a unit of time make a second; raises UsageError for a unit that is none."""
    if unit not in _PER_SECOND:
        raise UsageError(
            f"the metric's unit {unit!r} is not a unit of time: use one of {', '.join(_PER_SECOND)}"
        )
    return _PER_SECOND[unit]


def throughput(record: TrialRecord) -> float | None:
    """Transactions per second of the measured interval."""
    if record.load is None or not record.load.elapsed_s > 0:
        return None
    return _positive(record.load.transactions / record.load.elapsed_s)


def latency_ms(record: TrialRecord, name: str) -> float | None:
    """A figure of a load's latencies in milliseconds, as "mean" or "p99".

    Each trial gives one: transactions within it share checkpoints and queues, so they are no units of
    evidence.
    None for a percentile with fewer than half of the transactions beyond it that a plan asks for: a trial
    that has somewhat fewer than the others is not left out for that.
    """
    load = record.load
    if load is None or name not in load.latency_ms or load.latencies < transactions_min(name) / 2:
        return None
    return _positive(load.latency_ms[name])


def total_elapsed_s(record: TrialRecord, weights: Mapping[str, float] | None = None) -> float | None:
    """The sum of the statements' times, in seconds; each as often as its weight says, else once."""
    if not record.statements:
        return None
    often = weights or {}
    return _positive(
        math.fsum(often.get(statement.name, 1.0) * statement.least_s for statement in record.statements)
    )


def statement_elapsed_s(record: TrialRecord, name: str) -> float | None:
    """One statement's time, in seconds: the least of its executions; None when the trial did not run it."""
    for statement in record.statements:
        if statement.name == name:
            return _positive(statement.least_s)
    return None


def cpu_per_unit_s(record: TrialRecord) -> float | None:
    """Server CPU seconds per transaction of a load, or for all statements together."""
    if record.server_cpu_s is None:
        return None
    if record.load is None:
        return _positive(record.server_cpu_s)
    return _positive(record.server_cpu_s / record.load.transactions) if record.load.transactions else None


def covariate_log_s(name: Covariate, record: TrialRecord) -> float:
    """log of the seconds of a fixed task before the trial: the covariate; NaN when it was not run."""
    seconds = {"canary": record.canary_s, "memory": record.memory_s, "disk": record.disk_s}
    value = _positive(seconds.get(name))
    return math.nan if value is None else math.log(value)


def primary_measure(metric: Metric, weights: Mapping[str, float] | None = None) -> Measure:
    """The primary metric: throughput when higher is better, else a latency or the statements' total time.

    Raises UsageError when a time has a unit that is no unit of time.
    """
    if metric.latency:
        return Measure(
            metric.name, metric.unit, "primary", -1, lambda record: latency_ms(record, metric.latency)
        )
    if metric.better == "higher":
        return Measure(metric.name, metric.unit, "primary", 1, throughput)
    factor = per_second(metric.unit)

    def total(record: TrialRecord) -> float | None:
        seconds = total_elapsed_s(record, weights)
        return None if seconds is None else seconds * factor

    return Measure(metric.name, metric.unit, "primary", -1, total)


def contract_measure(contract: StatisticalContract) -> Measure:
    """The primary metric of an experiment; raises UsageError as `primary_measure`."""
    return primary_measure(contract.metric, contract.weights)


def statement_measure(name: str) -> Measure:
    """The elapsed time of one statement, in seconds."""
    return Measure(name, "s", "statement", -1, lambda record: statement_elapsed_s(record, name))


def statement_measures(experiment: Experiment) -> tuple[Measure, ...]:
    """One measure for each statement that every arm runs, in the workload's order."""
    lists = [[statement.name for statement in arm.spec.workload.statements] for arm in experiment.arms]
    if not lists:
        return ()
    shared = set(lists[0]).intersection(*lists[1:])
    return tuple(statement_measure(name) for name in lists[0] if name in shared)


def latency_measures(contract: StatisticalContract) -> tuple[Measure, ...]:
    """The other percentiles of a comparison of latencies: more is more latency, so their sign is +1."""

    def measure(name: str) -> Measure:
        return Measure(f"{name} latency", "ms", "latency", 1, lambda record: latency_ms(record, name))

    latency = contract.metric.latency
    return tuple(measure(name) for name in OTHER_LATENCIES if name != latency) if latency else ()


def cpu_measure(experiment: Experiment) -> Measure:
    """Server CPU per unit of work: more is more CPU, so its sign is +1 and its ratio below 1 is less."""
    is_load = any(arm.spec.workload.kind == "load" for arm in experiment.arms)
    unit = "statement" if any(arm.spec.workload.is_replay for arm in experiment.arms) else "transaction"
    name = f"server CPU per {unit}" if is_load else "server CPU of all statements"
    return Measure(name, "s", "cpu", 1, cpu_per_unit_s)


@dataclass(frozen=True)
class BlockTable:
    """The complete blocks of an experiment, and what was left out of them.

    numbers: the complete blocks, ascending; rows: for each of them the valid trial of every arm that took
    part in it, by arm id. voided: blocks in which some arm failed twice. firsts: by block that is complete or
    void, the first attempt of every arm that ran in it, by arm id. failures: failed or invalid attempts
    per arm id. reasons: the latest failure's reason per arm id. valid: every valid trial per arm id in run
    order, those of voided and half-done blocks included.
    """

    arm_ids: tuple[str, ...]
    numbers: tuple[int, ...]
    rows: tuple[dict[str, TrialRecord], ...]
    voided: tuple[int, ...]
    failures: dict[str, int]
    reasons: dict[str, str]
    valid: dict[str, tuple[TrialRecord, ...]]
    firsts: dict[int, dict[str, TrialRecord]]

    def logs(self, measure: Measure) -> FloatArray:
        """The signed logs of a measure, (blocks, arms); NaN where there is none."""
        return self.matrix(measure.log_value)

    def matrix(self, value_of: Callable[[TrialRecord], float]) -> FloatArray:
        """A figure of the trials of complete blocks, shape (blocks, arms); NaN where an arm took no part."""
        cells = [
            [value_of(row[arm]) if arm in row else math.nan for arm in self.arm_ids] for row in self.rows
        ]
        return np.array(cells, dtype=np.float64).reshape(len(self.rows), len(self.arm_ids))

    @property
    def present(self) -> BoolArray:
        """Which arms took part in which complete block, shape (blocks, arms)."""
        cells = [[arm in row for arm in self.arm_ids] for row in self.rows]
        return np.array(cells, dtype=np.bool_).reshape(len(self.rows), len(self.arm_ids))

    def places_with(self, arm_ids: Iterable[str]) -> tuple[int, ...]:
        """The places in `rows` of the complete blocks in which all these arms took part."""
        wanted = set(arm_ids)
        return tuple(place for place, row in enumerate(self.rows) if wanted <= row.keys())


def is_valid(record: TrialRecord, primary: Measure) -> bool:
    """Whether a trial counts: it ended well and its primary metric can be computed."""
    return record.status == "ok" and primary.value(record) is not None


def complete_blocks(stored: StoredExperiment, primary: Measure) -> BlockTable:
    """Sort an experiment's trials into blocks.

    The first valid attempt of an arm in a block counts; a failed or invalid one is repeated once, and a
    second failure voids the block for all arms. An interrupted attempt is neither. A block is complete with
    the arms that its recorded plan names, or with all arms where it has none. An arm that ran at another rate
    than its control is not compared with it there, as if it had taken no part.
    """
    arm_ids = tuple(arm.id for arm in stored.experiment.arms)
    known = set(arm_ids)
    chosen: dict[int, dict[str, TrialRecord]] = defaultdict(dict)
    firsts: dict[int, dict[str, TrialRecord]] = defaultdict(dict)
    failed: Counter[tuple[int, str]] = Counter()
    failures: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    valid: dict[str, list[TrialRecord]] = {arm: [] for arm in arm_ids}
    records = sorted(
        (trial.record for trial in stored.trials), key=lambda record: (record.number, record.attempt)
    )
    for record in records:
        arm = record.arm_id
        if arm not in known or record.status == "interrupted":
            continue
        firsts[record.block].setdefault(arm, record)
        if is_valid(record, primary):
            valid[arm].append(record)
            chosen[record.block].setdefault(arm, record)
            continue
        failures[arm] += 1
        reasons[arm] = record.reason or "its primary metric could not be computed"
        if arm not in chosen[record.block]:
            failed[record.block, arm] += 1
    voided = {block for (block, _), count in failed.items() if count >= ATTEMPTS_MAX}
    planned = {block: known & set(plan.arm_ids) for block, plan in stored.block_plans.items()}
    numbers = [
        block
        for block in sorted(chosen)
        if block not in voided and chosen[block].keys() == planned.get(block, known)
    ]
    return BlockTable(
        arm_ids,
        tuple(numbers),
        tuple(_at_rates_of_controls(stored, block, chosen[block]) for block in numbers),
        tuple(sorted(voided)),
        dict(failures),
        reasons,
        {arm: tuple(found) for arm, found in valid.items()},
        {block: firsts[block] for block in sorted({*numbers, *voided})},
    )


def _at_rates_of_controls(
    stored: StoredExperiment, block: int, row: dict[str, TrialRecord]
) -> dict[str, TrialRecord]:
    plan = stored.block_plans.get(block)
    if plan is None or not plan.rates:
        return row
    controls = {each.arm_id: each.control_id for each in stored.experiment.contrasts}
    return {
        arm: record
        for arm, record in row.items()
        if plan.rate_of(arm) == plan.rate_of(controls.get(arm, arm))
    }
