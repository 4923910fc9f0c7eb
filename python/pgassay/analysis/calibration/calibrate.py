"""The calibration of a stored experiment: its equal arms' noise, and what that lets one tell apart."""

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from pgassay.analysis.calibration import calibration_sentences, noise, variance_levels
from pgassay.analysis.calibration.speed_modes import modes
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.statistics.power import (
    blocks_for_detection,
    resolvable_effect,
    resolvable_margin,
)
from pgassay.analysis.verdicts.blocks import covariate_log_s
from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.errors import UsageError
from pgassay.model.calibration import (
    TOLD,
    CalibrationResult,
    DriftResult,
    EqualArms,
    LedgerResult,
    ModesResult,
    NoiseResult,
    Resolution,
    StealResult,
)
from pgassay.model.result import CompareResult
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment

MINUTES = (5, 10, 15, 30, 60, 120)
# A comparison of two levels: control, the other one, and the twin.
TRIALS_PER_BLOCK = 3


def calibrate(stored: StoredExperiment, ledger: LedgerResult | None) -> CalibrationResult:
    """What this experiment's equal arms say of the machine and the workload.

    All arms whose description equals the control's count (in a comparison of unequal arms, control and
    twin). Raises UsageError when there are no two.
    """
    study = gather_study(stored)
    result = analyse(stored)
    columns = _equal_columns(study)
    blocks = list(study.table.places_with(study.table.arm_ids[place] for place in columns))
    rows = [[study.table.rows[block][study.table.arm_ids[place]] for place in columns] for block in blocks]
    logs = study.logs[0][blocks][:, columns]
    # A load's seconds say how its throughput scatters, which is another figure than a latency.
    has_seconds = not study.experiment.contract.metric.latency
    found = _components(logs, rows, has_seconds=has_seconds) if len(blocks) >= noise.BLOCKS_MIN else None
    trial_s = _mean([record.took_s for row in rows for record in row])
    block_s = None if trial_s is None else trial_s * TRIALS_PER_BLOCK
    made = _noise(found) if found else None
    drift = _drift(logs, rows)
    resolves = _resolves(study, found, block_s)
    for_margin = _minutes_for_margin(study, found, block_s)
    arms = [study.arms[study.table.arm_ids[place]] for place in columns]
    equal = variance_levels.measured(logs, rows, arms, has_seconds=has_seconds)
    copies = variance_levels.copy_effect(equal, _storage(study))
    found_levels = variance_levels.levels(equal, result.margin, _load_s(study))
    found_modes = _modes(logs, rows)
    return CalibrationResult(
        schema=1,
        folder=str(stored.folder),
        workload=result.workload,
        cache=result.cache,
        metric=result.metric,
        margin=result.margin,
        alpha=result.alpha,
        blocks=len(blocks),
        trials=len(stored.trials),
        stopped=result.stopped,
        trial_s=trial_s,
        block_s=block_s,
        noise=made,
        drift=drift,
        steal=_steal([record for row in rows for record in row]),
        resolves=resolves,
        minutes_for_margin=for_margin,
        equal_arms=_equal_arms(study, result),
        twin_evidence=result.twin.evidence,
        ledger=ledger,
        sentences=(
            *calibration_sentences.sentences(made, drift, for_margin, result.margin),
            *calibration_sentences.copy_sentences(copies),
            *calibration_sentences.level_sentences(
                found_levels, result.margin, is_load=result.metric.better == "higher"
            ),
            *calibration_sentences.mode_sentences(found_modes, made.trial if made else None),
        ),
        warnings=result.warning_sentences,
        levels=found_levels,
        copies=copies,
        modes=found_modes,
    )


def _equal_columns(study: Study) -> list[int]:
    """The columns of the arms that equal the first control, itself and its twin among them."""
    control = next((arm for arm in study.experiment.arms if arm.role == "control"), None)
    equal = [study.columns[arm.id] for arm in study.experiment.arms if control and arm.spec == control.spec]
    if len(equal) < 2:
        raise UsageError(
            f"{study.experiment.title}: no two arms are equal, so its noise can't be "
            "measured: run 'pgassay calibrate --workload W'"
        )
    return equal


def _components(
    logs: FloatArray, rows: Sequence[Sequence[TrialRecord]], *, has_seconds: bool
) -> noise.Components:
    records = [record for row in rows for record in row] if has_seconds else []
    loads = [record.load.per_second for record in records if record.load is not None]
    return noise.components(logs, noise.within_variance(loads) if loads else None)


def _noise(found: noise.Components) -> NoiseResult:
    total = found.trial + found.blocks
    parts = {
        "within_trial": found.within or 0.0,
        "between_trials": found.between,
        "between_blocks": found.blocks,
    }
    if found.within is None:
        del parts["within_trial"]
    return NoiseResult(
        within_trial=None if found.within is None else math.sqrt(found.within),
        between_trials=math.sqrt(found.between),
        between_blocks=math.sqrt(found.blocks),
        trial=math.sqrt(found.trial),
        paired=found.paired_spread,
        paired_upper=found.paired_spread_upper(),
        shares={name: value / total if total > 0 else 0.0 for name, value in parts.items()},
    )


def _drift(logs: FloatArray, rows: Sequence[Sequence[TrialRecord]]) -> DriftResult | None:
    if len(rows) < noise.DRIFT_BLOCKS_MIN:
        return None
    hours = np.array([_mean([_hours(record) for record in row]) for row in rows], dtype=np.float64)
    line = noise.trend(logs.mean(axis=1), hours)
    if line is None:
        return None
    return DriftResult(
        change=_fraction(line.change),
        interval=(_fraction(line.lower), _fraction(line.upper)),
        hours=line.hours,
        seen=line.is_seen,
    )


def _hours(record: TrialRecord) -> float:
    return datetime.fromisoformat(record.started_at).timestamp() / 3600


def _fraction(log_ratio: float) -> float:
    return math.expm1(min(log_ratio, 700.0))


def _steal(records: Sequence[TrialRecord]) -> StealResult | None:
    shares = []
    for record in records:
        if record.steal_s is not None and record.clock_ns is not None:
            measured_s = (record.clock_ns[1] - record.clock_ns[0]) / 1e9
            shares += [record.steal_s / measured_s] if measured_s > 0 else []
    return StealResult(mean=float(np.mean(shares)), highest=max(shares)) if shares else None


def _resolves(study: Study, found: noise.Components | None, block_s: float | None) -> tuple[Resolution, ...]:
    if found is None or not block_s:
        return ()
    spread, alpha = found.paired_spread_upper(), study.experiment.contract.alpha
    pooled = study.is_pooled
    rows = []
    for minutes in MINUTES:
        blocks = int(minutes * 60 / block_s)
        effect = resolvable_effect(blocks, spread, pooled=pooled, alpha=alpha)
        margin = resolvable_margin(blocks, spread, pooled=pooled, alpha=alpha)
        rows.append(
            Resolution(minutes=minutes, blocks=blocks, effect=_finite(effect), margin=_finite(margin))
        )
    return tuple(rows)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _minutes_for_margin(study: Study, found: noise.Components | None, block_s: float | None) -> float | None:
    """How long it takes to find a difference as large as the margin, at 80 % power."""
    if found is None or not block_s:
        return None
    contract = study.experiment.contract
    blocks = blocks_for_detection(
        found.paired_spread_upper(), contract.margin, pooled=study.is_pooled, alpha=contract.alpha
    )
    return blocks * block_s / 60


def _equal_arms(study: Study, result: CompareResult) -> tuple[EqualArms, ...]:
    control = next(arm for arm in study.experiment.arms if arm.role == "control")
    equal = {arm.name for arm in study.experiment.arms if arm.spec == control.spec and arm.role == "arm"}
    return tuple(
        EqualArms(name=arm.name, ratio=arm.ratio, interval=arm.interval, verdict=arm.verdict)
        for arm in result.arms
        if arm.name in equal and arm.verdict != "control"
    )


def _storage(study: Study) -> str:
    """What the control's data lie on, as it was found when they were copied there."""
    control = next(arm for arm in study.experiment.arms if arm.role == "control")
    facts = study.experiment.environment.storage.get(control.name)
    return (facts.storage if facts is not None else None) or control.spec.storage.kind


def _load_s(study: Study) -> float | None:
    """What a fresh load of the data takes."""
    known = [facts.seconds for facts in study.experiment.environment.datasets.values()]
    return _mean(known)


def _modes(logs: FloatArray, rows: Sequence[Sequence[TrialRecord]]) -> ModesResult | None:
    if not rows:
        return None
    readings = {
        name: np.array([[covariate_log_s(name, record) for record in row] for row in rows]) for name in TOLD
    }
    return modes(logs, readings)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
