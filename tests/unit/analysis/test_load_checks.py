"""Whether a load held its rate, and whether the client was its limit."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from analysis_samples import experiment
from pgassay.analysis.gate.detector import DetectorState, rule_of
from pgassay.analysis.gate.units import judge_units
from pgassay.analysis.verdicts.checks.load_checks import _asleep, _scattered, client_share, holds_rate
from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.warnings import _unsettled
from pgassay.model.gates.gate import GateUnit
from pgassay.model.storage import VolumeFacts
from pgassay.model.trial import LoadObservation, OpenLoop, TrialRecord, TrialSpec
from pgassay.model.workload import Metric, ReplayOptions
from pgassay.record.experiment import StoredExperiment
from simulated_worlds import World
from whole_experiments import TEMPLATE, Ended, planned, run_whole


def load(**changes: object) -> LoadObservation:
    usual = {"transactions": 2000, "elapsed_s": 10.0, "errors": 0, "client_cpu_s": 0.4, "threads": 1}
    usual |= {"client_idle_s": 9.5, "latency_ms": {"p99": 4.0}, "own_delay_ms": {"p99": 0.1}}
    return LoadObservation.model_validate(usual | changes)


def opened(
    queue: tuple[int, ...], *, scheduled: int = 2000, queued: int = 0, skipped: int = 0
) -> LoadObservation:
    done = scheduled - queued - skipped
    balance = OpenLoop(
        scheduled=scheduled, done=done, failed=0, skipped=skipped, queued=queued, per_second_queue=queue
    )
    return load(transactions=done, open_loop=balance)


@pytest.mark.parametrize(
    ("queue", "held"),
    [
        ((0,) * 10, True),
        # What chance leaves, and a stall in the middle that was worked off.
        ((0, 3, 1, 0, 2, 0, 1, 0, 4, 2), True),
        ((0, 0, 0, 600, 900, 500, 100, 0, 0, 0), True),
        # A queue that stays as long as it is was made by a stall, not by the rate.
        ((0, 0, 500, 500, 500, 500, 500, 500, 500, 500), True),
        (tuple(range(100, 1100, 100)), False),
        ((0, 0, 0, 0, 0, 100, 250, 400, 600, 800), False),
    ],
)
def test_a_queue_that_grows_is_a_rate_that_is_not_held(queue: tuple[int, ...], held: bool) -> None:
    assert holds_rate(opened(queue)) is held


@pytest.mark.parametrize("ended_s", [None, 4.0])
def test_a_load_that_burst_credits_slowed_down_is_not_told_to_warm_up_longer(ended_s: float | None) -> None:
    slowed = load(per_second=(300,) * 5 + (30,) * 5)
    trials = [
        SimpleNamespace(load=slowed, facts=SimpleNamespace(volume=VolumeFacts(credits_ended_s=ended_s)))
    ]
    plan = experiment()
    valid = {arm.id: trials * 4 for arm in plan.arms}
    study = SimpleNamespace(experiment=plan, table=SimpleNamespace(valid=valid))
    said = _unsettled(cast("Study", study))
    assert bool(said) is (ended_s is None)
    assert all("never became steady" in each and "longer warm-up" in each for each in said)


def test_what_is_never_begun_was_not_held_and_a_closed_loop_has_no_rate() -> None:
    assert not holds_rate(opened((0,) * 10, queued=500))
    assert not holds_rate(opened((0,) * 10, skipped=500))
    assert holds_rate(opened((0,) * 10, queued=3))
    assert holds_rate(load())


def test_the_client_s_share_is_the_lesser_of_its_two_clocks() -> None:
    assert client_share(load()).busy == pytest.approx(0.04)
    # It polled all the time: CPU time without work. It waited for a processor: no idle time without work.
    assert client_share(load(client_cpu_s=10.0)).busy == pytest.approx(0.05)
    assert client_share(load(client_idle_s=0.0)).busy == pytest.approx(0.04)
    assert client_share(load(client_idle_s=0.1, client_cpu_s=9.9)).is_limit
    assert client_share(load(), "p99").delay == pytest.approx(0.025)
    assert client_share(load(own_delay_ms={"p99": 3.0}), "p99").is_limit
    before = LoadObservation(transactions=1, elapsed_s=1.0, errors=0, client_cpu_s=1.0)
    assert not client_share(before, "p99").is_limit


def record(make: object, spec: TrialSpec, status: str, log_speed: float) -> TrialRecord:
    found = make(spec.arm.name, math.exp(-log_speed))  # type: ignore[operator]
    fields = {"number": spec.number, "attempt": spec.attempt, "block": spec.block, "position": spec.position}
    return TEMPLATE.model_copy(update=fields | {"arm_id": spec.arm.id, "status": status, "load": found})


def ran(make: object) -> Ended:
    experiment = planned("work_mem=1MB,2MB", seed=3, blocks=12, workload="tpcb:rate=200", metric="p99")
    source = World("normal", 0.05, np.random.default_rng(5), effects={"work_mem=2MB": math.log(3)})
    return run_whole(experiment, source, record_of=partial(record, make), look_at_each=True)


def test_a_clear_difference_is_told_in_the_words_of_the_metric() -> None:
    result = ran(lambda _name, ms: load(latency_ms={"p99": ms})).result()
    assert "as fast as work_mem=1MB in p99 latency" in result.verdict
    assert result.metric.latency == "p99"
    assert "\n" not in result.verdict.strip()


def test_an_arm_that_does_not_hold_its_rate_says_so_beside_its_verdict() -> None:
    def make(name: str, ms: float) -> LoadObservation:
        if name == "work_mem=1MB":
            return opened(tuple(range(80, 880, 80)), queued=400).model_copy(
                update={"latency_ms": {"p99": ms}}
            )
        return load(latency_ms={"p99": ms}, open_loop=opened((0,) * 10).open_loop)

    result = ran(make).result()
    (line,) = [each for each in result.verdict.splitlines() if "did not hold" in each]
    assert line.startswith("work_mem=1MB did not hold its rate in ")
    assert "200 transactions a second were due and 160 done, 400 never began" in line
    assert any("did not hold its rate" in warning for warning in result.warnings)


def test_what_is_the_client_s_is_no_verdict_on_the_server() -> None:
    bound = ran(lambda _name, ms: load(latency_ms={"p99": ms}, client_idle_s=0.2, client_cpu_s=9.9)).result()
    (arm,) = [arm for arm in bound.arms if arm.verdict != "control"]
    assert (arm.verdict, arm.withheld) == ("inconclusive", True)
    assert "the load generator was busy for 98 % of the time" in bound.verdict
    delayed = ran(lambda _name, ms: load(latency_ms={"p99": ms}, own_delay_ms={"p99": ms * 0.8})).result()
    assert "80 % of this latency is the load generator's own delay" in delayed.verdict


@pytest.mark.parametrize(("own_ms", "is_told"), [(0.3, True), (0.05, False)])
def test_what_a_waiting_client_takes_of_a_throughput_is_told(own_ms: float, is_told: bool) -> None:
    """In a closed loop the throughput follows from the mean latency, of which this is the client's."""
    experiment = planned("work_mem=1MB,2MB", seed=3, blocks=6, workload="tpcb")
    source = World("normal", 0.05, np.random.default_rng(5))

    def make(_name: str, ms: float) -> LoadObservation:
        return load(latency_ms={"mean": ms}, own_delay_ms={"mean": own_ms * ms})

    result = run_whole(experiment, source, record_of=partial(record, make)).result()
    assert any("30 % of the mean latency" in each for each in result.warnings) is is_told
    assert any("and so of its throughput," in each for each in result.warnings) is is_told


BOUND = {"client_idle_s": 0.2, "client_cpu_s": 9.9}


@pytest.mark.parametrize(
    ("workload", "mean_ms", "is_told"),
    [
        ("select-only:clients=1", 0.066, True),
        ("select-only:clients=2", 0.066, False),
        ("select-only:clients=1", 0.66, False),
        ("select-only:clients=1,rate=200", 0.066, False),
        ("select-only:clients=1,think=1ms", 0.066, False),
    ],
)
def test_few_clients_with_short_transactions_let_processors_sleep(
    workload: str, mean_ms: float, is_told: bool
) -> None:
    experiment = planned("work_mem=1MB,2MB", seed=3, blocks=6, workload=workload)
    machine = experiment.environment.machine.model_copy(update={"cores_online": 2})
    environment = experiment.environment.model_copy(update={"machine": machine})

    def make(_name: str, ms: float) -> LoadObservation:
        return load(latency_ms={"mean": ms * mean_ms})

    source = World("normal", 0.05, np.random.default_rng(5))
    ended = run_whole(
        experiment.model_copy(update={"environment": environment}), source, record_of=partial(record, make)
    )
    warned = [each for each in ended.result().warnings if "sleeps between two messages" in each]
    assert len(warned) == is_told
    if warned:
        assert "clients=4 or longer transactions" in warned[0]


def test_a_replay_has_the_sessions_that_were_captured_and_can_have_no_more() -> None:
    made = planned("work_mem=1MB,2MB", seed=3, blocks=6, workload="select-only:clients=1")
    machine = made.environment.machine.model_copy(update={"cores_online": 2})
    environment = made.environment.model_copy(update={"machine": machine})
    source = World("normal", 0.05, np.random.default_rng(5))
    short = partial(record, lambda *_: load(latency_ms={"mean": 0.066}))
    ended = run_whole(made.model_copy(update={"environment": environment}), source, record_of=short)
    study = gather_study(ended.stored)
    assert _asleep(study)
    whole = {"folder": "/capture", "database": "shop", "identity": "one"}
    replay = ReplayOptions(**whole, statements=1, seconds_captured=1.0)
    arms = []
    for arm in study.experiment.arms:
        assert arm.spec.workload.load is not None
        played = arm.spec.workload.load.model_copy(update={"replay": replay})
        workload = arm.spec.workload.model_copy(update={"load": played})
        arms.append(arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": workload})}))
    assert not _asleep(replace(study, experiment=study.experiment.model_copy(update={"arms": tuple(arms)})))


def ran_to_the_end(make: object, *factors: str) -> Ended:
    experiment = planned(*factors, seed=3, blocks=16, workload="tpcb:rate=200", metric="p99")
    design = experiment.design.model_copy(update={"decided_rest": False})
    experiment = experiment.model_copy(update={"design": design})
    source = World("normal", 0.005, np.random.default_rng(5))
    return run_whole(experiment, source, record_of=partial(record, make), until_decided=False)


def test_what_is_the_client_s_is_no_effect_of_a_factor_either() -> None:
    """Of 2MB the load generator is the limit, so that io_method can't matter there."""

    def make(name: str, ms: float) -> LoadObservation:
        return load(latency_ms={"p99": ms}, **(BOUND if "work_mem=2MB" in name else {}))

    effects = ran_to_the_end(make, "io_method=sync,worker", "work_mem=1MB,2MB").result().effects
    assert effects is not None
    assert [(each.verdict, each.withheld) for each in effects.main] == [("inconclusive", True)] * 2
    assert all("measures the client" in each.note for each in effects.main)
    assert all(size.at_most is None for size in effects.ranking)
    at = {each.at["work_mem"]: each.verdict for each in effects.at if each.factor == "io_method"}
    assert at == {"1MB": "equivalent", "2MB": "inconclusive"}


def test_a_gate_that_measures_the_client_is_undecided() -> None:
    def gated(**changes: float) -> GateUnit:
        ended = ran_to_the_end(lambda _name, ms: load(latency_ms={"p99": ms}, **changes), "work_mem=1MB,2MB")
        (unit,) = judge_units("orders", gather_study(ended.stored), rule_of(1), lambda _: DetectorState())
        return unit

    assert gated().finding == "excluded"
    unit = gated(**BOUND)
    assert unit.finding == "undecided"
    assert unit.note.startswith("the load generator was busy for 98 % of the time")


def test_a_part_that_is_the_client_s_is_told() -> None:
    result = ran(lambda _name, ms: load(latency_ms={"p99": ms}, own_delay_ms={"p99": ms * 0.1})).result()
    assert any("Up to 10 % of the p99 latency" in warning for warning in result.warnings)
    (arm,) = [arm for arm in result.arms if arm.verdict != "control"]
    assert arm.verdict == "faster"


def test_other_percentiles_are_secondary_metrics_in_words_of_an_amount() -> None:
    def make(_name: str, ms: float) -> LoadObservation:
        return load(latency_ms={"p50": ms / 4, "p95": ms / 2, "p99": ms}, transactions=40_000)

    result = ran(make).result()
    names = [each.name for each in result.secondary]
    assert names == ["p50 latency", "p95 latency"]
    (arm,) = [arm for arm in result.secondary[0].arms if arm.verdict != "control"]
    assert arm.verdict == "less"
    assert arm.note.startswith("work_mem=2MB has ") and "less p50 latency than work_mem=1MB" in arm.note


def with_failed_first_attempt(ended: Ended, arm: str, block: int) -> StoredExperiment:
    """The same with a first attempt of the arm that failed in this block."""
    ids = {each.id for each in ended.stored.experiment.arms if each.role != "twin" and each.name == arm}
    trials = []
    for trial in ended.stored.trials:
        if trial.record.arm_id in ids and trial.record.block == block:
            lost = {"status": "invalid", "reason": "the server ended", "load": None}
            trials.append(replace(trial, record=trial.record.model_copy(update=lost)))
            trial = replace(trial, record=trial.record.model_copy(update={"attempt": 2}))
        trials.append(trial)
    return replace(ended.stored, trials=tuple(trials))


def test_failed_trials_count_as_the_highest_of_other_percentiles_too() -> None:
    def make(_name: str, ms: float) -> LoadObservation:
        return load(latency_ms={"p50": ms / 4, "p95": ms / 2, "p99": ms}, transactions=40_000)

    ended = ran(make)
    failing = analyse(with_failed_first_attempt(ended, "work_mem=2MB", 2))
    (primary,) = [arm for arm in failing.arms if arm.verdict != "control"]
    (median,) = [arm for arm in failing.secondary[0].arms if arm.verdict != "control"]
    assert (primary.verdict, primary.withheld) == ("inconclusive", True)
    assert (median.verdict, median.withheld) == ("inconclusive", True)
    assert median.note == "less p50 latency only if the 1 failed first attempt of work_mem=2MB is left out"
    # Those of the control would only make the difference larger.
    (kept,) = [
        arm
        for arm in analyse(with_failed_first_attempt(ended, "work_mem=1MB", 2)).secondary[0].arms
        if arm.verdict != "control"
    ]
    assert kept.verdict == "less"


def test_a_stratum_without_a_complete_block_has_no_spread() -> None:
    """Its arms were dropped since their trials fail; the others go on."""
    level = np.array([[math.nan, value] for value in (0.0, 0.4, 0.1, 0.5)])
    arms = tuple(
        SimpleNamespace(id=name, role="control", stratum=name) for name in ("clients=500", "clients=5")
    )
    contract = SimpleNamespace(metric=Metric(name="p99", unit="ms", better="lower", latency="p99"))
    plan = SimpleNamespace(arms=arms, contract=contract)

    def said(logs: np.ndarray) -> tuple[str, ...]:
        found = SimpleNamespace(
            experiment=plan, logs=logs[np.newaxis], blocks=4, columns={arms[0].id: 0, arms[1].id: 1}
        )
        return _scattered(cast("Study", found))

    (sentence,) = said(level)
    assert "spreads by 27 %" in sentence
    assert said(np.full((4, 2), math.nan)) == ()
    # One block shows no spread either.
    assert said(np.where(np.arange(4)[:, np.newaxis] == 0, level, math.nan)) == ()
