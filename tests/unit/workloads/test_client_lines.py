"""What pgbench's and sysbench's reports lack: the percentiles that are told, and the client's own share."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgassay.model.percentiles import PERCENTILES, solid, transactions_min
from pgassay.sysbench import extra_report, options


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        *(("p50", 40), ("p75", 80), ("p90", 200), ("p95", 400), ("p99", 2000)),
        *(("p99.9", 20_000), ("p99.99", 200_000)),
    ],
)
def test_a_percentile_is_told_from_twenty_beyond_it_on(name: str, needed: int) -> None:
    assert transactions_min(name) == needed
    latency_ms = {"mean": 1.0, "max": 9.0} | dict.fromkeys(PERCENTILES, 2.0)
    assert name in solid(latency_ms, needed)
    assert name not in solid(latency_ms, needed - 1)
    assert not {"mean", "max"} & solid(latency_ms, 10**9).keys()


def _run(*words: str, **record: float) -> Any:
    chosen = options.parse(["oltp_point_select", "run", *words])
    usual = {"client_cpu_s": 10.0, "client_cpu_most_s": 10.0, "client_waited_s": 0.0, "elapsed_s": 10.0}
    return SimpleNamespace(chosen=chosen, record={**usual, **record})


def test_the_client_s_share_is_of_the_warm_up_too() -> None:
    """The threads' times are those of the whole run, half of whose twenty seconds is the warm-up."""
    half = extra_report.client(_run("--warmup-time=10", "--time=10"))
    assert (half["busiest_thread"], half["is_limit"]) == (0.5, False)
    full = extra_report.client(_run("--time=10"))
    assert (full["busiest_thread"], full["is_limit"]) == (1.0, True)
    assert extra_report.client(_run("--time=10", elapsed_s=0.0))["processors"] == 10.0
