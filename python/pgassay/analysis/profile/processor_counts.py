"""Instructions and cycles per unit of work, by the processor's own counters, where the machine has them."""

import math
from collections.abc import Sequence

import numpy as np

from pgassay.analysis.profile.judge_functions import units_of
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import interval_of, ratio_of
from pgassay.model.profile.result import CountedArm, CountedEvent, ProfileFacts, TimeVerdict

EVENTS = ("instructions", "cycles")


def counted_events(study: Study) -> tuple[CountedEvent, ...]:
    """What all trials of complete blocks have counted, each arm with its control.

    Intervals hold for both events and all arms together. An event that some trial lacks is not told.
    """
    counts = {event: _per_unit(study, event) for event in EVENTS}
    known = [event for event in EVENTS if not np.isnan(counts[event][study.table.present]).any()]
    if not known or not study.blocks:
        return ()
    values = np.stack([counts[event] for event in known])
    contrasts = study.contrast_set(np.log(values))
    size = len(known) * len(study.experiment.contrasts)
    ends = contrasts.intervals(study.experiment.contract.alpha / size, running=False)
    effects = contrasts.effects()
    return tuple(
        CountedEvent(
            event=event,
            arms=_arms(study, values[place], effects[place], ends.lower[place], ends.upper[place]),
        )
        for place, event in enumerate(known)
    )


def counters_note(facts: Sequence[ProfileFacts]) -> str:
    """Why there are no counts of instructions and cycles; '' where there are, and of older records."""
    if any(each.counters is False for each in facts):
        return "instructions and cycles are not counted: this machine gives perf no hardware counters"
    if any(each.counters and each.instructions is None for each in facts):
        return "instructions and cycles are not told: perf counted them in a part of the trials only"
    return ""


def _per_unit(study: Study, event: str) -> FloatArray:
    found = np.full((len(study.table.rows), len(study.table.arm_ids)), np.nan)
    for block, row in enumerate(study.table.rows):
        for column, arm_id in enumerate(study.table.arm_ids):
            record = row.get(arm_id)
            count = None if record is None else getattr(record.facts.profile, event)
            if record is not None and count:
                found[block, column] = float(count) / units_of(record)
    return found


def _arms(
    study: Study, values: FloatArray, effects: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[CountedArm, ...]:
    """Controls and compared arms in the plan's order, without the twin."""
    places = {contrast.arm_id: place for place, contrast in enumerate(study.experiment.contrasts)}
    found = []
    for arm in study.experiment.arms:
        if arm.role == "twin":
            continue
        own = values[:, study.columns[arm.id]]
        mean = float(np.nanmean(own)) if not np.isnan(own).all() else None
        place = places.get(arm.id)
        is_known = place is not None and not math.isnan(effects[place])
        found.append(
            CountedArm(
                name=arm.name,
                stratum=arm.stratum,
                count=mean,
                ratio=1.0 if place is None else ratio_of(float(effects[place])) if is_known else None,
                interval=(1.0, 1.0)
                if place is None
                else interval_of(float(lower[place]), float(upper[place])),
                verdict="control" if place is None else _verdict(float(lower[place]), float(upper[place])),
            )
        )
    return tuple(found)


def _verdict(lower: float, upper: float) -> TimeVerdict:
    if lower <= 0.0 <= upper or lower > upper:
        return "inconclusive"
    return "less" if upper < 0.0 else "more"
