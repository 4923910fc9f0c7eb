"""How often the search of tune calls a fix worse that does nothing, on machines that are not quiet.

Simulated is the machine alone: what a run takes at a moment. When what looked slower is timed again, and
what that tells, is the product's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import tune_samples as samples
from pgassay.tune.answer.verdicts import verdict_of
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.copy import RUNS_MAX, RUNS_MIN, RUNS_S
from pgassay.tune.running.look import loading_took
from pgassay.tune.search.search import look_again, retime_small_changes
from pgassay.tune.search.selection import WORSE_MAX, Baseline, Tried, gain_of
from pgassay.tune.tuned_statements import MeasuredStatement, measured

STATEMENT = TunedStatement(name="q", sql="SELECT 1")
# Applying a fix, and what else is tried before it.
APPLY_S, UNTIL_TRIED_S = 0.5, 20.0
Speed = Callable[[float], float]


def quiet(_random: np.random.Generator) -> Speed:
    """Nothing else runs."""
    return lambda _time: 1.0


def two_speeds(random: np.random.Generator) -> Speed:
    """Half of the time something else runs, for three seconds on average, and all takes 1.5 times as long."""
    ends = np.cumsum(random.exponential(3.0, 400))
    first = int(random.integers(2))
    return lambda time: 1.5 if (first + int(np.searchsorted(ends, time))) % 2 else 1.0


def busy_later(random: np.random.Generator) -> Speed:
    """Somewhere between the workload as it is and the fix, something begins and goes on."""
    begins = random.uniform(0, UNTIL_TRIED_S)
    return lambda time: 1.4 if time > begins else 1.0


def slowing(random: np.random.Generator) -> Speed:
    """Steadily slower, as a processor that gets hot or a table that grows."""
    rate = random.uniform(0, 0.02)
    return lambda time: 1 + rate * time


@dataclass
class Machine:
    """Stands in for the copy of the data: what it takes is drawn, and time goes on by it."""

    random: np.random.Generator
    speed: Speed
    statement_s: float
    times: float
    now_s: float = 0.0
    applied: tuple[str, ...] = ()

    def align(self, wanted: Sequence[Candidate], **_how: bool) -> None:
        names = tuple(each.id for each in wanted)
        self.now_s += APPLY_S * (names != self.applied)
        self.applied = names

    def seconds(
        self, _statement: MeasuredStatement, _sql: str, *, usual_s: float | None = None, **_how: bool
    ) -> float:
        """The least of as many runs as the copy's; one in ten takes twice as long."""
        assert usual_s is not None
        found: list[float] = []
        while len(found) < RUNS_MAX and (len(found) < RUNS_MIN or math.fsum(found) < RUNS_S):
            spike = 2.0 if self.random.random() < 0.1 else 1.0
            noise = math.exp(0.1 * float(self.random.standard_normal()))
            took = self.statement_s * self.speed(self.now_s) * noise * spike
            found.append(took * (self.times if self.applied else 1.0))
            self.now_s += found[-1]
        return min(found)


@dataclass(frozen=True)
class Outcome:
    """The gain as it looked when the fix was tried and beside the workload as it was then; the verdict."""

    first: float
    beside: float
    verdict: str


def searched(world: Callable[[np.random.Generator], Speed], seed: int, times: float) -> Outcome:
    """What becomes of a fix that takes `times` as long."""
    random = np.random.default_rng(seed)
    copy = Machine(random, world(random), float(random.choice([0.002, 0.05, 0.4])), times)
    (statement,) = measured([STATEMENT])
    before = {"q": copy.seconds(statement, "", usual_s=1.0)}
    baseline = Baseline((statement,), before, {})
    copy.now_s += UNTIL_TRIED_S
    candidate = samples.candidate("fix")
    copy.align([candidate])
    tried = Tried(candidate.id, {"q": copy.seconds(statement, "", usual_s=1.0)})
    copy.align([])
    run = samples.search_run(copy, baseline, candidates=(candidate,), tried={candidate.id: tried})
    retime_small_changes(run, candidate)
    gains = [gain_of({"q": 1.0}, before, each.seconds) for each in (tried, run.found.tried[candidate.id])]
    look_again(run)
    known = samples.judged(found=run.found, baseline=baseline, proved=None)
    return Outcome(gains[0], gains[1], verdict_of(known, candidate)[0])


@pytest.mark.parametrize("world", [quiet, two_speeds, busy_later, slowing])
def test_what_does_nothing_is_hardly_ever_called_worse(
    world: Callable[[np.random.Generator], Speed],
) -> None:
    runs = 400
    found = [searched(world, seed, 1.0) for seed in range(runs)]
    worse = sum(each.verdict == "worse" for each in found)
    # At most one in a hundred, with three deviations of chance.
    assert worse <= 0.01 * runs + 3 * math.sqrt(0.01 * 0.99 * runs)
    if world in (busy_later, two_speeds):
        # A single comparison would have called many of them worse.
        assert sum(each.first < WORSE_MAX for each in found) > 0.15 * runs


@pytest.mark.parametrize(("world", "share"), [(quiet, 0.95), (busy_later, 0.95), (two_speeds, 0.3)])
def test_what_makes_it_twice_as_slow_is_called_worse(
    world: Callable[[np.random.Generator], Speed], share: float
) -> None:
    runs = 200
    worse = sum(searched(world, seed, 2.0).verdict == "worse" for seed in range(runs))
    assert worse >= share * runs - 3 * math.sqrt(share * (1 - share) * runs)


def test_what_helps_is_not_lost_when_the_machine_gets_busy_meanwhile() -> None:
    """1.3 times as fast, tried when everything takes 1.4 times as long."""
    runs = 200
    found = [searched(busy_later, seed, 1 / 1.3) for seed in range(runs)]
    assert sum(each.first >= 1.03 for each in found) < 0.5 * runs
    assert sum(each.beside >= 1.03 for each in found) > 0.9 * runs


def test_loading_that_takes_much_of_the_time_is_told() -> None:
    assert loading_took(100.0, 240.0) == (
        "loading the data took 1 min 40 s of the 4 min 00 s that --max-time gives: a longer one leaves "
        "more for the search"
    )
    assert loading_took(30.0, 240.0) == ""
