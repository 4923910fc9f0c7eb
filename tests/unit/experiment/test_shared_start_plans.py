"""Rounds of a start: how many, in which order, what figure comes of them, and which arms can have them."""

import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plans_for_tests import make_experiment, make_record

from pgassay.analysis.statistics.start_rounds import start_seconds
from pgassay.design.schedule import plan_block, round_order
from pgassay.experiment.running import run_experiment
from pgassay.experiment.running.start_blocks import turns_of
from pgassay.model.trial import TrialSpec
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.trial.shared_start import planned_turns


@pytest.mark.parametrize(
    ("rehearsed_s", "least", "usual", "repeats"),
    [
        ([[0.001]] * 3, 3, 31, [10]),
        ([[0.01]] * 3, 3, 17, [1]),
        ([[0.03]] * 3, 3, 12, [0]),
        ([[0.3]] * 3, 3, 3, [0]),
        ([[2.0]] * 3, 3, 3, [0]),
        # Starts are what counts: three rounds of half a minute would say no more than one.
        ([[6.0]] * 3, 1, 1, [0]),
        # The slow arm decides for all of them.
        ([[0.001], [0.1]], 3, 10, [0]),
        # A short statement beside a long one is executed several times in each of the few rounds.
        ([[0.5, 0.001], [0.5, 0.0002]], 3, 3, [0, 10]),
    ],
)
def test_turns_follow_from_an_execution_that_counts_for_nothing(
    rehearsed_s: list[list[float]], least: int, usual: int, repeats: list[int]
) -> None:
    turns = planned_turns(rehearsed_s)
    assert (turns.least, turns.usual) == (least, usual)
    assert turns.repeats == (tuple(repeats),) * len(rehearsed_s)


def test_arms_of_other_statements_are_repeated_by_their_own() -> None:
    assert planned_turns([[0.001], [0.1, 0.001]]).repeats == ((10,), (0, 10))


def test_rounds_end_by_the_noise_of_the_contrasts_of_those_arms_that_take_part() -> None:
    experiment = make_experiment(["work_mem=1MB,2MB"])
    turns = turns_of(experiment, 0, experiment.arms)
    even, uneven = [[0.3]] * 4, [[0.2], [0.9], [0.4], [0.3]]
    same = [even for _ in experiment.arms]
    assert turns.are_enough(same, 30.0, 1.0)
    assert not turns.are_enough([uneven, *same[1:]], 30.0, 1.0)
    # Rounds that cost next to nothing go on for longer than such as take as long as a start.
    noisy = [[[0.3], [0.303], [0.3], [0.303]], *same[1:]]
    assert turns.are_enough(noisy, 1.0, 10.0) and not turns.are_enough(noisy, 100.0, 0.01)


def test_no_start_takes_more_than_a_part_of_the_time_with_its_rounds() -> None:
    experiment = make_experiment(["work_mem=1MB,2MB"])
    short = experiment.contract.model_copy(update={"time_max_s": 60.0})
    assert turns_of(experiment.model_copy(update={"contract": short}), 0, experiment.arms).most_s == 7.5
    long = experiment.contract.model_copy(update={"time_max_s": 3600.0})
    assert turns_of(experiment.model_copy(update={"contract": long}), 0, experiment.arms).most_s == 20.0


def test_each_round_has_an_order_of_its_own() -> None:
    orders = [tuple(round_order(7, 2, number, 3)) for number in range(600)]
    assert orders == [tuple(round_order(7, 2, number, 3)) for number in range(600)]
    counts = Counter(orders)
    assert len(counts) == 6 and min(counts.values()) > 60
    assert orders != [tuple(round_order(7, 3, number, 3)) for number in range(600)]


def test_the_ratio_of_two_arms_is_the_median_of_the_rounds_ratios() -> None:
    """What slows a whole round down is taken out, and one round of a checkpoint moves nothing."""
    slowness = [1.0, 1.3, 0.9, 5.0, 1.1]
    first = [[0.1 * each] for each in slowness]
    second = [[0.12 * each] for each in slowness]
    second[2] = [3.0]
    (one,), (other,) = start_seconds([first, second])
    assert math.isclose(other / one, 1.2)


def test_arms_with_more_statements_are_taken_alone() -> None:
    one, other = start_seconds([[[1.0], [2.0], [3.0]], [[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]]])
    assert one == pytest.approx([2.0])
    assert other == pytest.approx([2.0, 4.0])


def test_what_a_killed_run_left_of_a_start_counts_for_nothing_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts and plans were still counted from trials whose folders were gone."""
    experiment = make_experiment(["work_mem=1MB,2MB"])
    experiment = experiment.model_copy(
        update={"contract": experiment.contract.model_copy(update={"unit": "start"})}
    )
    plans = {0: plan_block(experiment, {})}
    plans[1] = plan_block(experiment, plans)
    arms = {arm.id: arm for arm in experiment.arms}
    trials = []
    # The first start is whole, of the second two arms have a record.
    for block, names in ((0, plans[0].arm_ids), (1, plans[1].arm_ids[:2])):
        for place, name in enumerate(names):
            number = block * len(arms) + place
            spec = TrialSpec(
                number=number,
                attempt=1,
                block=block,
                position=place,
                arm=arms[name],
                protocol=experiment.protocol,
            )
            folder = tmp_path / str(number)
            folder.mkdir()
            trials.append(StoredTrial(make_record(spec, "ok"), {}, folder))
    stored = StoredExperiment(tmp_path, experiment, tuple(trials), "running", 0.0, block_plans=plans)
    given: list[StoredExperiment] = []

    def run_trials(seen: StoredExperiment, *_: object) -> Any:
        given.append(seen)
        return SimpleNamespace(prepare_block=None)

    monkeypatch.setattr(run_experiment, "ExperimentTrials", run_trials)
    for name in ("known_of", "announce", "run_profile"):
        monkeypatch.setattr(run_experiment, name, lambda *_: None)
    monkeypatch.setattr(run_experiment, "run_experiment", lambda seen, *_: given.append(seen))
    run = SimpleNamespace(progress=None, earlier=None, limits_now=lambda _: None, said_by=None)
    opened = SimpleNamespace(target=None, loading_s=lambda: 0.0)
    run_experiment._run_trials(stored, opened, run)  # type: ignore[arg-type]
    assert [len(each.trials) for each in given] == [len(arms)] * 2
    assert sorted(int(each.name) for each in tmp_path.iterdir()) == list(range(len(arms)))
