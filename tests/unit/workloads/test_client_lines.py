"""What pgbench's and sysbench's reports lack: the percentiles that are told, and the client's own share."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgassay.pgbench.extra_report import needed_for
from pgassay.sysbench import extra_report, options


@pytest.mark.parametrize(
    ("percent", "needed"),
    [(50, 40), (75, 80), (90, 200), (95, 400), (99, 2000), (99.9, 20_000), (99.99, 200_000)],
)
def test_a_percentile_is_told_from_twenty_beyond_it_on(percent: float, needed: int) -> None:
    assert needed_for(percent) == needed
    latency_ms = {f"p{each:g}": each for each in (50, 75, 90, 95, 99, 99.9, 99.99)}
    name = f"p{percent:g}"
    assert name in extra_report.solid_percentiles(latency_ms, needed)
    assert name not in extra_report.solid_percentiles(latency_ms, needed - 1)


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
