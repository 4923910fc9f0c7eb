"""Instructions and cycles per unit of work, by the processor's own counters, where the machine has them."""

import math
from collections.abc import Sequence

import numpy as np

from pgassay.analysis.profile.judge_functions import judged_arms, known, units_of
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.layouts import ends_with_layouts
from pgassay.analysis.verdicts.study import Study
from pgassay.model.profile.result import CountedArm, CountedEvent, ProfileFacts

EVENTS = ("instructions", "cycles")


def counted_events(study: Study) -> tuple[CountedEvent, ...]:
    """What all trials of complete blocks have counted, each arm with its control.

    Intervals hold for both events and all arms together. An event that some trial lacks is not told.
    """
    counts = {event: _per_unit(study, event) for event in EVENTS}
    told = [event for event in EVENTS if not np.isnan(counts[event][study.table.present]).any()]
    if not told or not study.blocks:
        return ()
    values = np.stack([counts[event] for event in told])
    logs = np.log(values)
    contrasts = study.contrast_set(logs)
    level = study.experiment.contract.alpha / (len(told) * len(study.experiment.contrasts))
    ends, effects = contrasts.intervals(level, running=False), contrasts.effects()
    levels = np.full(effects.shape, level)
    lower, upper = ends_with_layouts(study, logs, effects, (ends.lower, ends.upper), levels)
    return tuple(
        CountedEvent(
            event=event,
            arms=tuple(
                CountedArm(
                    name=each.arm.name,
                    stratum=each.arm.stratum,
                    count=known(_mean(values[place, :, study.columns[each.arm.id]])),
                    ratio=each.ratio,
                    interval=each.interval,
                    verdict=each.verdict,
                )
                for each in judged_arms(study, effects[place], lower[place], upper[place])
            ),
        )
        for place, event in enumerate(told)
    )


def counters_note(facts: Sequence[ProfileFacts]) -> str:
    """Why there are no counts of instructions and cycles; '' where there are, and of older records."""
    if any(each.counters is False for each in facts):
        return "instructions and cycles are not counted: this machine gives perf no hardware counters"
    if any(each.counters and each.instructions is None for each in facts):
        return "instructions and cycles are left out: perf counted them in some of the trials only"
    return ""


def _mean(values: FloatArray) -> float:
    """Over the blocks that have it; not a number where none has."""
    return math.nan if np.isnan(values).all() else float(np.nanmean(values))


def _per_unit(study: Study, event: str) -> FloatArray:
    found = np.full((len(study.table.rows), len(study.table.arm_ids)), np.nan)
    for block, row in enumerate(study.table.rows):
        for column, arm_id in enumerate(study.table.arm_ids):
            record = row.get(arm_id)
            count = None if record is None else getattr(record.facts.profile, event)
            if record is not None and count:
                found[block, column] = float(count) / units_of(record)
    return found
