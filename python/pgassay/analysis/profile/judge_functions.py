"""Which functions take more or less time per transaction: times of trials, evidence, and the discoveries.

A function's time per transaction is compared, and not its share of all samples: shares always sum to one, so
that one function's gain is every other's loss.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgassay.analysis.profile import stacks
from pgassay.analysis.statistics import ebh
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.layouts import ends_with_layouts
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import interval_of, ratio_of
from pgassay.model.arm import Arm
from pgassay.model.profile.result import FunctionArm, FunctionTimes, TimeVerdict
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredTrial

# A smaller share of all arms' time explains nothing, and more functions cost every one its evidence.
SHARE_MIN = 0.005
FUNCTIONS_MAX = 40
# Of a function that hardly calls anything, its own time says it all; one that holds nearly all is the whole.
CALLING_MIN = 1.25
SHARE_MAX = 0.9
# Half a sample more in every trial: a function that one trial never met has a logarithm as well.
HALF = 0.5
ALL = "all functions"
Reading = Callable[[Path], Mapping[tuple[str, ...], float] | None]


@dataclass(frozen=True)
class Profiled:
    """The profiled trials of complete blocks: `units` and samples by function, of each block and arm.

    own, whole: by function the samples, shape (blocks, arms); totals: all of them; units: transactions, or 1
    for a pass over the statements. NaN where an arm took no part. rate_hz: samples a second.
    """

    rate_hz: float
    units: FloatArray
    totals: FloatArray
    own: Mapping[str, FloatArray]
    whole: Mapping[str, FloatArray]


def gather(
    study: Study,
    trials: Sequence[StoredTrial],
    renamed: Mapping[str, Mapping[str, str]],
    *,
    read: Reading = stacks.stacks_of,
    rate_hz: float = 0.0,
) -> Profiled | None:
    """The samples of a profile's trials; None where no complete block was profiled.

    renamed: by arm id the names that functions have in the control. read: gives them by stack, of a trial's
    folder; rate_hz: how many there are a second, 0 for what the trials say. Raises UsageError for a damaged
    file.
    """
    folders = {(trial.record.number, trial.record.attempt): trial.folder for trial in trials}
    shape = len(study.table.rows), len(study.table.arm_ids)
    units, totals = np.full(shape, np.nan), np.full(shape, np.nan)
    own: dict[str, FloatArray] = {}
    whole: dict[str, FloatArray] = {}
    asked_hz = rate_hz
    for block, row in enumerate(study.table.rows):
        for column, arm_id in enumerate(study.table.arm_ids):
            record = row.get(arm_id)
            found = None if record is None else read(folders[record.number, record.attempt])
            if record is None or found is None:
                continue
            found = stacks.under_names(found, renamed.get(arm_id, {}))
            rate_hz = asked_hz or float(record.facts.profile.rate_hz or rate_hz)
            units[block, column] = units_of(record)
            totals[block, column] = sum(found.values())
            for table, counted in ((own, stacks.own_samples(found)), (whole, stacks.whole_samples(found))):
                for name, count in counted.items():
                    table.setdefault(name, np.zeros(shape))[block, column] = count
    if not rate_hz or np.isnan(totals[study.table.present]).any():
        return None
    return Profiled(rate_hz, units, totals, own, whole)


def units_of(record: TrialRecord) -> float:
    """What a trial's time is divided by: its transactions, or 1 where it is a list of statements."""
    return float(record.load.transactions) if record.load is not None else 1.0


def chosen(profiled: Profiled, *, own: bool) -> list[str]:
    """The functions that are compared, the most time first; chosen by all arms together."""
    table = profiled.own if own else profiled.whole
    whole = float(np.nansum(profiled.totals))
    shares = {name: float(np.nansum(counts)) / whole for name, counts in table.items()}
    names = [name for name, share in shares.items() if share >= SHARE_MIN]
    if not own:
        within = {name: float(np.nansum(counts)) / whole for name, counts in profiled.own.items()}
        names = [
            name
            for name in names
            if shares[name] <= SHARE_MAX and shares[name] >= CALLING_MIN * within.get(name, 0.0)
        ]
        # Functions that are in the very same samples are one way through the code, and one hypothesis.
        ways: dict[bytes, str] = {}
        for name in sorted(names, key=lambda name: (within.get(name, 0.0), name)):
            ways[np.nan_to_num(table[name]).tobytes()] = name
        names = list(ways.values())
    return sorted(names, key=lambda name: (-shares[name], name))[:FUNCTIONS_MAX]


def judged(study: Study, profiled: Profiled, *, own: bool) -> tuple[FunctionTimes, ...]:
    """The functions with their times and intervals; those that differ are a family's discoveries (e-BH).

    A discovery's interval is at level α·k*/M, another's at α/M. Of trees in several layouts none is narrower
    than those allow.
    """
    names = chosen(profiled, own=own)
    if not names or not study.blocks:
        return ()
    table = profiled.own if own else profiled.whole
    counts = np.stack([table[name] for name in names])
    present = study.table.present[np.newaxis]
    seconds = np.where(present, (counts + HALF) / profiled.rate_hz / profiled.units, np.nan)
    logs = np.log(seconds)
    contrasts = study.contrast_set(logs)
    alpha, size = study.experiment.contract.alpha, len(names) * len(study.experiment.contrasts)
    selection = ebh.select(contrasts.log_evidence().ravel(), alpha)
    selected = selection.selected.reshape(len(names), -1)
    wide = contrasts.intervals(alpha / size, running=False)
    level = ebh.selected_level(alpha, selection) if selection.count else alpha / size
    narrow = contrasts.intervals(level, running=False)
    effects = contrasts.effects()
    ends = np.where(selected, narrow.lower, wide.lower), np.where(selected, narrow.upper, wide.upper)
    # Where a function lies in memory moves its time too, and is no tree's doing.
    levels = np.where(selected, level, alpha / size)
    lower, upper = ends_with_layouts(study, logs, effects, ends, levels)
    whole = float(np.nansum(profiled.totals))
    us = _mean_us(counts, profiled)
    return tuple(
        FunctionTimes(
            name=name.removesuffix(stacks.KERNEL_MARK),
            in_kernel=name.endswith(stacks.KERNEL_MARK),
            own=own,
            share=float(np.nansum(counts[place])) / whole,
            arms=tuple(
                FunctionArm(
                    name=each.arm.name,
                    stratum=each.arm.stratum,
                    us=known(us[place, study.columns[each.arm.id]]),
                    ratio=each.ratio,
                    interval=each.interval,
                    verdict=each.verdict,
                )
                for each in judged_arms(study, effects[place], lower[place], upper[place], selected[place])
            ),
        )
        for place, name in enumerate(names)
    )


def _mean_us(counts: FloatArray, profiled: Profiled) -> FloatArray:
    """µs per unit of each function in each arm, the mean over the blocks; (functions, arms)."""
    found = np.full((counts.shape[0], counts.shape[2]), np.nan)
    has = ~np.isnan(profiled.units)
    for column in range(counts.shape[2]):
        blocks = has[:, column]
        if blocks.any():
            times = counts[:, blocks, column] / profiled.units[blocks, column]
            found[:, column] = times.mean(axis=1) / profiled.rate_hz * 1e6
    return found


def total_us(study: Study, profiled: Profiled) -> dict[str, float | None]:
    """All time per unit in µs by arm id, the mean over the blocks."""
    us = _mean_us(profiled.totals[np.newaxis], profiled)[0]
    return {name: known(us[place]) for name, place in study.columns.items()}


def known(value: float) -> float | None:
    """The value; None for one that is not a number."""
    return None if math.isnan(value) else float(value)


@dataclass(frozen=True)
class JudgedArm:
    """An arm beside its control: the ratio is None where it is not known; see `FunctionArm`."""

    arm: Arm
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: TimeVerdict


def judged_arms(
    study: Study,
    effects: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    selected: FloatArray | None = None,
) -> Iterator[JudgedArm]:
    """Controls and compared arms in the plan's order; the twin is part of the evidence alone.

    effects, lower, upper: log ratios, by contrast. selected: which of them may have a verdict; None for all.
    """
    places = {contrast.arm_id: place for place, contrast in enumerate(study.experiment.contrasts)}
    for arm in study.experiment.arms:
        if arm.role == "twin":
            continue
        place = places.get(arm.id)
        if place is None:
            yield JudgedArm(arm, 1.0, (1.0, 1.0), "control")
            continue
        ends = float(lower[place]), float(upper[place])
        ratio = None if math.isnan(effects[place]) else ratio_of(float(effects[place]))
        may_differ = selected is None or bool(selected[place])
        yield JudgedArm(arm, ratio, interval_of(*ends), _verdict(may_differ, *ends))


def _verdict(selected: bool, lower: float, upper: float) -> TimeVerdict:
    if not selected or lower <= 0.0 <= upper or lower > upper:
        return "inconclusive"
    return "less" if upper < 0.0 else "more"
