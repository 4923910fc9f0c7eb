"""What changed with the found commit beside its code: the server's own settings, the plans of statements."""

from collections.abc import Collection, Sequence

from pgassay.analysis.descriptive.confounds import settings_that_differ
from pgassay.bisecting.rounds import FACTOR
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
    differing = settings_that_differ(
        tuple(trial.record for trial in first), tuple(trial.record for trial in second)
    )
    if differing:
        told = join([f"{name} from {old} to {new}" for name, (old, new) in [*differing.items()][:_TOLD_MAX]])
        more = plural(len(differing) - _TOLD_MAX, "more setting") if len(differing) > _TOLD_MAX else ""
        name, (old, _) = next(iter(differing.items()))
        sentences.append(
            f"The server's default settings changed with it: {told}{f', {more}' if more else ''}. It may be "
            f"a default, not code: repeat with --set {name}={old} to check."
        )
    plans = [name for name in sorted(_shapes(first)) if _is_other(name, first, second)]
    if plans:
        of = join(plans[:_TOLD_MAX])
        sentences.append(f"The plan of {of} changed with it: that need not be slower code.")
    return sentences


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
