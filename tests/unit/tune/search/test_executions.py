"""How often a trial of the proof executes each statement."""

import math
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.model.build import Build
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.search.executions import (
    AT_ONCE_MIN,
    AT_ONCE_S,
    AT_ONCE_TIMES,
    EMPTIED_EXECUTIONS_MAX,
    EXECUTIONS_MAX,
    EXECUTIONS_S,
    LONGER_EXECUTIONS,
    SLOWER_EXECUTIONS_S,
    TRIAL_S,
    executions_at_once,
    executions_in_trial,
    executions_of,
    most_executions,
)
from pgassay.tune.tuned_statements import measured

BASE = {"list": 2.0, "report": 1.0}
WEIGHTS = dict.fromkeys(BASE, 1.0)


def test_a_short_statement_is_executed_until_the_noise_of_one_is_little_of_the_whole() -> None:
    base = {"short": 0.0003, "slow": 0.06, "mended": 0.03, "gone": 0.03, "tiny": 1e-6}
    chosen = {**base, "mended": 0.01, "gone": 0.0001}
    assert executions_of(base, base, chosen) == {
        "short": 167, "slow": LONGER_EXECUTIONS, "mended": 5, "gone": 5, "tiny": EXECUTIONS_MAX,
    }  # fmt: skip
    assert executions_of(["short"], base, chosen, executions_max=20) == {"short": 20}
    assert executions_of(["short"], base, chosen, executions_max=1) == {}
    assert executions_of(["endless"], {"endless": 0.001}, {"endless": math.inf}) == {}


@given(st.floats(1e-6, 10), st.floats(1e-6, 10))
def test_executions_of_neither_arm_take_long(as_it_is: float, chosen: float) -> None:
    often = executions_of(["a"], {"a": as_it_is}, {"a": chosen}).get("a", 1)
    fast, slow = sorted((as_it_is, chosen))
    assert often == 1 or often * slow <= max(SLOWER_EXECUTIONS_S + slow, TRIAL_S)
    assert often in (1, EXECUTIONS_MAX) or often <= LONGER_EXECUTIONS or (often - 1) * fast < EXECUTIONS_S


@pytest.mark.parametrize(
    ("seconds", "often"),
    [((0.3, 0.1), 4), ((0.6,), 3), ((0.9,), 2), ((1.1,), 1), ((0.2,) * 20, 1)],
)
def test_long_statements_are_executed_again_while_a_trial_stays_short(
    seconds: tuple[float, ...], often: int
) -> None:
    """What starting a server takes is spent in any case, and the least of several executions tells more."""
    base = {f"s{place}": each for place, each in enumerate(seconds)}
    assert executions_of(base, base, base) == ({} if often == 1 else dict.fromkeys(base, often))
    # What is executed once in any case, since it writes, takes its part of the trial.
    assert executions_of(base, {**base, "writes": TRIAL_S}, base) == {}


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.tuples(st.floats(1e-5, 1e7), st.floats(1e-5, 60)), min_size=1
    ),
    st.floats(0.01, 1.0),
)
def test_clients_execute_the_mix_of_the_weights_within_the_time_of_a_trial(
    drawn: dict[str, tuple[float, float]], share: float
) -> None:
    weights, base = ({name: each[place] for name, each in drawn.items()} for place in (0, 1))
    chosen = {name: share * each for name, each in base.items()}
    counts = executions_at_once(weights, base, chosen)
    assert all(count >= AT_ONCE_MIN for count in counts.values())
    least = executions_at_once(dict.fromkeys(base, 1e-9), base, chosen)
    takes_s, least_s = (sum(found[name] * base[name] for name in base) for found in (counts, least))
    assert takes_s <= max(AT_ONCE_S, AT_ONCE_TIMES * least_s) * (1 + 1e-9)
    # Where neither the least nor the most decides, a statement runs as often as its weight says.
    free = [name for name in counts if counts[name] > max(least[name], 20) and counts[name] < 1900]
    for one in free:
        for other in free:
            assert counts[one] / counts[other] == pytest.approx(weights[one] / weights[other], rel=0.1)


def test_what_a_trial_stops_is_executed_once() -> None:
    counts = executions_at_once(WEIGHTS, BASE, BASE, endless=("report",))
    assert counts["report"] == 1 and counts["list"] >= AT_ONCE_MIN


@pytest.mark.parametrize("at_once", [False, True])
def test_what_a_trial_stops_is_executed_once_and_what_writes_only_beside_others_again(at_once: bool) -> None:
    names = ("read", "stopped", "written")
    statements = measured([TunedStatement(name=each, sql="", writes=each == "written") for each in names])
    base, limits = dict.fromkeys(names, 0.1), {"stopped": 0.1}
    found = executions_in_trial(
        statements, base, base, at_once=at_once, executions_max=EXECUTIONS_MAX, endless=limits
    )
    assert found.get("stopped", 1) == 1
    assert found["read"] >= LONGER_EXECUTIONS
    assert (found.get("written", 1) > 1) == at_once


@pytest.mark.parametrize(
    ("cache", "major", "extensions", "most"),
    [
        ("cold", 18, ("pg_buffercache",), 1),
        ("cold-each", 18, ("pg_buffercache",), 1),
        ("warm-buffers", 16, (), EXECUTIONS_MAX),
        ("as-is", 16, (), EXECUTIONS_MAX),
        ("warm-pages", 18, ("pg_buffercache",), EMPTIED_EXECUTIONS_MAX),
        ("warm-pages", 18, (), 1),
        ("warm-pages", 17, ("pg_buffercache",), 1),
    ],
)
def test_a_statement_is_repeated_where_it_finds_its_cache_state_again(
    cache: str, major: int, extensions: tuple[str, ...], most: int
) -> None:
    build = cast("Build", SimpleNamespace(major=major, extensions=extensions))
    assert most_executions(cache, [build]) == most
