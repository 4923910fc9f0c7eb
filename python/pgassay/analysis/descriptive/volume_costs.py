"""What the imitated volumes of each arm cost, and what of a comparison of them is assumed."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pgassay.model.experiment import Experiment
from pgassay.model.result import ArmResult
from pgassay.model.storage import ImitatedFacts, StorageFacts
from pgassay.model.volumes.arm import ArmVolumes, UsedVolume

# As providers count a month.
_MONTH_S = 730 * 3600
_TRANSACTIONS = "transactions/s"


def arm_volumes(experiment: Experiment, arms: Sequence[ArmResult]) -> tuple[ArmVolumes, ...]:
    """One for each arm or control whose data or WAL lie on an imitated volume; () where none do."""
    medians = {(arm.name, arm.stratum): arm.median for arm in arms}
    is_load = experiment.contract.metric.unit == _TRANSACTIONS
    found = []
    for arm in experiment.arms:
        used = _used(experiment.environment.storage.get(arm.name, StorageFacts()))
        if arm.role == "twin" or not used:
            continue
        rate = medians.get((arm.name, arm.stratum)) if is_load else None
        found.append(_of_arm(arm.name, arm.stratum, used, rate))
    return tuple(found)


_Used = tuple[Literal["data", "wal"], ImitatedFacts]


def _used(storage: StorageFacts) -> list[_Used]:
    found: list[_Used] = [("data", storage.volume)] if storage.volume.name else []
    if storage.wal is not None and storage.wal.volume.name:
        found.append(("wal", storage.wal.volume))
    return found


def _of_arm(arm: str, stratum: str, used: Sequence[_Used], rate: float | None) -> ArmVolumes:
    prices = [facts.price for _, facts in used]
    amounts = [price.per_month for price in prices]
    currencies = {price.currency for price in prices}
    # Two currencies have no sum.
    is_known = None not in amounts and len(currencies) == 1
    per_month = round(sum(float(amount or 0) for amount in amounts), 2) if is_known else None
    first = used[0][1]
    return ArmVolumes(
        arm=arm,
        stratum=stratum,
        volumes=tuple(_volume(holds, facts) for holds, facts in used),
        instance=next((facts.instance for _, facts in used if facts.instance), None),
        per_month=per_month,
        per_million_transactions=per_month * 1e6 / (rate * _MONTH_S)
        if per_month is not None and rate
        else None,
        currency=currencies.pop() if len(currencies) == 1 else None,
        region=first.price.region,
        price_date=first.price.date,
        missing=tuple(dict.fromkeys(name for price in prices for name in price.missing)),
        catalogue_date=first.catalogue_date or "",
        catalogue_files=first.catalogue_files,
    )


def _volume(holds: Literal["data", "wal"], facts: ImitatedFacts) -> UsedVolume:
    return UsedVolume(
        name=facts.name or "",
        holds=holds,
        latency_ms=facts.latency.median_ms,
        latency_low_ms=facts.latency.low_ms,
        latency_high_ms=facts.latency.high_ms,
        latency_assumed=bool(facts.latency.assumed),
        assumed=facts.assumed,
    )


def assumption_sentences(volumes: Sequence[ArmVolumes]) -> tuple[str, ...]:
    """Which of two compared types answers sooner may not be known: a sentence for each such pair."""
    found: dict[str, None] = {}
    for place, first in enumerate(volumes):
        for second in volumes[place + 1 :]:
            for holds in ("data", "wal"):
                found |= dict.fromkeys(_doubt(_holding(first, holds), _holding(second, holds)))
    return tuple(found)


def _holding(each: ArmVolumes, holds: str) -> UsedVolume:
    """The WAL lies with the data where it has no volume of its own, or they with it as far as is known."""
    return next((volume for volume in each.volumes if volume.holds == holds), each.volumes[0])


def _doubt(first: UsedVolume, second: UsedVolume) -> Iterator[str]:
    # Whatever the latency of a type is, all of it share it.
    if _type(first) == _type(second) or not (first.latency_assumed or second.latency_assumed):
        return
    if _overlap(first, second):
        first, second = sorted((first, second), key=_type)
        yield (
            f"which of {_type(first)} and {_type(second)} has the lower latency is assumed ({_range(first)} "
            f"and {_range(second)}): differences from operations, bytes and credits hold, differences from "
            "latency may not"
        )


def _type(volume: UsedVolume) -> str:
    return volume.name.split(",")[0]


def _range(volume: UsedVolume) -> str:
    return f"{volume.latency_low_ms:g} to {volume.latency_high_ms:g} ms"


def _overlap(first: UsedVolume, second: UsedVolume) -> bool:
    ends = (first.latency_low_ms, first.latency_high_ms, second.latency_low_ms, second.latency_high_ms)
    if None in ends:
        return False
    low_a, high_a, low_b, high_b = (float(end or 0) for end in ends)
    return low_a <= high_b and low_b <= high_a
