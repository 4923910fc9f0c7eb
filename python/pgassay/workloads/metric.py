"""`--metric`: which figure of a load's trials is compared."""

import math
from collections.abc import Iterable
from itertools import pairwise

from pgassay.errors import UsageError
from pgassay.model.workload import LoadSpec, Metric, WorkloadSpec
from pgassay.workloads.load import THROUGHPUT
from pgassay.workloads.pace import MEAN_LATENCY

# The percentiles by name, with the share of transactions that take no longer.
PERCENTILES = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99.9": 0.999,
    "p99.99": 0.9999,
}
NAMES = ("throughput", "tps", "mean", *PERCENTILES)
# Transactions beyond a percentile below which it is more the luck of single ones than a figure of the trial.
BEYOND_MIN = 20


def metric_of(text: str | None, workload: WorkloadSpec, loads: Iterable[LoadSpec | None]) -> Metric:
    """What a comparison rests on: as named, else the workload's own; with a rate the mean latency.

    loads: those of the arms. Raises UsageError for a metric that is none, that the workload does not have, or
    for which trials are planned too short.
    """
    found = [load for load in loads if load is not None]
    if text is None:
        is_paced = workload.metric == THROUGHPUT and any(load.pace for load in found)
        return MEAN_LATENCY if is_paced else workload.metric
    name = text.strip().lower()
    if name not in NAMES:
        raise UsageError(f"--metric {text} is not known: write one of {', '.join(NAMES)}")
    if workload.load is None:
        raise UsageError(
            f"--metric {text} is a figure of a load, and {workload.family} runs its statements one by one: "
            "leave it out, or use select-only, tpcb, simple-update, oltp_read_only or pgbench:file=FILE"
        )
    if name in ("throughput", "tps") and workload.is_replay:
        return _rate_of_replay(text, workload)
    if name in ("throughput", "tps"):
        return THROUGHPUT
    if name == "mean":
        return MEAN_LATENCY
    for load in found:
        _check_length(name, load)
    return Metric(name=f"{name} latency", unit="ms", better="lower", latency=name)


def transactions_min(latency: str) -> int:
    """How many transactions a trial must have for this figure of latencies (`Metric.latency`)."""
    share = PERCENTILES.get(latency)
    return 1 if share is None else math.ceil(BEYOND_MIN / (1 - share) - 1e-6)


def too_few(latency: str, transactions: float, duration_s: float) -> str:
    """Why a percentile of so many transactions is none, and how long a trial must be; '' when it is one."""
    least = transactions_min(latency)
    if transactions >= least:
        return ""
    had = f"{latency} needs {least:,} transactions in each trial ({BEYOND_MIN} beyond it), and a trial has"
    if transactions < 1:
        return f"{had} none: make it longer"
    seconds = math.ceil(duration_s * least / transactions * 1.1)
    shown = f"{had} about {transactions:,.0f} in {duration_s:g} s"
    return f"{shown}: write duration={seconds}s, or a lower percentile"


def _rate_of_replay(text: str, workload: WorkloadSpec) -> Metric:
    if workload.metric.latency:
        raise UsageError(
            f"--metric {text}: at a speed a replay sends what the capture has in the same time whatever the "
            "server does: leave it out, or write speed=max"
        )
    return workload.metric


def _check_length(latency: str, load: LoadSpec) -> None:
    if load.replay is not None and load.replay.statements < transactions_min(latency):
        raise UsageError(
            f"--metric {latency} needs {transactions_min(latency):,} statements in each trial ({BEYOND_MIN} "
            f"beyond it), and this replay has {load.replay.statements:,}: write a lower percentile"
        )
    if load.pace is None:
        return
    points = [(0.0, load.pace.rates[0][1]), *load.pace.rates]
    due, last = 0.0, load.pace.rates[-1]
    for (before_s, before), (after_s, after) in pairwise(points):
        until_s = min(after_s, load.duration_s)
        if until_s > before_s:
            at_end = before + (after - before) * (until_s - before_s) / (after_s - before_s)
            due += (before + at_end) / 2 * (until_s - before_s)
    due += max(0.0, load.duration_s - last[0]) * last[1]
    fault = too_few(latency, due, load.duration_s)
    if fault:
        raise UsageError(f"--metric {latency}: {fault} (rate={load.pace.text})")
