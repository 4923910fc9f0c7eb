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


def with_defaults(
    stored: StoredExperiment, versions: dict[str, str], differing: dict[str, dict[str, tuple[str, str]]]
) -> StoredExperiment:
    """The same with builds of these versions, in folders named after them, and their recorded defaults."""
    arms = []
    for arm in stored.experiment.arms:
        name = arm.levels[FACTOR]
        known = {"bin_directory": f"/{name}/bin", "version": versions[name], "origin": "source"}
        build = arm.spec.build.model_copy(update=known)
        arms.append(arm.model_copy(update={"spec": arm.spec.model_copy(update={"build": build})}))
    environment = stored.experiment.environment.model_copy(update={"differing_defaults": differing})
    changes = {"arms": tuple(arms), "environment": environment}
    return replace(stored, experiment=stored.experiment.model_copy(update=changes))


def said(settings: dict[str, dict[str, str]], plans: dict[str, Any]) -> str:
    return " ".join(what_changed([round_of(settings, plans)], {OLD}, {NEW}))


def test_a_default_that_changed_is_named_with_what_to_try() -> None:
    text = said({OLD: {"jit": "on"}, NEW: {"jit": "off"}}, {})
    assert "jit from on to off" in text and "--set jit=on" in text
    assert said({OLD: {"jit": "on"}, NEW: {"jit": "on"}}, {}) == ""
    listed = said({OLD: {"datestyle": "ISO, MDY"}, NEW: {"datestyle": "ISO, DMY"}}, {})
    assert "repeat with --set 'datestyle=ISO, MDY' to check" in listed


def test_a_default_that_a_server_runs_with_is_told_by_the_plan_of_its_experiment() -> None:
    """What runs with its own default is not among the settings that a trial records."""
    differing = {"/old/bin and /new/bin": {"enable_sort": ("on", "off"), "novel": ("no such setting", "1")}}
    trees = with_defaults(round_of({}, {}), {OLD: "18.6", NEW: "18.6"}, differing)
    text = " ".join(what_changed([trees], {OLD}, {NEW}))
    assert "default settings changed with it: enable_sort from on to off." in text
    assert "--set enable_sort=on" in text and "novel" not in text
    # What all builds behind the good end have came before.
    assert what_changed([trees], {NEW}, {NEW}) == []
    releases = with_defaults(
        round_of({}, {}), {OLD: "17.4", NEW: "17.5"}, {"17.4 and 17.5": {"jit": ("on", "off")}}
    )
    assert "jit from on to off" in " ".join(what_changed([releases], {OLD}, {NEW}))


def test_another_plan_is_said_and_the_same_one_is_not() -> None:
    scan, index = (examples.scan_plan("accounts", index=index) for index in (False, True))
    assert "The plan of scan changed" in said({}, {OLD: index, NEW: scan})
    assert said({}, {OLD: scan, NEW: scan}) == ""


def test_builds_without_trials_say_nothing() -> None:
    assert what_changed([round_of({}, {})], {OLD}, {"another"}) == []
