"""When the throughput changed within a trial, as sentences."""

from pgassay.analysis.change_points import ChangePoint, change_points
from pgassay.model.arm import Arm
from pgassay.record.read import StoredExperiment
from pgassay.report import text
from pgassay.report.labels import compared_factors, short_name

# A shorter load has too few seconds to tell a change from its noise.
_SECONDS_MIN = 12
# A change of less than a tenth is not worth a sentence.
_RATIO_MIN = 1.1


def change_sentences(stored: StoredExperiment) -> tuple[str, ...]:
    """One for each arm (the twin too) with trials whose transactions per second changed.

    By chance up to one trial in twenty shows a change, so that more than that are needed.
    """
    factors = compared_factors(stored.experiment.arms)
    found = []
    for arm in stored.experiment.arms:
        looked = [
            change_points(trial.record.load.per_second)
            for trial in stored.trials
            if trial.record.arm_id == arm.id
            and trial.record.status == "ok"
            and trial.record.load is not None
            and len(trial.record.load.per_second) >= _SECONDS_MIN
        ]
        changed = [greatest for points in looked if (greatest := _greatest(points)) is not None]
        if len(changed) > max(1 if len(looked) > 1 else 0, len(looked) / 20):
            found.append(_sentence(_name(arm, factors), changed, len(looked)))
    return tuple(found)


def _name(arm: Arm, factors: tuple[str, ...]) -> str:
    name = "the twin" if arm.role == "twin" else short_name(arm, factors)
    return f"{name} at {text.clean(arm.stratum)}" if arm.stratum else name


def _size(point: ChangePoint) -> float:
    return max(point.ratio, 1 / point.ratio) if point.ratio > 0 else float("inf")


def _greatest(points: tuple[ChangePoint, ...]) -> ChangePoint | None:
    worth = [point for point in points if _size(point) >= _RATIO_MIN]
    return max(worth, key=_size, default=None)


def _sentence(name: str, changed: list[ChangePoint], looked: int) -> str:
    """The change of middle size stands for all."""
    shown = sorted(changed, key=_size)[(len(changed) - 1) // 2]
    return (
        f"{name}: the throughput changed within {len(changed)} of {text.plural(looked, 'trial')}, as from "
        f"{text.quantity(shown.before, '')} to {text.quantity(shown.after, '')} transactions a second after "
        f"second {shown.place}."
    )
