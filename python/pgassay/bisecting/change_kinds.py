"""What changed with the found commit beside its code: the server's own settings, the plans of statements."""

import shlex
from collections.abc import Collection, Sequence

from pgassay.analysis.descriptive.confounds import settings_that_differ
from pgassay.bisecting.rounds import FACTOR
from pgassay.environment.builds.default_differences import NO_SUCH_SETTING, pair_names
from pgassay.model.build import Build
from pgassay.plans.plan_shape import shape
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.words import join, plural

_TOLD_MAX = 4


def what_changed(
    stored: Sequence[StoredExperiment], before: Collection[str], after: Collection[str]
) -> list[str]:
    """Sentences on what differs between trials of the builds `before` the step and those `after` it."""
    first, second = (_trials_of(stored, builds) for builds in (before, after))
    if not first or not second:
        return []
    sentences = []
    # What a server runs with is recorded where it is no default: a default that changed is in the plan.
    differing = _defaults_that_differ(stored, before, after) | settings_that_differ(
        tuple(trial.record for trial in first), tuple(trial.record for trial in second)
    )
    if differing:
        told = join([f"{name} from {old} to {new}" for name, (old, new) in [*differing.items()][:_TOLD_MAX]])
        more = plural(len(differing) - _TOLD_MAX, "more setting") if len(differing) > _TOLD_MAX else ""
        name, (old, _) = next(iter(differing.items()))
        # An empty value stands as '' already.
        typed = f"{name}={old}" if old == "''" else shlex.quote(f"{name}={old}")
        sentences.append(
            f"The server's default settings changed with it: {told}{f', {more}' if more else ''}. It may be "
            f"a default, not code: repeat with --set {typed} to check."
        )
    plans = [name for name in sorted(_shapes(first)) if _is_other(name, first, second)]
    if plans:
        of = join(plans[:_TOLD_MAX])
        sentences.append(f"The plan of {of} changed with it: it may be the plan, not the code that runs it.")
    return sentences


def _defaults_that_differ(
    stored: Sequence[StoredExperiment], before: Collection[str], after: Collection[str]
) -> dict[str, tuple[str, str]]:
    """By name the defaults of the builds before and after, by the first experiment that has one of each."""
    for each in stored:
        arms = each.experiment.arms
        first, second = (
            next((arm.spec.build for arm in arms if arm.levels.get(FACTOR) in builds), None)
            for builds in (before, after)
        )
        if first is not None and second is not None:
            mine, others = (_beside_the_control(each, build) for build in (first, second))
            # A build of which nothing is recorded has the control's default.
            found = {
                name: (mine.get(name, (control, control))[1], others.get(name, (control, control))[1])
                for name, (control, _) in (others | mine).items()
            }
            return {
                name: values
                for name, values in found.items()
                if values[0] != values[1] and NO_SUCH_SETTING not in values
            }
    return {}


def _beside_the_control(stored: StoredExperiment, build: Build) -> dict[str, tuple[str, ...]]:
    """By name the defaults in which a build differs from the control: the control's, and its own."""
    experiment = stored.experiment
    builds = {arm.id: arm.spec.build for arm in experiment.arms}
    pairs = [(builds[each.control_id], builds[each.arm_id]) for each in experiment.contrasts]
    names = pair_names(pairs).get((pairs[0][0].bin_directory, build.bin_directory), ())
    return experiment.environment.differing_defaults.get(" and ".join(names), {})


def _trials_of(stored: Sequence[StoredExperiment], builds: Collection[str]) -> list[StoredTrial]:
    found = []
    for each in stored:
        arms = {arm.id for arm in each.experiment.arms if arm.levels.get(FACTOR) in builds}
        found += [
            trial for trial in each.trials if trial.record.arm_id in arms and trial.record.status == "ok"
        ]
    return found


def _shapes(trials: Sequence[StoredTrial]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for trial in trials:
        for name, plan in trial.plans.items():
            found.setdefault(name, set()).add(shape(plan))
    return found


def _is_other(name: str, first: Sequence[StoredTrial], second: Sequence[StoredTrial]) -> bool:
    """Whether a statement's plan was one before and another after, in every trial."""
    mine, others = _shapes(first).get(name, set()), _shapes(second).get(name, set())
    return bool(mine) and bool(others) and not mine & others and "" not in mine | others
