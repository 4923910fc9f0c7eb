"""How often storage is said to be at a ceiling by SQL alone: never where reads only wait, mostly where it is.

A closed loop is simulated: connections that compute and read in turn, whose number changes now and then,
looks at some of the moments, counters that each of eight groups of connections hands in once a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pgassay.analysis.causes.read_series import ReadCeiling, ReadInterval, read_ceiling
from pgassay.analysis.causes.sql_evidence import Counted, Looks, evidence_of_span

STEP_S = 0.02
GROUPS = 8
WARM_UP_S = 5.0
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Storage:
    """Each read takes latency_s; not more than `most_s` of them a second. noise: of the rate."""

    latency_s: float = 0.008
    most_s: float = np.inf
    noise: float = 0.03


@dataclass(frozen=True)
class Load:
    """How the number of connections changes: to one of `levels`, for `every_s` on average.

    think_s: what each connection computes between two reads; statement_s: how long its statements take, at
    whose end it counts what it read.
    """

    levels: Sequence[int] = (1, 2, 4, 8)
    every_s: float = 5.0
    think_s: float = 0.002
    statement_s: float = 0.05
    seconds: float = 60.0


def course(load: Load, generator: np.random.Generator) -> Array:
    """The number of connections at each step."""
    steps = int((load.seconds + WARM_UP_S) / STEP_S)
    changes = generator.random(steps) < STEP_S / load.every_s
    changes[0] = True
    chosen = generator.choice(np.array(load.levels, dtype=np.float64), steps)
    indices = np.maximum.accumulate(np.where(changes, np.arange(steps), 0))
    return chosen[indices]


def simulated(
    storage: Storage, load: Load, generator: np.random.Generator, rate_hz: float = 5.0
) -> tuple[ReadInterval, ...]:
    """The product's intervals of one simulated stretch of time."""
    connections = course(load, generator)
    steps = len(connections)
    speed = 1 + storage.noise * generator.standard_normal(steps)
    wanted = connections / (storage.latency_s + load.think_s) * np.maximum(0.1, speed)
    rate = np.minimum(wanted, storage.most_s * np.maximum(0.1, speed))
    # Little's law: who does not compute, waits for a read.
    in_flight = np.maximum(0.0, connections - rate * load.think_s)
    reads = generator.poisson(rate * STEP_S / GROUPS, (GROUPS, steps)).astype(np.float64)
    clock_s = np.arange(steps) * STEP_S - WARM_UP_S
    counted = np.zeros(steps)
    every = int((1.0 + load.statement_s) / STEP_S)
    for group in reads:
        total = np.cumsum(group)
        handed_in = (np.arange(steps) - int(generator.integers(every))) // every * every
        counted += np.where(handed_in >= 0, total[np.maximum(handed_in, 0)], 0.0)
    polls = np.arange(0, steps, int(1 / STEP_S))
    moments = np.arange(0, steps, int(1 / rate_hz / STEP_S))
    share = np.clip(in_flight / connections, 0, 1)
    seen = generator.binomial(connections.astype(int), share)[moments].astype(np.float64)
    # Two looks to a window, as the observer puts them out.
    pairs = len(moments) // 2
    looks = Looks(
        begin_s=clock_s[moments[: 2 * pairs : 2]],
        end_s=clock_s[moments[: 2 * pairs : 2]] + 2 / rate_hz,
        count=np.full(pairs, 2.0),
        in_flight=seen[: 2 * pairs].reshape(pairs, 2).mean(axis=1),
        at_work=connections[moments][: 2 * pairs].reshape(pairs, 2).mean(axis=1),
        computing=np.zeros(pairs),
    )
    counters = Counted(
        clock_s=clock_s[polls],
        read_bytes=counted[polls] * 8192,
        requests=counted[polls],
        read_time_s=np.zeros(len(polls)),
        statement_s=np.full(len(polls), load.statement_s),
    )
    return evidence_of_span(looks, counters, 0.0, load.seconds).intervals


def ceilings(storage: Storage, load: Load, runs: int, seed: int) -> list[ReadCeiling | None]:
    """What is said of so many stretches."""
    generator = np.random.default_rng(seed)
    return [read_ceiling(simulated(storage, load, generator)) for _ in range(runs)]


def share_named(storage: Storage, load: Load, runs: int, seed: int) -> float:
    return sum(each is not None for each in ceilings(storage, load, runs, seed)) / runs


LATENCY_BOUND = {
    "one client": Load(levels=(1,)),
    "eight clients, always": Load(levels=(8,)),
    "now fewer, now more": Load(),
    "quick changes": Load(levels=(2, 4), every_s=1.0),
    "as quick as an interval": Load(levels=(2, 8), every_s=2.0),
    "half of the time computing": Load(levels=(2, 4, 6), think_s=0.008),
    "long statements": Load(levels=(4, 8, 16), every_s=2.0, statement_s=4.0),
    "a short look": Load(levels=(2, 4, 8), seconds=30.0),
    "a long look": Load(levels=(4, 6, 8, 12), every_s=3.0, seconds=300.0),
}


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(load, id=name, marks=pytest.mark.slow if name == "a long look" else ())
        for name, load in LATENCY_BOUND.items()
    ],
)
def test_reads_that_only_wait_are_no_ceiling(load: Load) -> None:
    assert share_named(Storage(), load, runs=40, seed=15) <= 0.025


@pytest.mark.slow
@pytest.mark.parametrize("load", LATENCY_BOUND.values(), ids=LATENCY_BOUND)
@pytest.mark.parametrize("noise", [0.0, 0.03, 0.1])
def test_reads_that_only_wait_are_no_ceiling_in_many_runs(load: Load, noise: float) -> None:
    """At most 1 in 200, whatever the noise."""
    runs = 300
    # Three standard errors of 0.005.
    assert share_named(Storage(noise=noise), load, runs, seed=16) <= 0.005 + 3 * np.sqrt(0.005 / runs)


AT_A_CEILING = {
    "now fewer, now more": Load(levels=(4, 8, 16)),
    "slow changes": Load(levels=(4, 8, 16), every_s=10.0),
    "sometimes below it": Load(levels=(1, 4, 8, 16), every_s=4.0, seconds=90.0),
}


@pytest.mark.parametrize("load", AT_A_CEILING.values(), ids=AT_A_CEILING)
def test_a_ceiling_is_found_with_its_height(load: Load) -> None:
    # Two at a time are enough to reach it.
    found = ceilings(Storage(most_s=200.0), load, runs=40, seed=17)
    named = [each for each in found if each is not None]
    assert len(named) >= 0.8 * len(found)
    assert {each.name for each in named} == {"read_iops"}
    assert all(each.rate == pytest.approx(200, rel=0.1) for each in named)


def test_a_ceiling_under_the_same_load_all_the_time_is_not_known() -> None:
    """Eight clients at a ceiling look as eight clients that wait 40 ms each."""
    assert share_named(Storage(most_s=200.0), Load(levels=(8,)), runs=40, seed=18) == 0


def at_a_ceiling(seed: int) -> tuple[ReadInterval, ...]:
    load = Load(levels=(4, 8, 16), seconds=180.0)
    return simulated(Storage(most_s=200.0), load, np.random.default_rng(seed))


def test_large_reads_at_a_ceiling_are_bytes() -> None:
    intervals = [replace(each, read_bytes=131072 * (each.requests or 0.0)) for each in at_a_ceiling(19)]
    found = read_ceiling(intervals)
    assert found is not None and found.name == "read_mb_s"
    assert found.rate == pytest.approx(200 * 131072 / 1e6, rel=0.05)
    # Before 18 requests are not counted.
    uncounted = read_ceiling([replace(each, requests=None) for each in at_a_ceiling(19)])
    assert uncounted is not None and uncounted.name == "read_mb_s" and uncounted.request_bytes is None


def test_reads_of_changing_size_tell_requests_from_bytes() -> None:
    generator = np.random.default_rng(20)
    intervals = [
        replace(each, read_bytes=float(generator.choice([8192, 131072])) * (each.requests or 0.0))
        for each in at_a_ceiling(20)
    ]
    found = read_ceiling(intervals)
    assert found is not None and found.name == "read_iops"
