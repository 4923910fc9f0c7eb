"""The statements of one experiment with intervals that hold all together, for a comparison of two.

The intervals of a report's second family are chosen by what they show (e-BH): their errors are few
among those that were selected, which says nothing of the same statement in another experiment. So the
error rate is shared by all statements and comparisons here (Bonferroni), and nothing is selected.
"""

import math

from pgassay.analysis.verdicts.study import gather_study
from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.read import StoredExperiment

Key = tuple[str, str]


def statement_arms(
    stored: StoredExperiment, result: CompareResult, alpha: float
) -> dict[Key, dict[str, ArmResult]]:
    """Arm results by (arm's name, stratum), then by statement; raises UsageError as `analyse`.

    Their intervals hold all together with probability 1 − alpha at any moment. `result` is what
    `analyse` made of the same experiment; an arm is withheld where its stratum's twin differs.
    """
    study = gather_study(stored)
    measures = study.measures[1:]
    if not measures or not study.blocks:
        return {}
    level = alpha / (len(measures) * study.contrast_count)
    ends = study.contrast_set(study.logs[1:]).intervals(level, running=True)
    doubted = {twin.stratum for twin in result.twins if twin.ok is False}
    shown = {
        (arm.name, arm.stratum, statement.name): arm
        for statement in result.statements
        for arm in statement.arms
    }
    found: dict[Key, dict[str, ArmResult]] = {}
    for place, contrast in enumerate(study.experiment.contrasts):
        arm = study.arms[contrast.arm_id]
        for row, measure in enumerate(measures):
            own = shown[arm.name, arm.stratum, measure.name]
            low, high = sorted((float(ends.lower[row, place]), float(ends.upper[row, place])))
            changes = {"interval": (_ratio(low), _ratio(high)), "withheld": arm.stratum in doubted}
            found.setdefault((arm.name, arm.stratum), {})[measure.name] = own.model_copy(update=changes)
    return found


def _ratio(log_ratio: float) -> float | None:
    ratio = math.exp(log_ratio) if log_ratio < 700 else math.inf
    return ratio if 0 < ratio < math.inf else None
