"""What a replay's families are measured by."""

import pytest

from pgassay.native.replay_commands import PlayedFamily
from pgassay.traffic.play_plan import families_of, same_mean_s


def played(sample: str, *, calls: int, same: int, same_s: float, seconds: float) -> PlayedFamily:
    return {
        "sample": sample, "calls": calls, "same": same, "same_s": same_s, "diverged": calls - same,
        "other_values": 0, "seconds_captured": 1.0, "seconds": seconds, "diverged_s": 0.0, "example": None,
        "times_ms": None,
    }  # fmt: skip


def test_what_failed_at_once_or_was_not_executed_makes_no_family_fast() -> None:
    # Of 100 executions 60 came out as then, in 10 ms each; 40 failed at once.
    found = [
        played("SELECT f(1)", calls=100, same=60, same_s=0.6, seconds=0.601),
        played("SELECT g(a) IN (1, 2)", calls=10, same=10, same_s=0.2, seconds=0.2),
        played("SELECT g(a) IN (1, 2, 3)", calls=30, same=10, same_s=0.4, seconds=0.4),
        played("SELECT h()", calls=5, same=0, same_s=0.0, seconds=0.001),
    ]
    means = same_mean_s(found)
    assert means == {"SELECT f(?)": pytest.approx(0.01), "SELECT g(a) IN (…)": pytest.approx(0.03)}
    assert {each.text: each.calls for each in families_of(found)}["SELECT g(a) IN (…)"] == 40
