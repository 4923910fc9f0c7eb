"""`--metric p99`: false directions, with latencies that follow each other and have heavy tails.

Whole experiments by the product's plan, schedule and verdicts; a trial is one figure of 2000 transactions.
"""

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from scipy.signal import lfilter

from pgassay.analysis.verdicts.blocks import contract_measure
from pgassay.design.schedule import next_step
from pgassay.model.experiment import Experiment
from pgassay.model.trial import LoadObservation, TrialRecord, TrialSpec, TrialStatus
from whole_experiments import TEMPLATE, Ended, planned, run_whole

TRANSACTIONS = 2000
# How much of a transaction's level the next one has, and by how much that level moves.
STAY, MOVES = 0.98, 0.12
KINDS = ("smooth", "stalls", "drift", "backlog")
ALPHA, BLOCKS = 0.05, 24
RUNS = [40, pytest.param(2000, marks=pytest.mark.slow)]
# In the default run one kind of each sort; the others with the slow tests.
FEW = [KINDS[1], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != KINDS[1])]


@dataclass
class Latencies:
    """Latencies of one experiment's trials, in the order in which they are asked for.

    Each is exponential around a level that moves slowly. `kind`: with "stalls" a trial has a few stretches
    in which transactions wait for one thing, for times with a Pareto tail of index 1.5; with "drift" trials
    that follow each other are alike as well, by 0.9; with "backlog" a tenth of the trials, of whichever arm,
    can't hold their rate, so that each transaction waits longer than the one before. `effects`: log
    ratios of the speeds of arms by name.
    """

    kind: str
    random: np.random.Generator
    percentile: float = 99.0
    transactions: int = TRANSACTIONS
    effects: dict[str, float] = field(default_factory=dict)
    _level: float = 0.0

    def trial(self, spec: TrialSpec, _data: str, _copy: int) -> tuple[TrialStatus, float]:
        """What the next trial ends as, and the log of its speed: minus that of its percentile."""
        slower = -self.effects.get(spec.arm.name, 0.0)
        return "ok", -slower - float(np.log(np.percentile(self.latencies_ms(), self.percentile)))

    def latencies_ms(self) -> np.ndarray:
        """Those of one trial, in the order in which its transactions began."""
        count, random = self.transactions, self.random
        moved = lfilter([1.0], [1.0, -STAY], MOVES * random.standard_normal(count))
        found = random.exponential(size=count) * np.exp(moved)
        if self.kind == "stalls":
            for _ in range(random.poisson(2.0)):
                length, first = int(random.integers(5, 60)), int(random.integers(0, count))
                waits = 5.0 * (1.0 + random.pareto(1.5)) * np.linspace(1.0, 0.0, length)
                stretch = found[first : first + length]
                stretch += waits[: len(stretch)]
        if self.kind == "drift":
            self._level = 0.9 * self._level + np.sqrt(0.19) * 0.2 * float(random.standard_normal())
            found *= np.exp(self._level)
        if self.kind == "backlog" and random.random() < 0.1:
            found += np.linspace(0.0, 1000.0 * float(random.random()), count)
        return np.asarray(found)


def allowed(runs: int) -> float:
    """The rate of errors that is accepted of so many experiments."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def record_of(latency: str, spec: TrialSpec, status: str, log_speed: float) -> TrialRecord:
    """A trial with this figure of its latencies."""
    load = LoadObservation(
        transactions=TRANSACTIONS,
        elapsed_s=10.0,
        errors=0,
        client_cpu_s=0.0,
        latency_ms={latency: math.exp(-log_speed)},
    )
    return TEMPLATE.model_copy(
        update={
            "number": spec.number,
            "attempt": spec.attempt,
            "block": spec.block,
            "position": spec.position,
            "arm_id": spec.arm.id,
            "status": status,
            "load": load,
        }
    )


def ran(run: int, kind: str, *, metric: str = "p99", effect: float = 0.0, blocks: int = BLOCKS) -> Ended:
    """One experiment of two arms at the same rate."""
    experiment = planned("work_mem=1MB,2MB", seed=run, blocks=blocks, metric=metric)
    source = Latencies(
        kind,
        np.random.default_rng([36, run]),
        float(metric.removeprefix("p")),
        effects={"work_mem=2MB": effect},
    )
    made = partial(record_of, metric)
    return run_whole(experiment, source, record_of=made, for_directions=True)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", FEW)
def test_an_equal_arm_is_seldom_given_a_direction(kind: str, runs: int) -> None:
    wrong = sum(bool(ran(run, kind).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["p50", "p95"])
def test_nor_by_other_percentiles(metric: str) -> None:
    wrong = sum(bool(ran(run, "stalls", metric=metric).directions()) for run in range(2000))
    assert wrong / 2000 <= allowed(2000)


def test_an_arm_whose_tail_is_half_as_long_is_found() -> None:
    """So these simulations can find something: the spread of log p99 is about 0.3 here."""
    found = sum(bool(ran(run, "smooth", effect=math.log(2)).directions()) for run in range(20))
    assert found >= 16


def test_transactions_as_units_would_mislead() -> None:
    """Why the trial is the unit: two halves of the transactions of equal trials differ by far too much."""
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(100):
        first, second = (Latencies("smooth", random).latencies_ms() for _ in range(2))
        beyond = np.percentile(np.concatenate((first, second)), 95)
        counts = [(each > beyond).sum() for each in (first, second)]
        # Were they independent, a difference of two such counts would have this variance.
        wrong += abs(counts[0] - counts[1]) > 1.96 * math.sqrt(sum(counts))
    assert wrong / 100 > 0.5


def test_the_measure_is_the_trial_s_own_percentile() -> None:
    experiment = planned("work_mem=1MB,2MB", seed=1, metric="p99")
    measure = contract_measure(experiment.contract)
    made = record_of("p99", _spec(experiment), "ok", -math.log(12.5))
    assert measure.value(made) == pytest.approx(12.5)
    assert measure.log_value(made) == pytest.approx(-math.log(12.5))
    few = made.model_copy(update={"load": made.load and made.load.model_copy(update={"transactions": 999})})
    assert measure.value(few) is None


def _spec(experiment: Experiment) -> TrialSpec:
    return next_step(experiment, ()).spec
