"""Sets of fixes timed in turn: which of two that gain alike is taken, and what a proof is predicted to find.

The copy is made up; what is asked of it, and what follows from its times, is the product's.
"""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

import tune_samples as samples
from pgassay.errors import UsageError
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, without
from pgassay.tune.search.paired_timing import (
    PairedTiming,
    predicted_gains,
    prediction_rounds,
    retime_selection,
    shrunk,
)
from pgassay.tune.search.search_run import Clock, SearchRun
from pgassay.tune.search.selection import Baseline, FixSelection, SelectionStep, Tried
from pgassay.tune.tuned_statements import MeasuredStatement, measured

STATEMENTS = measured(
    (TunedStatement(name="list", sql="SELECT 1"), TunedStatement(name="report", sql="SELECT 2"))
)
BASELINE = Baseline(STATEMENTS, {"list": 1.0, "report": 1.0}, {})
PLAIN, PARTIAL = samples.candidate("plain"), samples.candidate("partial")
LATER, OVER = Clock(math.inf, math.inf), Clock(0.0, 0.0)


@dataclass
class Copy:
    """Stands in for the copy of the data: statements take what is written down, times how slow it is now."""

    times: dict[frozenset[str], float]
    slower: Sequence[float] = (1.0,)
    applied: frozenset[str] = frozenset()
    runs: int = 0
    asked: list[str] = field(default_factory=list)
    fails: str = ""
    put_back: int = 0
    once: int = 0
    snapshot: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(bytes=1 << 20))

    def align(self, wanted: Sequence[Candidate], *, anew: bool = False) -> None:
        self.put_back += anew
        self.applied = frozenset(each.id for each in wanted)
        if self.fails in self.applied:
            raise UsageError(f"{self.fails} failed on the copy")

    def seconds(
        self, statement: MeasuredStatement, _sql: str, *, usual_s: float | None = None, once: bool = False
    ) -> float:
        assert usual_s == BASELINE.seconds[statement.name]
        self.asked.append(statement.name)
        self.runs += 1
        assert not once or statement.of.writes
        self.once += once
        return self.times[self.applied] * self.slower[(self.runs - 1) % len(self.slower)]


def run_on(copy: Copy, baseline: Baseline = BASELINE, *, clock: Clock = LATER, **found: object) -> SearchRun:
    return samples.search_run(copy, baseline, clock=clock, **{"candidates": (PLAIN, PARTIAL), **found})


def turns(copy: Copy, sizes: dict[str, int], clock: Clock = LATER, **found: object) -> PairedTiming:
    tried = {name: Tried(name, {"list": 0.1}, bytes=size) for name, size in sizes.items()}
    return PairedTiming(run_on(copy, clock=clock, **found), tried)


def taking(plain: float, partial: float) -> dict[frozenset[str], float]:
    both = min(plain, partial)
    return {
        frozenset(): 1.0,
        frozenset({PLAIN.id}): plain,
        frozenset({PARTIAL.id}): partial,
        frozenset({PLAIN.id, PARTIAL.id}): both,
    }


def test_of_two_that_are_as_fast_the_smaller_one_is_taken() -> None:
    sizes = {PLAIN.id: 900_000, PARTIAL.id: 16_384}
    # Every run takes another time, and none of the two is always faster.
    copy = Copy(taking(0.10, 0.11), slower=(1.0, 1.3, 1.1, 1.0, 1.4, 1.2, 1.0))
    assert turns(copy, sizes).preferred((), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == PARTIAL.id
    # Only what the two touch is timed.
    assert set(copy.asked) == {"list"}


@pytest.mark.parametrize(
    ("sizes", "clock", "why"),
    [
        ({PLAIN.id: 900_000, PARTIAL.id: 800_000}, LATER, "it is hardly smaller"),
        ({PLAIN.id: 0, PARTIAL.id: 0}, LATER, "neither takes space"),
    ],
)
def test_the_first_stays_where_the_other_is_no_cheaper(sizes: dict[str, int], clock: Clock, why: str) -> None:
    copy = Copy(taking(0.10, 0.10))
    names = (PLAIN.id, PARTIAL.id)
    assert turns(copy, sizes, clock).preferred((), names, BASELINE.seconds) == PLAIN.id, why
    assert copy.runs == 0


def test_the_larger_one_is_taken_where_it_is_clearly_faster() -> None:
    sizes = {PLAIN.id: 900_000, PARTIAL.id: 16_384}
    choosing = turns(Copy(taking(0.10, 0.30)), sizes)
    assert choosing.preferred((), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == PLAIN.id
    assert choosing.run.found.alike == {}


@pytest.mark.parametrize(
    ("partial", "size", "taken"),
    [
        (0.11, 90_000, PARTIAL.id),  # a tenth longer, which is one per cent of the workload's second
        (0.11, 100_000, PLAIN.id),  # more than a tenth of the space
        (0.17, 90_000, PLAIN.id),  # it spares less by more than the margin
    ],
)
def test_a_tenth_of_the_space_is_worth_less_than_the_margin_of_the_workload(
    partial: float, size: int, taken: str
) -> None:
    choosing = turns(Copy(taking(0.10, partial)), {PLAIN.id: 900_000, PARTIAL.id: size})
    current = {"list": 1.0, "report": 0.001}
    assert choosing.preferred((), (PLAIN.id, PARTIAL.id), current) == taken
    assert choosing.dearer == ({PLAIN.id: PARTIAL.id} if taken == PARTIAL.id else {})
    if taken == PARTIAL.id:
        # What was passed over for its size is no fix on top of the smaller one either.
        assert choosing.is_gain((PARTIAL.id,), PLAIN.id, current) is False


def test_what_can_not_be_told_apart_is_said_and_the_cheaper_one_is_taken() -> None:
    sizes = {PLAIN.id: 900_000, PARTIAL.id: 16_384}
    choosing = turns(Copy(taking(0.10, 0.10), slower=(1.0, 1.3, 1.1, 1.0, 1.4, 1.2, 1.0)), sizes)
    assert choosing.preferred((), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == PARTIAL.id
    assert choosing.run.found.alike == {PLAIN.id: PARTIAL.id}
    # The cheaper one that is faster as well is no matter of chance.
    faster = turns(Copy(taking(0.30, 0.10)), sizes)
    assert faster.preferred((), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == PARTIAL.id
    assert faster.run.found.alike == {}


@pytest.mark.parametrize(("seconds", "taken"), [(0.105, PARTIAL.id), (0.15, PLAIN.id)])
def test_without_time_for_turns_one_timing_tells_what_is_alike(seconds: float, taken: str) -> None:
    sizes = {PLAIN.id: 900_000, PARTIAL.id: 16_384}
    copy = Copy({})
    choosing = turns(copy, sizes, OVER)
    tried = {**choosing.tried, PARTIAL.id: Tried(PARTIAL.id, {"list": seconds}, bytes=16_384)}
    choosing = replace(choosing, tried=tried)
    assert choosing.preferred((), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == taken
    assert choosing.run.found.alike == ({PLAIN.id: PARTIAL.id} if taken == PARTIAL.id else {})
    # On top of another both may take something else.
    assert choosing.preferred(("other",), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == PLAIN.id
    assert copy.runs == 0


def test_an_index_that_serves_all_values_stands_before_a_smaller_one_for_one_of_many() -> None:
    sizes = {PLAIN.id: 900_000, PARTIAL.id: 16_384}
    one_value = PARTIAL.model_copy(update={"for_one_value": True})
    # Somewhat faster is not enough: what serves all values is worth more.
    for partial, taken in ((0.08, PLAIN.id), (0.03, PARTIAL.id)):
        noisy = Copy(taking(0.10, partial), slower=(1.0, 1.3, 1.1, 1.0, 1.4, 1.2, 1.0))
        choosing = turns(noisy, sizes, candidates=(PLAIN, one_value))
        alone = {"list": 1.0, "report": 0.0}
        assert choosing.preferred((), (PARTIAL.id, PLAIN.id), alone) == taken
    # Never the other way round, however small it is.
    quiet = turns(Copy({}), sizes, candidates=(PLAIN, one_value))
    assert quiet.preferred((), (PLAIN.id, PARTIAL.id), BASELINE.seconds) == PLAIN.id


def test_a_fix_that_does_what_another_does_gains_nothing_on_top_of_it() -> None:
    sizes = {PLAIN.id: 900_000, PARTIAL.id: 16_384}
    noisy = (1.0, 1.3, 1.1, 1.0, 1.4, 1.2, 1.0)
    on_top = turns(Copy(taking(0.10, 0.10), slower=noisy), sizes)
    assert on_top.is_gain((PARTIAL.id,), PLAIN.id, {"list": 0.1, "report": 0.1}) is False
    faster = turns(Copy(taking(0.10, 0.50)), sizes)
    assert faster.is_gain((PARTIAL.id,), PLAIN.id, {"list": 0.5, "report": 0.1}) is True
    assert turns(Copy({}), sizes, OVER).is_gain((PARTIAL.id,), PLAIN.id, BASELINE.seconds) is None


def test_predictions_are_of_the_sets_that_the_proof_compares_whatever_the_machine_does_meanwhile() -> None:
    # The first round is quiet, and from then on everything takes three times as long.
    times = taking(0.2, 0.5)
    times[frozenset({PLAIN.id, PARTIAL.id})] = 0.1
    copy = Copy(times, slower=(*([1.0] * 4), *([3.0] * 1000)))
    rounds = prediction_rounds(run_on(copy), [PLAIN, PARTIAL], {"list"}, time.monotonic() + 60)
    assert set(rounds) == {AS_IT_IS, CHOSEN, without(PLAIN), without(PARTIAL)}
    assert {len(each) for each in rounds.values()} == {6}
    together, each = predicted_gains(
        {name: [s - 1.0 for s in some] for name, some in rounds.items()}, [PLAIN, PARTIAL]
    )
    assert together == pytest.approx(10)
    # Without the one the other is left.
    assert each == {PLAIN.id: pytest.approx(5), PARTIAL.id: pytest.approx(2)}
    alone = prediction_rounds(run_on(copy), [PLAIN], {"list"}, time.monotonic() + 60)
    assert set(alone) == {AS_IT_IS, CHOSEN}
    gain, by_id = predicted_gains(alone, [PLAIN])
    assert by_id == {PLAIN.id: gain}


@pytest.mark.parametrize(
    ("writes", "size", "put_back"), [(True, 1 << 20, 12), (True, 1 << 40, 0), (False, 1 << 20, 0)]
)
def test_what_writes_is_predicted_on_data_that_were_put_back_as_in_a_trial(
    writes: bool, size: int, put_back: int
) -> None:
    """Executed again it would find the room and the split pages that its first time has left."""
    place = measured((TunedStatement(name="list", sql="INSERT INTO t VALUES (1)", writes=writes),))
    baseline = Baseline(place, {"list": 1.0}, {})
    copy = Copy(taking(0.5, 0.5), snapshot=SimpleNamespace(bytes=size))
    rounds = prediction_rounds(run_on(copy, baseline), [PLAIN], {"list"}, time.monotonic() + 60)
    assert (copy.put_back, copy.once) == (put_back, put_back)
    together, _ = predicted_gains(rounds, [PLAIN])
    assert together == pytest.approx(2.0)


def test_a_prediction_is_shrunk_as_far_as_its_rounds_differ() -> None:
    assert shrunk([math.log(2)] * 6) == pytest.approx(math.log(2))
    assert shrunk([math.log(2)]) == pytest.approx(math.log(2))
    assert shrunk([0.0, 0.0]) == 0
    noisy = [0.82, 0.89, 1.35, 0.70, -0.46, -0.25]
    assert 0.2 < shrunk(noisy) < 0.7 < 0.76 == statistics.median(noisy)
    assert shrunk([1.0, -0.9, 0.1, 0.2]) == 0


@pytest.mark.parametrize(("noise", "share"), [(0.05, 1.1), (0.2, 1.0), (0.5, 0.8)])
def test_of_what_is_chosen_shrunk_predictions_are_nearer_where_rounds_are_noisy_and_hardly_farther_else(
    noise: float, share: float
) -> None:
    """2000 fixes whose gains are spread around none, six rounds each; what seems to gain 3 % is chosen."""
    random = np.random.default_rng(7)
    median, nearer = [], []
    for gain in np.exp(0.2 * random.standard_normal(2000)):
        rounds = math.log(gain) + noise * random.standard_normal(6)
        rounds += np.where(random.random(6) < 0.1, random.choice([-0.7, 0.7], 6), 0)
        found = statistics.median(rounds)
        if math.exp(found) >= 1.03:
            median.append(abs(math.exp(found) - gain))
            nearer.append(abs(math.exp(shrunk(list(rounds))) - gain))
    assert np.mean(nearer) <= share * np.mean(median)


def retimed(times: dict[frozenset[str], float]) -> tuple[FixSelection, dict[str, Tried]]:
    tried = {each.id: Tried(each.id, {"list": 0.5}) for each in (PLAIN, PARTIAL)}
    chosen = FixSelection((SelectionStep(PLAIN.id, 1.5, {}), SelectionStep(PARTIAL.id, 1.4, {})))
    run = run_on(Copy(times), tried=tried, selection=chosen)
    retime_selection(run, time.monotonic() + 60)
    found = run.found
    assert set(found.rounds) == ({AS_IT_IS, CHOSEN} if found.selection.ids else set())
    return found.selection, found.tried


def test_of_two_that_do_the_same_one_stays_in_the_set_that_is_proved() -> None:
    selection, tried = retimed(taking(0.1, 0.1001))
    assert len(selection.ids) == 1
    (left,) = {PLAIN.id, PARTIAL.id} - set(selection.ids)
    assert selection.beside[left] == pytest.approx(1.0, abs=0.01)
    # Alone it helps, as it was tried.
    assert tried[left].gain_again is None
    assert tried[left].gain(BASELINE.weights, BASELINE.seconds) == pytest.approx(2 / 1.5)


def test_what_was_chosen_by_luck_is_no_help_once_it_is_timed_anew() -> None:
    selection, tried = retimed(taking(1.0, 1.0))
    assert selection.ids == ()
    # The whole set gained nothing: neither hid the other's gain.
    assert [each.gain(BASELINE.weights, BASELINE.seconds) for each in tried.values()] == [1.0, 1.0]


def test_what_was_stopped_with_a_member_alone_is_timed_with_the_set_that_is_proved() -> None:
    """The proof measures it, so that what is predicted must not leave it out."""
    copy, alone = Copy(taking(0.1, 0.1)), Tried(PLAIN.id, {"list": 0.5}, stopped=("report",))
    selection = FixSelection((SelectionStep(PLAIN.id, 1.5, {}),))
    retime_selection(run_on(copy, tried={PLAIN.id: alone}, selection=selection), time.monotonic() + 60)
    assert set(copy.asked) == {"list", "report"}


def test_without_time_or_where_a_set_fails_nothing_is_predicted_by_rounds() -> None:
    ended = time.monotonic() - 1
    assert prediction_rounds(run_on(Copy({})), [PLAIN], {"list"}, ended) == {}
    broken = Copy(taking(0.1, 0.1), fails=PLAIN.id)
    assert prediction_rounds(run_on(broken), [PLAIN], {"list"}, ended + 60) == {}
