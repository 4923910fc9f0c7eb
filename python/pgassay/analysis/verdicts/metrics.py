"""What is compared, computed from a trial's raw record: the primary metric, statements, server CPU."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pgassay.errors import UsageError
from pgassay.model.experiment import Covariate, Experiment, StatisticalContract
from pgassay.model.trial import TrialRecord
from pgassay.model.workload import Metric

_PER_SECOND = {"s": 1.0, "ms": 1e3, "µs": 1e6, "us": 1e6}


@dataclass(frozen=True)
class Measure:
    """One figure of a trial.

    value: the figure in `unit`, or None when the record holds none that is above 0. sign: +1 when log(value)
    is compared, −1 when −log(value) is, so that more is better for speeds.
    """

    name: str
    unit: str
    kind: Literal["primary", "statement", "cpu"]
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
    """The primary metric: throughput when higher is better, else the statements' total time by weights.

    Raises UsageError when a time has a unit that is no unit of time.
    """
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


def cpu_measure(experiment: Experiment) -> Measure:
    """Server CPU per unit of work: more is more CPU, so its sign is +1 and its ratio below 1 is less."""
    is_load = any(arm.spec.workload.kind == "load" for arm in experiment.arms)
    name = "server CPU per transaction" if is_load else "server CPU of all statements"
    return Measure(name, "s", "cpu", 1, cpu_per_unit_s)
