"""What earlier experiments on this machine tell a new one."""

import json
import math

import pytest
from plans_for_tests import make_experiment

from pgassay.experiment.running import earlier_experiments
from pgassay.model.experiment import InheritedLimits


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.setattr(earlier_experiments, "home", lambda: tmp_path)
    return make_experiment(["io_method=worker,sync"])


def scaled(experiment):
    return earlier_experiments.with_known_scale(experiment, earlier_experiments.recall(experiment))


def write_history(tmp_path, experiment, entry):
    entries = {earlier_experiments._key(experiment): entry}
    (tmp_path / "history.json").write_text(json.dumps({"format": 2, "entries": entries}), "utf-8")


def test_without_a_history_the_plan_stays_as_it_is(experiment):
    assert scaled(experiment) == experiment
    assert experiment.contract.first_scale == 0.05


def test_the_known_spread_of_single_trials_becomes_the_first_scale(tmp_path, experiment):
    write_history(tmp_path, experiment, {"trial_s": 9.0, "spread": 0.04, "spread_median": 0.02})
    planned = scaled(experiment)
    # An arm less the mean of control and twin: √1.5 times a single trial's.
    assert planned.contract.first_scale == pytest.approx(0.02 * math.sqrt(1.5), rel=0.005)
    paired = experiment.contract.model_copy(update={"pool_twin": False})
    planned = scaled(experiment.model_copy(update={"contract": paired}))
    assert planned.contract.first_scale == pytest.approx(0.02 * math.sqrt(2), rel=0.005)
    assert planned.model_copy(update={"contract": paired}) == experiment.model_copy(
        update={"contract": paired}
    )


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"trial_s": 9.0, "spread": 0.04}, 0.049),
        ({"trial_s": 9.0, "spread": None, "spread_median": None}, 0.05),
        ({"trial_s": 9.0, "spread": 0.0, "spread_median": 0.0}, 0.05),
        ({"trial_s": 9.0, "spread": 1e-5, "spread_median": 1e-5}, 0.002),
        ({"trial_s": 9.0, "spread": 3.0, "spread_median": 2.0}, 0.5),
    ],
    ids=["written before the median was kept", "unknown", "all trials alike", "tiny", "wild"],
)
def test_a_first_scale_is_never_absurd(tmp_path, experiment, entry, expected):
    write_history(tmp_path, experiment, entry)
    assert scaled(experiment).contract.first_scale == expected


def test_another_workload_tells_nothing(tmp_path, experiment):
    entries = {"another": {"trial_s": 9.0, "spread": 0.3, "spread_median": 0.2}}
    (tmp_path / "history.json").write_text(json.dumps({"format": 2, "entries": entries}), "utf-8")
    assert scaled(experiment).contract.first_scale == 0.05


@pytest.mark.parametrize("limits", [{"cpus": 0.7}, {"niceness": 19}])
def test_a_run_under_limits_tells_nothing_of_one_without(experiment, limits):
    """Else the first blocks after it count little, since they are taken to be as noisy."""
    environment = experiment.environment.updated(limits=InheritedLimits(**limits))
    slowed = experiment.model_copy(update={"environment": environment})
    known = earlier_experiments.TrialHistory(9.0, 0.4, 0.3)
    earlier_experiments.remember(slowed, known)
    assert earlier_experiments.recall(experiment) is None
    assert earlier_experiments.recall(slowed) == known


def test_what_was_remembered_last_is_recalled(tmp_path, experiment):
    assert earlier_experiments.recall(experiment) is None
    for trial_s in (8.0, 9.0):
        earlier_experiments.remember(experiment, earlier_experiments.TrialHistory(trial_s, 0.04, 0.02))
    assert earlier_experiments.recall(experiment) == earlier_experiments.TrialHistory(9.0, 0.04, 0.02)
    assert len(json.loads((tmp_path / "history.json").read_bytes())["entries"]) == 1


def test_a_history_that_cannot_be_written_is_said(tmp_path, experiment):
    (tmp_path / "history.json").mkdir()
    with pytest.raises(OSError, match=r"history\.json"):
        earlier_experiments.remember(experiment, earlier_experiments.TrialHistory(9.0, None))


def test_strata_that_were_not_run_keep_what_they_took(experiment):
    earlier_experiments.remember(
        experiment, earlier_experiments.TrialHistory(3.0, 0.02, 0.01, {"clients=1": 2.0, "clients=8": 4.0})
    )
    earlier_experiments.remember(
        experiment, earlier_experiments.TrialHistory(5.0, 0.02, 0.01, {"clients=8": 5.0})
    )
    known = earlier_experiments.recall(experiment)
    assert known == earlier_experiments.TrialHistory(5.0, 0.02, 0.01, {"clients=1": 2.0, "clients=8": 5.0})
