"""What is known of remote servers: settings apart from machines after a swap, and what the network hides."""

import math
from typing import Any

import pytest

import analysis_samples as samples
from pgassay.analysis.descriptive.network import ThroughNetwork, own_interval, round_trips
from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment.remote.settings_swap import ServerFacts, differences_sentence, judge_swap
from pgassay.model.arm import Arm, RemoteServer
from pgassay.model.experiment import Experiment
from pgassay.model.trial import LoadObservation, TrialFacts, TrialRecord
from pgassay.record.experiment import StoredExperiment, Swap
from pgassay.workloads.registry import parse_workload


def server(number: int) -> RemoteServer:
    return RemoteServer(
        name=f"db{number}:5432/d",
        connection=f"host=db{number} dbname=d",
        host=f"db{number}",
        port=5432,
        dbname="d",
        user="u",
        version="18.1",
        major=18,
    )


def remote(plan: Experiment, swap: str = "") -> Experiment:
    """The samples' plan with its arm on another server than its control and twin."""

    def on_server(arm: Arm) -> Arm:
        spec = arm.spec.model_copy(update={"server": server(2 if arm.role == "arm" else 1)})
        return arm.model_copy(update={"spec": spec})

    arms = tuple(on_server(arm) for arm in plan.arms)
    return plan.model_copy(update={"arms": arms, "swap": swap})


def crossed_experiment(settings: float, hardware: float, blocks: int = 40) -> StoredExperiment:
    """Half of the blocks before a swap, half after it; effects are log ratios of speeds."""
    plan = remote(samples.experiment(), swap="swap.sh")
    (arm,) = (arm.id for arm in plan.arms if arm.role == "arm")
    half = blocks // 2
    before = samples.simulate(plan, half, {arm: hardware + settings}, seed=3)
    after = [
        record.model_copy(update={"block": record.block + half, "number": record.number + len(before)})
        for record in samples.simulate(plan, half, {arm: hardware - settings}, seed=4)
    ]
    stored = samples.stored(plan, before + after)
    return StoredExperiment(
        stored.folder, plan, stored.trials, "blocks", swap=Swap(half, ("work_mem",), ("max_connections",))
    )


def test_settings_and_machines_are_told_apart() -> None:
    """A faster machine with worse settings: before the swap both together look alike."""
    result = analyse(crossed_experiment(settings=-0.10, hardware=0.10))
    assert result.arms[1].verdict == "equivalent"
    (crossed,) = result.crossed
    assert crossed.settings.verdict == "slower" and crossed.hardware.verdict == "faster"
    for effect, truth in ((crossed.settings, -0.10), (crossed.hardware, 0.10)):
        low, high = effect.interval
        assert low is not None and high is not None
        assert low < math.exp(truth) < high
    lines = result.verdict.splitlines()
    assert "apart from its machine, are" in lines[0] and "slower" in lines[0]
    assert "with whichever settings, is" in lines[1] and "faster" in lines[1]
    assert "max_connections" in lines[2]
    assert lines[-1].startswith("Before the swap: ")
    assert "a family of 2 for settings and machines" in result.family
    assert "each at level 0.025" in result.family


def test_nothing_is_found_where_there_is_nothing() -> None:
    (crossed,) = analyse(crossed_experiment(settings=0.0, hardware=0.0, blocks=80)).crossed
    assert crossed.settings.verdict == "equivalent" and crossed.hardware.verdict == "equivalent"


def test_no_word_before_each_half_has_enough_blocks() -> None:
    result = analyse(crossed_experiment(settings=0.5, hardware=0.0, blocks=6))
    (crossed,) = result.crossed
    assert crossed.settings.verdict == "inconclusive"
    assert "can't be distinguished from" in result.verdict.splitlines()[0]


def test_an_effect_that_moved_before_the_swap_leaves_no_interval() -> None:
    steady = crossed_experiment(settings=0.0, hardware=0.0, blocks=80)
    plan, half = steady.experiment, 40
    (arm,) = (arm.id for arm in plan.arms if arm.role == "arm")
    moving = samples.stored(plan, samples.simulate_moving(plan, half, arm, (0.3, -0.3))).trials
    later = tuple(trial for trial in steady.trials if trial.record.block >= half)
    result = analyse(StoredExperiment(steady.folder, plan, moving + later, "blocks", swap=steady.swap))
    (crossed,) = result.crossed
    for effect in (crossed.settings, crossed.hardware):
        assert (effect.verdict, effect.interval) == ("inconclusive", None)
        assert effect.ratio is not None
    for line in result.verdict.splitlines()[:2]:
        assert "can't be compared with" in line and "since the effect moved during the experiment" in line


def test_the_share_of_the_network_is_taken_out_of_an_interval() -> None:
    """T = 22 ms of which 20 are the network's: 3 % of the whole are 33 % of the servers' own 2 ms."""
    control = arm = ThroughNetwork(whole_ms=22.0, network_ms=20.0)
    low, high = own_interval(control, arm, (1 / 1.03, 1.03))
    assert low == pytest.approx(2.0 / (22.0 * 1.03 - 20.0))
    assert high == pytest.approx(2.0 / (22.0 / 1.03 - 20.0))
    assert own_interval(control, arm, (1.0, 1.0)) == (1.0, 1.0)
    # Faster than the network alone allows: nothing bounds the server's part from that side.
    assert own_interval(control, arm, (0.9, 1.2))[1] is None
    assert own_interval(control, arm, (None, None)) == (None, None)
    assert own_interval(ThroughNetwork(20.0, 20.5), arm, (0.9, 1.1)) == (None, None)


@pytest.mark.parametrize(
    ("workload", "trips"),
    [
        ("select-only", 1),
        ("simple-update", 5),
        ("tpcb", 7),
        ("oltp_read_only", 16),
        ("oltp_read_only:skip_trx=on,point_selects=1", 5),
        ("full-scan:only=read-table", 1),
    ],
)
def test_every_statement_of_a_transaction_is_a_round_trip(workload: str, trips: int) -> None:
    assert round_trips(parse_workload(workload)) == trips


def through(record: TrialRecord, trip_ms: float, latency_ms: float) -> TrialRecord:
    load = LoadObservation(
        transactions=round(1e6 / latency_ms),
        elapsed_s=1000.0,
        errors=0,
        client_cpu_s=1.0,
        latency_ms={"mean": latency_ms},
    )
    return record.model_copy(update={"load": load, "facts": TrialFacts(server={"round_trip_ms": trip_ms})})


def network_result(trips_ms: tuple[float, float], own_ms: float) -> Any:
    """A load of seven round trips a transaction on two servers, (control, arm)."""
    plan = remote(samples.experiment(statements=0))
    roles = {arm.id: arm.role for arm in plan.arms}
    records = []
    for record in samples.simulate(plan, 12):
        trip = trips_ms[1 if roles[record.arm_id] == "arm" else 0]
        speed = record.load.transactions / 1e5 if record.load else 1.0
        records.append(through(record, trip, (7 * trip + own_ms) * (1 + 0.001 * speed)))
    return analyse(samples.stored(plan, records))


def test_a_network_that_hides_is_told_of_with_figures() -> None:
    result = network_result((20.0, 20.0), own_ms=10.0)
    (hidden,) = (sentence for sentence in result.warnings if "network hides" in sentence)
    assert "7 round trips" in hidden and "(93 %)" in hidden
    # 3 % of 150 ms are 4.5 ms, of the servers' own 10 ms.
    assert "3 % of the whole are 45 % of it" in hidden or "3 % of the whole are 44 % of it" in hidden
    assert not [sentence for sentence in result.confounds if "the network to" in sentence]


def test_a_near_server_needs_no_warning() -> None:
    result = network_result((0.01, 0.01), own_ms=10.0)
    assert not [sentence for sentence in result.warnings if "network" in sentence]


def test_a_round_trip_within_a_machine_is_no_network() -> None:
    """Half of the time, and yet the server's own work on a statement that does nothing."""
    assert not [line for line in network_result((0.05, 0.05), own_ms=0.35).warnings if "network" in line]


def test_two_ways_of_different_length_are_a_confound() -> None:
    result = network_result((1.0, 3.0), own_ms=10.0)
    (way,) = (sentence for sentence in result.confounds if "the network to" in sentence)
    assert "21 ms" in way and "7 ms" in way and "14 ms" in way


def facts(**settings: str) -> ServerFacts:
    return ServerFacts(version="18.1", settings=settings, contexts={}, extensions={})


def test_differences_are_listed_the_most_relevant_first() -> None:
    first = facts(work_mem="4MB", shared_buffers="1GB", port="5432", log_timezone="UTC", jit="on")
    second = facts(work_mem="8MB", shared_buffers="2GB", port="5433", log_timezone="CET", jit="on")
    sentence = differences_sentence(("a", "b"), (first, second), ())
    assert sentence == (
        "a differs from b in settings shared_buffers (1GB against 2GB), work_mem (4MB against 8MB); names of "
        "places and formats: port, log_timezone"
    )
    assert "work_mem" not in differences_sentence(("a", "b"), (first, second), ("work_mem",))
    assert differences_sentence(("a", "b"), (first, first), ()) == ""


def test_a_swap_is_judged_by_what_changed_places() -> None:
    before = (
        facts(work_mem="4MB", jit="on", max_connections="100"),
        facts(work_mem="8MB", jit="on", max_connections="200"),
    )
    after = (
        facts(work_mem="8MB", jit="on", max_connections="100"),
        facts(work_mem="4MB", jit="on", max_connections="200"),
    )
    swap = judge_swap(before, after)
    assert (swap.swapped, swap.stayed, swap.else_changed) == (("work_mem",), ("max_connections",), ())
    assert judge_swap(before, before).swapped == ()
    other = judge_swap(before, (facts(work_mem="16MB", jit="off", max_connections="100"), before[1]))
    assert set(other.else_changed) == {"work_mem", "jit"}
