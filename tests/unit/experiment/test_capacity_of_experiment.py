"""`--metric throughput-at`: a whole experiment whose trials keep their bound up to a known rate."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from pgassay.analysis.capacity.arm_capacity import (
    COMMON_EVERY,
    alpha_of_arm,
    are_known,
    arm_capacities,
    capacity_sentences,
    keeps,
)
from pgassay.analysis.verdicts.blocks import complete_blocks, contract_measure
from pgassay.analysis.verdicts.compare import analyse, decided, interim_result
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.running.capacity_rates import search_range, step_after
from pgassay.experiment.running.stopping_rules import decided_arms
from pgassay.model.result import CompareResult
from pgassay.model.trial import LoadObservation, OpenLoop, TrialRecord, TrialSpec
from pgassay.model.workload import Metric
from pgassay.progress import NullProgress
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report import schema
from pgassay.report.page import json_text
from pgassay.workloads.metric import metric_of
from pgassay.workloads.registry import parse_workload
from whole_experiments import NOWHERE, TEMPLATE, planned

METRIC = "throughput-at:p99<20ms"
# What each arm holds, transactions a second.
TRUE = {"work_mem=1MB": 1000.0, "work_mem=2MB": 1400.0}


def test_the_metric_is_read_with_its_bound() -> None:
    tpcb = parse_workload("tpcb")
    metric = metric_of(METRIC, tpcb, [tpcb.load])
    assert (metric.latency, metric.bound_ms, metric.better) == ("p99", 20.0, "lower")
    assert metric_of(" Throughput-at:mean<=1s", tpcb, [tpcb.load]).bound_ms == 1000.0
    assert metric_of("p99", tpcb, [tpcb.load]).bound_ms == 0.0


@pytest.mark.parametrize(
    ("text", "workload", "sentence"),
    [
        ("throughput-at", "tpcb", "write a latency and its limit"),
        ("throughput-at:p98<20ms", "tpcb", "write a latency"),
        ("throughput-at:p99<soon", "tpcb", "not a duration"),
        ("throughput-at:p99<20", "tpcb", "'20' has no unit: write 20ms, or 20s for seconds"),
        (METRIC, "tpcb:rate=100", "leave rate=100 out"),
        (METRIC, "full-scan", "is for a load"),
        (METRIC, "sysbench:micro", "name one of its scripts"),
        ("throughput_at", "tpcb", "throughput-at:p99<20ms"),
    ],
)
def test_what_has_no_rate_to_look_for_is_refused(text: str, workload: str, sentence: str) -> None:
    parsed = parse_workload(workload)
    with pytest.raises(UsageError, match=sentence):
        metric_of(text, parsed, [parsed.load])


def observed(p99_ms: float, *, rate: float = 500.0, queue: int = 0) -> LoadObservation:
    """A trial of ten seconds with this figure, and so many transactions never begun."""
    scheduled = round(rate * 10)
    return LoadObservation(
        transactions=scheduled - queue,
        elapsed_s=10.0,
        errors=0,
        client_cpu_s=0.0,
        latency_ms={"p99": p99_ms, "mean": p99_ms / 4},
        open_loop=OpenLoop(scheduled=scheduled, done=scheduled - queue, failed=0, skipped=0, queued=queue),
    )


def test_a_growing_queue_breaks_the_bound_whatever_the_figure() -> None:
    metric = Metric(name="p99", unit="ms", better="lower", latency="p99", bound_ms=20.0)
    assert keeps(observed(20.0), metric) and not keeps(observed(20.1), metric)
    assert not keeps(observed(5.0, queue=1000), metric)


def failing(share: float) -> LoadObservation:
    """A trial that is fast as far as its transactions did not fail."""
    load = observed(5.0)
    assert load.open_loop is not None
    failed = round(share * load.open_loop.scheduled)
    opened = load.open_loop.model_copy(update={"failed": failed, "done": load.open_loop.done - failed})
    return load.model_copy(update={"open_loop": opened, "transactions": load.transactions - failed})


def test_a_rate_at_which_transactions_fail_is_not_kept() -> None:
    metric = Metric(name="p99", unit="ms", better="lower", latency="p99", bound_ms=20.0)
    assert keeps(failing(0.0), metric) and keeps(failing(0.01), metric)
    assert not keeps(failing(0.02), metric)
    # Where none ended well the record has zeros.
    mean = metric.model_copy(update={"latency": "mean"})
    nothing = failing(1.0).model_copy(update={"latency_ms": {"p99": 0.0, "mean": 0.0}})
    assert not keeps(nothing, mean)
    # A percentile of a handful is none.
    assert not keeps(observed(5.0, rate=50.0), metric)


class Machine:
    """Trials that are drawn: p99 is 20 ms where the rate is the trial's own capacity."""

    def __init__(self, seed: int, spread: float = 0.03):
        self.random, self.spread = np.random.default_rng(seed), spread

    def __call__(self, spec: TrialSpec, _folder: Path = NOWHERE) -> tuple[Path, TrialRecord]:
        load = spec.arm.spec.workload.load
        assert load is not None
        own = TRUE[spec.arm.name] * math.exp(self.spread * float(self.random.standard_normal()))
        if load.pace is None:
            done = observed(100.0, rate=own * 1.2).model_copy(update={"open_loop": None})
        else:
            rate = load.pace.rates[0][1]
            done = observed(20.0 * (rate / own) ** 4, rate=rate)
        update = {
            "number": spec.number,
            "attempt": spec.attempt,
            "block": spec.block,
            "position": spec.position,
            "arm_id": spec.arm.id,
            "status": "ok",
            "load": done,
        }
        return NOWHERE, TEMPLATE.model_copy(update=update)


def documented(result: CompareResult) -> dict[str, Any]:
    """What --json prints, which is as its schema says."""
    document: dict[str, Any] = json.loads(json_text(result))
    jsonschema.validate(document, schema.COMPARE.schema(), cls=jsonschema.Draft202012Validator)
    return document


def begun(seed: int) -> StoredExperiment:
    """An experiment before its first trial, with the range of its rates."""
    experiment = planned("work_mem=1MB,2MB", seed=seed, blocks=60, metric=METRIC)
    rates = search_range(experiment, Machine(seed), NullProgress())
    design = experiment.design.model_copy(update={"rates": rates, "decided_rest": False})
    return StoredExperiment(NOWHERE, experiment.model_copy(update={"design": design}), ())


def run(stored: StoredExperiment, machine: Machine, blocks: int) -> StoredExperiment:
    """So many further blocks, as the loop runs them."""
    ends = len(stored.block_plans) + blocks
    while True:
        step = step_after(stored, frozenset())
        if step.begins_block and step.plan.block >= ends:
            return stored
        plans = {**stored.block_plans, step.plan.block: step.plan}
        path, record = machine(step.spec)
        stored = replace(stored, block_plans=plans, trials=(*stored.trials, StoredTrial(record, {}, path)))


def test_an_experiment_finds_what_both_arms_hold_and_says_it_first() -> None:
    stored = begun(7)
    rates = stored.experiment.design.rates
    # The percentile takes 2,000 transactions of a trial of ten seconds, and somewhat more.
    assert rates[""][0] == pytest.approx(240) and 2000 < rates[""][1] < 3200
    assert alpha_of_arm(stored.experiment) == 0.025
    machine = Machine(8)
    stored = run(stored, machine, 6)
    # The rate of a block is written down before its first trial.
    assert all(plan.rate > 0 for plan in stored.block_plans.values())
    assert not interim_result(stored).decided and not decided_arms(stored, interim_result(stored))
    while not interim_result(stored).decided:
        stored = run(stored, machine, 4)
        assert len(stored.block_plans) <= 50
    result = analyse(stored)
    assert decided(result) and are_known(result.capacities)
    control, arm = result.capacities
    assert (control.trials, arm.trials) == (2 * result.blocks, result.blocks)
    for each in result.capacities:
        lower, upper = each.interval
        assert upper is not None and lower <= TRUE[each.arm] <= upper and upper / lower <= 1.15**2 + 1e-9
    assert arm.ratio_interval is not None and arm.ratio_interval[1] is not None
    assert 1 < arm.ratio_interval[0] <= 1.4 <= arm.ratio_interval[1]
    said = result.verdict.splitlines()[0]
    assert said.startswith("work_mem=1MB sustains ") and "transactions a second with p99 under 20 ms" in said
    assert "×" in said and "hold its rate" not in result.verdict
    shown = documented(result)["capacities"]
    assert [each["arm"] for each in shown] == list(TRUE)
    # Asking again after a stop gives the same next rate.
    assert step_after(stored, frozenset()).plan == step_after(stored, frozenset()).plan


def test_arms_far_apart_have_rates_of_their_own_but_in_each_third_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TRUE, "work_mem=2MB", 3000.0)
    stored = run(begun(15), Machine(16), 30)
    plans = stored.block_plans.values()
    own = [plan for plan in plans if plan.rates]
    assert len(own) > 10 and all(plan.block % COMMON_EVERY for plan in own)
    control, arm, twin = (
        next(each.id for each in stored.experiment.arms if each.role == role)
        for role in ("control", "arm", "twin")
    )
    for plan in own:
        assert plan.rate_of(control) == plan.rate_of(twin) != plan.rate_of(arm)
    for trial in stored.trials:
        assert trial.record.load is not None and trial.record.load.open_loop is not None
        scheduled = trial.record.load.open_loop.scheduled
        assert scheduled == round(stored.block_plans[trial.record.block].rate_of(trial.record.arm_id) * 10)
    table = complete_blocks(stored, contract_measure(stored.experiment.contract))
    compared = [number for number, row in zip(table.numbers, table.rows, strict=True) if arm in row]
    assert compared == [plan.block for plan in plans if not plan.rates]
    assert all({control, twin} <= row.keys() for row in table.rows)
    for each in arm_capacities(stored):
        lower, upper = each.interval
        # At rates in common alone they were 2 to 4 × as wide after as many blocks.
        assert upper is not None and lower <= TRUE[each.arm] <= upper <= 1.6 * lower
    assert "no interval yet" not in analyse(stored).verdict


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (0, "perhaps 477 (all 7 trials broke the bound, no interval yet)"),
        (7, "perhaps 477 (all 7 trials kept the bound, no interval yet)"),
        (3, "about 477 (no interval yet)"),
    ],
)
def test_a_rate_beyond_all_trials_is_told_as_a_guess(kept: int, said: str) -> None:
    result = analyse(run(begun(3), Machine(8), 1))
    unbounded = {"rate": 477.0, "interval": (0.0, None), "trials": 7, "kept": kept}
    found = tuple(each.model_copy(update=unbounded) for each in result.capacities)
    sentence = capacity_sentences(result.model_copy(update={"capacities": found}))[0]
    assert sentence.count(said) == 2


def test_nothing_is_claimed_before_there_are_trials() -> None:
    stored = begun(3)
    first = arm_capacities(stored)
    assert [each.interval for each in first] == [(0.0, None)] * 2
    assert documented(analyse(begun(3)))["capacities"][1]["ratio_interval"] == [0.0, None]
    assert not are_known(first) and not are_known(())


def test_trials_too_short_for_the_percentile_are_refused_with_their_length() -> None:
    experiment = planned("work_mem=1MB,2MB", seed=1, metric="throughput-at:p99.99<20ms")
    with pytest.raises(MeasurementError, match=r"write duration=\d+s, or a lower percentile"):
        search_range(experiment, Machine(1), NullProgress())
