"""`--metric`: which figure of a load's trials is compared."""

import math
import re
from collections.abc import Iterable
from itertools import pairwise

from pgassay.errors import UsageError
from pgassay.model.percentiles import BEYOND_MIN, PERCENTILES, transactions_min
from pgassay.model.workload import LoadSpec, Metric, Pace, WorkloadSpec
from pgassay.workloads.pace import MEAN_LATENCY, latency_s, option_of
from pgassay.workloads.pgbench_builtin import THROUGHPUT

THROUGHPUT_AT = "throughput-at"
_BOUND = re.compile(r":(?P<figure>[a-z0-9.]+)<=?(?P<bound>.+)")
NAMES = ("throughput", "tps", "mean", *PERCENTILES)


def metric_of(text: str | None, workload: WorkloadSpec, loads: Iterable[LoadSpec | None]) -> Metric:
    """What a comparison rests on: as named, else the workload's own; with a rate the mean latency.

    loads: those of the arms. Raises UsageError for a metric that is none, that the workload does not have, or
    for which trials are planned too short.
    """
    found = [load for load in loads if load is not None]
    for load in found:
        _refuse_none(load)
    if text is None:
        is_paced = workload.metric == THROUGHPUT and any(load.pace for load in found)
        return MEAN_LATENCY if is_paced else workload.metric
    name = text.strip().lower()
    figure, bound_ms = _bound(text, name) if name.startswith(THROUGHPUT_AT) else (name, 0.0)
    if figure not in NAMES:
        raise UsageError(
            f"--metric {text} is not known: write one of {', '.join(NAMES)}, or {THROUGHPUT_AT}:p99<20ms"
        )
    if workload.load is None:
        raise UsageError(
            f"--metric {text} is for a load, but {workload.family} runs its statements one by one: leave it "
            "out, or use select-only, tpcb, simple-update, oltp_read_only or pgbench:file=FILE"
        )
    if name in ("throughput", "tps") and workload.is_replay:
        return _rate_of_replay(text, workload)
    if bound_ms:
        return _throughput_at(figure, bound_ms, workload, found)
    if name in ("throughput", "tps"):
        return THROUGHPUT
    if name == "mean":
        return MEAN_LATENCY
    for load in found:
        _check_length(name, load)
    return Metric(name=f"{name} latency", unit="ms", better="lower", latency=name)


def _bound(text: str, name: str) -> tuple[str, float]:
    """The figure and its bound in milliseconds of `throughput-at:p99<20ms`; raises UsageError."""
    match = _BOUND.fullmatch(name.removeprefix(THROUGHPUT_AT))
    if match is None or match["figure"] not in ("mean", *PERCENTILES):
        raise UsageError(
            f"--metric {text}: write a latency and its limit, in quotes: "
            f"'{THROUGHPUT_AT}:p99<20ms' (mean, {', '.join(PERCENTILES)})"
        )
    return match["figure"], 1e3 * latency_s(match["bound"], "--metric", most=3600)


def _throughput_at(figure: str, bound_ms: float, workload: WorkloadSpec, loads: Iterable[LoadSpec]) -> Metric:
    if workload.is_series:
        raise UsageError(
            f"--metric {THROUGHPUT_AT} looks for the rate of one transaction, but {workload.text} "
            "is a series: name one of its scripts"
        )
    if workload.is_replay:
        raise UsageError(
            f"--metric {THROUGHPUT_AT} sends transactions at its own rates, but a replay has the rate "
            "of its capture: leave it out, or write --metric p99"
        )
    for load in loads:
        if load.pace is not None:
            raise UsageError(
                f"--metric {THROUGHPUT_AT} chooses the rates itself: leave "
                f"{option_of(load.pace)}={load.pace.text} out"
            )
    name = f"{figure} latency at the same rates"
    return Metric(name=name, unit="ms", better="lower", latency=figure, bound_ms=bound_ms)


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
            f"--metric {text}: at a fixed speed a replay sends the same statements in the same time "
            "whatever the server does: leave it out, or write speed=max"
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
    fault = too_few(latency, _due(load, load.pace), load.duration_s)
    if fault:
        raise UsageError(f"--metric {latency}: {fault} ({option_of(load.pace)}={load.pace.text})")


def _refuse_none(load: LoadSpec) -> None:
    if load.pace is not None and _due(load, load.pace) < 1:
        raise UsageError(
            f"{option_of(load.pace)}={load.pace.text}: in the {load.duration_s:g} s of a trial no "
            "transaction would be due: write a longer duration=, or a higher rate"
        )


def _due(load: LoadSpec, pace: Pace) -> float:
    """How many transactions are due in a trial, on average."""
    points = [(0.0, pace.rates[0][1]), *pace.rates]
    due, last = 0.0, pace.rates[-1]
    for (before_s, before), (after_s, after) in pairwise(points):
        until_s = min(after_s, load.duration_s)
        if until_s > before_s:
            at_end = before + (after - before) * (until_s - before_s) / (after_s - before_s)
            due += (before + at_end) / 2 * (until_s - before_s)
    return due + max(0.0, load.duration_s - last[0]) * last[1]
