"""Two experiments beside each other: the change of each effect, and everything else that differs."""

import json
import math

import pytest

import report_examples as examples
from pgassay.analysis.compare import analyse
from pgassay.analysis.diff import Change, Diff, compare_experiments
from pgassay.record.read import StoredExperiment, StoredTrial
from pgassay.report import diff as report


def slowed(stored: StoredExperiment, arm: str, factor: float) -> StoredExperiment:
    """The same experiment with one arm's statements slower by a factor."""
    ids = {each.id for each in stored.experiment.arms if each.name == arm and each.role != "twin"}
    trials = []
    for trial in stored.trials:
        record = trial.record
        if record.arm_id in ids:
            changed = tuple(
                item.model_copy(update={"elapsed_s": item.elapsed_s * factor}) for item in record.statements
            )
            record = record.model_copy(update={"statements": changed})
        trials.append(StoredTrial(record, trial.plans, trial.folder))
    return StoredExperiment(stored.folder, stored.experiment, tuple(trials), stored.stopped)


def change_of(diff: Diff, name: str) -> Change:
    return next(change for change in diff.changes if change.name == name)


def test_an_effect_that_shrank_is_smaller_and_the_other_unchanged() -> None:
    first = examples.stored(blocks=60)
    diff = compare_experiments(first, slowed(first, "io_method=worker", 1.15))
    worker, uring = change_of(diff, "io_method=worker"), change_of(diff, "io_method=io_uring")
    assert worker.ratio == pytest.approx(1 / 1.15, rel=0.01)
    assert worker.interval is not None
    assert worker.interval[0] is not None
    assert worker.interval[1] is not None
    assert worker.interval[0] < 1 / 1.15 < worker.interval[1] < 1
    assert worker.word == "smaller"
    assert uring.ratio == pytest.approx(1.0)
    assert uring.word in ("unchanged", "inconclusive")
    assert "B shows less of it" in report.render(diff)


def test_the_interval_is_the_union_of_both_at_half_the_error_rate() -> None:
    first, second = examples.stored(blocks=20), slowed(examples.stored(blocks=15), "io_method=worker", 1.3)
    diff = compare_experiments(first, second)
    change = change_of(diff, "io_method=worker")
    mine, other = change.first.interval, change.second.interval
    assert mine is not None
    assert other is not None
    assert change.interval == (other[0] / mine[1], other[1] / mine[0])
    # Each side is wider than the interval of its own report.
    own = next(arm for arm in analyse(first).arms if arm.name == change.name).interval
    assert own is not None
    assert mine[0] < own[0] < own[1] < mine[1]


def test_arms_without_a_partner_or_with_another_control_are_not_compared() -> None:
    first = examples.stored(levels=["sync", "worker", "io_uring"], blocks=4)
    diff = compare_experiments(first, examples.stored(levels=["sync", "worker"], blocks=4))
    assert [change.name for change in diff.changes] == ["io_method=worker"]
    assert diff.only_first == ("io_method=io_uring",)
    other = compare_experiments(first, examples.stored(levels=["worker", "sync"], blocks=4))
    assert other.changes == ()
    assert "No effect can be compared" in report.render(other)


def test_what_else_differs_is_named_once() -> None:
    first = examples.stored(blocks=4)
    arms = tuple(
        arm.model_copy(
            update={
                "spec": arm.spec.model_copy(
                    update={"build": arm.spec.build.model_copy(update={"version": "19.0", "cflags": "-O3"})}
                )
            }
        )
        for arm in first.experiment.arms
    )
    environment = first.experiment.environment | {"kernel": "7.0"}
    plan = first.experiment.model_copy(update={"arms": arms, "environment": environment})
    trials = tuple(
        StoredTrial(
            trial.record.model_copy(
                update={"facts": {"settings": trial.record.facts["settings"] | {"shared_buffers": "2GB"}}}
            ),
            {name: examples.scan_plan("pgbench_accounts", index=True) for name in trial.plans},
            trial.folder,
        )
        for trial in first.trials
    )
    diff = compare_experiments(first, StoredExperiment(first.folder, plan, trials, "decided"))
    named = {(each.subject, each.name): (each.first, each.second) for each in diff.differences}
    assert len(named) == len(diff.differences)
    assert named["environment", "kernel"] == ("6.18.0", "7.0")
    assert named["build", "version"] == ("18.6", "19.0")
    assert named["settings", "shared_buffers"] == ("1GB", "2GB")
    assert any(subject == "plan" and "Seq Scan" in values[0] for (subject, _), values in named.items())
    assert not compare_experiments(first, first).differences


def test_without_a_block_there_is_no_word() -> None:
    diff = compare_experiments(examples.stored(blocks=0), examples.stored(blocks=5))
    assert {change.word for change in diff.changes} == {"inconclusive"}
    assert "no effect to compare" in report.render(diff)


def test_the_document_for_scripts_is_strict_json() -> None:
    diff = compare_experiments(examples.stored(blocks=2), examples.stored(blocks=2))
    document = json.loads(report.to_json(diff), parse_constant=pytest.fail)
    assert document["schema"] == 1
    assert document["changes"][0]["interval"] == [None, None]
    assert math.isfinite(document["changes"][0]["ratio"])


def test_hostile_names_cannot_steer_a_terminal() -> None:
    stored = examples.stored(levels=["sync", "a\x1b[31m"], blocks=2)
    page = report.render(compare_experiments(stored, stored), unicode=False)
    assert "\x1b" not in page
    assert page.isascii()
