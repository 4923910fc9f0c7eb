"""What changed with the found commit beside its code: settings of the servers, plans."""

from dataclasses import replace
from typing import Any

import report_examples as examples
from pgassay.bisecting.change_kinds import what_changed
from pgassay.bisecting.rounds import FACTOR
from pgassay.model.trial import TrialFacts
from pgassay.record.experiment import StoredExperiment

OLD, NEW = "old", "new"


def round_of(settings: dict[str, dict[str, str]], plans: dict[str, Any]) -> StoredExperiment:
    """Trials of two builds with these settings and these plans of one statement."""
    stored = examples.stored(levels=[OLD, NEW], blocks=2)
    arms = tuple(
        arm.model_copy(update={"levels": {FACTOR: arm.levels["io_method"]}}) for arm in stored.experiment.arms
    )
    build_of = {arm.id: arm.levels[FACTOR] for arm in arms}

    def changed(trial: Any) -> Any:
        build = build_of[trial.record.arm_id]
        facts = TrialFacts(settings={"work_mem": "4MB", **settings.get(build, {})})
        shown = {"scan": plans[build]} if build in plans else {}
        return replace(trial, record=trial.record.model_copy(update={"facts": facts}), plans=shown)

    experiment = stored.experiment.model_copy(update={"arms": arms})
    return replace(stored, experiment=experiment, trials=tuple(map(changed, stored.trials)))


def said(settings: dict[str, dict[str, str]], plans: dict[str, Any]) -> str:
    return " ".join(what_changed([round_of(settings, plans)], {OLD}, {NEW}))


def test_a_default_that_changed_is_named_with_what_to_try() -> None:
    text = said({OLD: {"jit": "on"}, NEW: {"jit": "off"}}, {})
    assert "jit from on to off" in text and "--set jit=on" in text
    assert said({OLD: {"jit": "on"}, NEW: {"jit": "on"}}, {}) == ""


def test_another_plan_is_said_and_the_same_one_is_not() -> None:
    scan, index = (examples.scan_plan("accounts", index=index) for index in (False, True))
    assert "The plan of scan changed" in said({}, {OLD: index, NEW: scan})
    assert said({}, {OLD: scan, NEW: scan}) == ""


def test_builds_without_trials_say_nothing() -> None:
    assert what_changed([round_of({}, {})], {OLD}, {"another"}) == []
