"""What causes and limits rest on where clients executed the statements of a trial at once."""

from dataclasses import replace

import pytest

import report_examples as examples
from pgassay.analysis.accounts.arm_accounts import measured_spans
from pgassay.analysis.accounts.work_times import times_from_outside
from pgassay.analysis.descriptive.device_use import device_use
from pgassay.analysis.descriptive.round_trips import trips_of_trial
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.arm import Arm
from pgassay.model.experiment import PlannedCeilings
from pgassay.model.trial import ServerState, TrialRecord, Verification
from pgassay.record.experiment import StoredExperiment

AT_ONCE, SECONDS = 5, 2.0
CONTROL = "io_method=sync"


def mixed() -> StoredExperiment:
    """Its statements were executed five times each in two seconds, in which the device gave 1,900 MB."""
    stored = examples.stored(levels=["sync", "worker"])
    trials = []
    for trial in stored.trials:
        statements = tuple(
            each.model_copy(update={"at_once": AT_ONCE, "clock_ns": None, "device_read_bytes": None})
            for each in trial.record.statements
        )
        changes = {
            "statements": statements,
            "clock_ns": (1_000_000_000, 3_000_000_000),
            "verification": Verification(device_read_bytes=1_900_000_000),
            "facts": trial.record.facts.model_copy(update={"server": ServerState(round_trip_ms=10.0)}),
        }
        trials.append(replace(trial, record=trial.record.model_copy(update=changes)))
    ceiling = {"read_mb_s": 1000.0, "read_mb_s_from": "limit"}
    plan = stored.experiment.model_copy(update={"ceilings": PlannedCeilings(by_arm={CONTROL: ceiling})})
    return replace(stored, experiment=plan, trials=tuple(trials))


def first(stored: StoredExperiment) -> tuple[TrialRecord, Arm]:
    record = stored.trials[0].record
    return record, next(arm for arm in stored.experiment.arms if arm.id == record.arm_id)


def test_the_whole_interval_is_one_span_and_sessions_time_is_that_of_all_executions() -> None:
    record, arm = first(mixed())
    assert record.is_mix
    (span,) = measured_spans(record)
    assert (span.end_ns - span.begin_ns) / 1e9 == SECONDS
    alone_s = sum(each.elapsed_s for each in record.statements)
    assert record.sessions_s == pytest.approx(AT_ONCE * alone_s)
    assert times_from_outside(record, arm, None).total_s == pytest.approx(AT_ONCE * alone_s)


def test_every_execution_waits_for_its_answer_once() -> None:
    record, arm = first(mixed())
    trips = trips_of_trial(record, arm)
    assert trips is not None and trips.count == AT_ONCE * len(record.statements)


def test_what_the_device_gave_is_of_the_whole_interval() -> None:
    stored = mixed()
    (found,) = device_use(stored)
    assert found.fraction == pytest.approx(0.95)
    # Without executions at once nobody knows which of the statements it was for.
    alone = [
        replace(each, record=each.record.model_copy(update={"statements": ()})) for each in stored.trials
    ]
    assert device_use(replace(stored, trials=tuple(alone))) == ()


def test_means_are_compared_as_times_of_statements_are() -> None:
    plain, stored = analyse(examples.stored(levels=["sync", "worker"])), analyse(mixed())
    assert [arm.ratio for arm in stored.arms] == [arm.ratio for arm in plain.arms]
