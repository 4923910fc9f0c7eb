"""Percentiles of latencies, and how many transactions each needs to be a figure at all."""

import math

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
# Transactions beyond a percentile below which it is more the luck of single ones than a figure of the load.
BEYOND_MIN = 20


def transactions_min(latency: str) -> int:
    """How many transactions a trial must have for this figure of latencies (`Metric.latency`)."""
    share = PERCENTILES.get(latency)
    return 1 if share is None else math.ceil(BEYOND_MIN / (1 - share) - 1e-6)


def solid(latency_ms: dict[str, float], transactions: int) -> dict[str, float]:
    """Of figures by name the percentiles that so many transactions carry, the lowest first."""
    return {
        name: latency_ms[name]
        for name in PERCENTILES
        if name in latency_ms and transactions >= transactions_min(name)
    }
