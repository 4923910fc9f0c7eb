"""Arms that can't run: dropped from what is left of an experiment, so that the others go on.

An arm is dropped once its trials have failed for good in two blocks of it in a row. Where that is a stratum's
control or its twin, all arms of the stratum are. What made it fail says nothing of how fast it is.
"""

from collections.abc import Collection, Mapping, Sequence

from pgassay.model.experiment import ATTEMPTS_MAX, BlockPlan, Experiment
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment

# Two blocks in a row that could not be completed: a third will not be either.
VOIDED_BLOCKS_MAX = 2


def dropped_arms(
    experiment: Experiment, records: Sequence[TrialRecord], plans: Mapping[int, BlockPlan]
) -> dict[str, str]:
    """The ids of the arms that are dropped, with the reason of the last failure; {} where none would be left.

    Only where blocks are written down (`plans`) can one be made of fewer arms.
    """
    if not experiment.design.decided_rest or not plans:
        return {}
    reasons = _failing(records, plans)
    strata = {
        arm.stratum: reasons[arm.id] for arm in experiment.arms if arm.role != "arm" and arm.id in reasons
    }
    found = {
        arm.id: reasons.get(arm.id) or strata[arm.stratum]
        for arm in experiment.arms
        if arm.role == "arm" and (arm.id in reasons or arm.stratum in strata)
    }
    arms = [arm for arm in experiment.arms if arm.role == "arm"]
    return {} if len(found) == len(arms) else found


def _failing(records: Sequence[TrialRecord], plans: Mapping[int, BlockPlan]) -> dict[str, str]:
    """The reason of each arm whose last trials failed for good in so many blocks of it."""
    by_place: dict[tuple[int, str], list[TrialRecord]] = {}
    for record in records:
        by_place.setdefault((record.block, record.arm_id), []).append(record)
    in_a_row: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for block in sorted(plans):
        for name in plans[block].arm_ids:
            found = by_place.get((block, name), [])
            if any(record.status == "ok" for record in found):
                in_a_row[name] = 0
            elif sum(record.status not in ("ok", "interrupted") for record in found) >= ATTEMPTS_MAX:
                in_a_row[name] = in_a_row.get(name, 0) + 1
                reasons[name] = found[-1].reason
    return {name: reasons[name] for name, count in in_a_row.items() if count >= VOIDED_BLOCKS_MAX}


def dropped_sentences(
    stored: StoredExperiment, ids: Collection[str], reasons: Mapping[str, str]
) -> tuple[str, ...]:
    """What is said of these arms, in the plan's order."""
    return tuple(
        f"{arm.name}{f' at {arm.stratum}' if arm.stratum else ''} is dropped, since its trials "
        f"fail: {reasons[arm.id]}; the others continue without it"
        for arm in stored.experiment.arms
        if arm.id in ids
    )
