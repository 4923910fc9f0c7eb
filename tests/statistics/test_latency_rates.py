"""`--metric p99`: false directions, with latencies that follow each other and have heavy tails.

Whole experiments by the product's plan, schedule and verdicts; a trial is one figure of 2000 transactions.
"""

import math
from functools import partial

import numpy as np
import pytest

from pgassay.analysis.verdicts.blocks import contract_measure
from pgassay.design.schedule import next_step
from pgassay.model.experiment import Experiment
from pgassay.model.trial import LoadObservation, TrialRecord, TrialSpec
from simulated_latencies import KINDS, TRANSACTIONS, Latencies
from whole_experiments import TEMPLATE, Ended, planned, run_whole

ALPHA, BLOCKS = 0.05, 24
RUNS = [40, pytest.param(2000, marks=pytest.mark.slow)]
# In the default run one kind of each sort; the others with the slow tests.
FEW = [KINDS[1], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != KINDS[1])]


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
