"""How long the burst credits of imitated volumes last at the rate at which trials used them.

A trial is shorter than most credits last, so what it measures may be what a volume gives for half an hour.
"""

from collections.abc import Iterator
from statistics import median

from pgassay.analysis.causes.sampler_files import read_columns
from pgassay.analysis.changes.volume_series import CREDITS, capacities
from pgassay.model.storage import ImitatedFacts
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.record.observations import floats
from pgassay.words import duration

# What lasts longer than a month of this without a pause is no matter.
_LASTS_MAX_S = 730 * 3600.0


def credit_sentences(stored: StoredExperiment) -> tuple[str, ...]:
    """One for each volume whose credits fell in an arm's trials and did not end in them."""
    names = {
        arm.id: f"{arm.name} at {arm.stratum}" if arm.stratum else arm.name
        for arm in stored.experiment.arms
        if arm.role != "twin"
    }
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for trial in stored.trials:
        if trial.record.status == "ok" and trial.record.arm_id in names:
            for volume, limiter, lasts_s in _lasting(trial):
                of_arms = found.setdefault((volume, limiter), {})
                of_arms.setdefault(names[trial.record.arm_id], []).append(lasts_s)
    return tuple(
        sentence
        for (volume, limiter), of_arms in found.items()
        if (sentence := _sentence(volume, limiter, {arm: median(each) for arm, each in of_arms.items()}))
    )


def _sentence(volume: str, limiter: str, lasts_s: dict[str, float]) -> str:
    arm = min(lasts_s, key=lambda each: lasts_s[each])
    if lasts_s[arm] > _LASTS_MAX_S:
        return ""
    return (
        f"the burst credits of {volume} ({limiter}) fell while {arm} was measured, and full ones last "
        f"{duration(lasts_s[arm])} of that without a pause: results for it, its price per transaction "
        "included, hold no longer than that; credits=empty measures its performance afterwards"
    )


def _lasting(trial: StoredTrial) -> Iterator[tuple[str, str, float]]:
    """Volume, limiter, and how long full credits last as they were used; of those that fell and lasted."""
    facts, storage = trial.record.facts, trial.record.facts.storage
    known = [("volume", storage.volume, facts.volume)]
    if storage.wal is not None:
        known.append(("wal_volume", storage.wal.volume, facts.wal_volume))
    for file, imitated, given in known:
        if given.credits_ended_s is None and (full := capacities(imitated)):
            columns = read_columns(trial.folder, file)
            elapsed_s = sum(floats(columns, "elapsed_s")) if "elapsed_s" in columns else 0.0
            begun, periods_s = _begun(imitated), _periods_s(imitated)
            for limiter, capacity in full.items():
                name = CREDITS + limiter.replace(" ", "_")
                if name not in columns or elapsed_s <= 0:
                    continue
                used = begun[limiter] - float(floats(columns, name)[-1])
                lasts_s = elapsed_s * capacity / used if used > 0 else float("inf")
                # An allowance that lasts until it is whole again never ends.
                if lasts_s < periods_s[limiter]:
                    yield imitated.name or "a volume", limiter, lasts_s


def _begun(imitated: ImitatedFacts) -> dict[str, float]:
    """The credits with which each limiter began, of all volumes of a stripe set together."""
    full = capacities(imitated)
    shares = {
        str(each["name"]): float(each.get("fill", each["capacity"])) / float(each["capacity"])
        for each in _limiters(imitated)
    }
    return {name: capacity * shares[name] for name, capacity in full.items()}


def _periods_s(imitated: ImitatedFacts) -> dict[str, float]:
    return {str(each["name"]): float(each.get("reset_period_s") or "inf") for each in _limiters(imitated)}


def _limiters(imitated: ImitatedFacts) -> Iterator[dict[str, str | float]]:
    limiters = imitated.model.get("limiters")
    for each in limiters if isinstance(limiters, list) else []:
        if isinstance(each, dict) and each.get("capacity"):
            yield each
