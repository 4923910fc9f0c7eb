"""What the imitated volumes of each arm cost, and what of a comparison of them is assumed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.result import ArmResult
from pgassay.model.storage import ImitatedFacts, PriceFacts, StorageFacts
from pgassay.model.volumes.arm import ArmVolumes, UsedVolume
from pgassay.words import figure

# As providers count a month.
_MONTH_S = 730 * 3600
_TRANSACTIONS = "transactions/s"


def arm_volumes(experiment: Experiment, arms: Sequence[ArmResult]) -> tuple[ArmVolumes, ...]:
    """One for each arm or control on an imitated volume, or with a price of the user's; () without any."""
    results = {(arm.name, arm.stratum): arm for arm in arms}
    is_load = experiment.contract.metric.unit == _TRANSACTIONS
    found = []
    for arm in experiment.arms:
        storage = experiment.environment.storage.get(arm.name, StorageFacts())
        used, given = _used(storage), experiment.environment.prices.get(arm.name)
        if arm.role == "twin" or not (used or given):
            continue
        result = results.get((arm.name, arm.stratum))
        rate = result.median if result is not None and is_load else None
        volumes = tuple(_volume(holds, facts) for holds, facts in used) or (_own_disk(arm.name, storage),)
        price = _price([facts.price for _, facts in used]) if given is None else given
        found.append(_of_arm(arm, volumes, used[0][1] if used else ImitatedFacts(), price, rate))
    return tuple(_with_work_price(each, found, results) for each in found)


_Used = tuple[Literal["data", "wal"], ImitatedFacts]


def _used(storage: StorageFacts) -> list[_Used]:
    found: list[_Used] = [("data", storage.volume)] if storage.volume.name else []
    if storage.wal is not None and storage.wal.volume.name:
        found.append(("wal", storage.wal.volume))
    return found


def _price(prices: Sequence[PriceFacts]) -> PriceFacts:
    """That of all volumes together; two currencies have no sum."""
    amounts = [price.per_month for price in prices]
    currencies = {price.currency for price in prices}
    is_known = None not in amounts and len(currencies) == 1
    return PriceFacts(
        per_month=round(sum(float(amount or 0) for amount in amounts), 2) if is_known else None,
        currency=currencies.pop() if len(currencies) == 1 else None,
        region=prices[0].region,
        date=prices[0].date,
        missing=tuple(dict.fromkeys(name for price in prices for name in price.missing)),
    )


def _of_arm(
    arm: Arm,
    volumes: tuple[UsedVolume, ...],
    first: ImitatedFacts,
    price: PriceFacts,
    rate: float | None,
) -> ArmVolumes:
    per_month = price.per_month
    return ArmVolumes(
        arm=arm.name,
        stratum=arm.stratum,
        volumes=volumes,
        instance=first.instance,
        per_month=per_month,
        per_million_transactions=per_month * 1e6 / (rate * _MONTH_S)
        if per_month is not None and rate
        else None,
        currency=price.currency,
        region=price.region,
        price_date=price.date,
        missing=price.missing,
        catalogue_date=first.catalogue_date or "",
        catalogue_files=first.catalogue_files,
        price_given=price.is_given,
    )


def _with_work_price(
    own: ArmVolumes, all_: Sequence[ArmVolumes], results: Mapping[tuple[str, str], ArmResult]
) -> ArmVolumes:
    """With the price of the same work over the control's; its interval is that of the speeds."""
    result = results.get((own.arm, own.stratum))
    controls = [
        each
        for each in all_
        if each.stratum == own.stratum
        and (found := results.get((each.arm, each.stratum))) is not None
        and found.verdict == "control"
    ]
    if result is None or not result.ratio or not controls or result.withheld:
        return own
    control = controls[0]
    if own.per_month is None or not control.per_month or own.currency != control.currency:
        return own
    if own is control:
        return own.model_copy(update={"work_price_ratio": 1.0})
    months = own.per_month / control.per_month
    low, high = result.interval or (None, None)
    ends = (months / high, months / low) if low and high and high < math.inf else None
    return own.model_copy(update={"work_price_ratio": months / result.ratio, "work_price_interval": ends})


def _own_disk(arm: str, storage: StorageFacts) -> UsedVolume:
    """A storage that is no volume of the catalogue, of which the user knows the price."""
    return UsedVolume(
        name=storage.storage or arm,
        holds="data",
        latency_ms=None,
        latency_low_ms=None,
        latency_high_ms=None,
        latency_assumed=False,
        assumed=(),
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
    return f"{figure(volume.latency_low_ms or 0.0, 6)} to {figure(volume.latency_high_ms or 0.0, 6)} ms"


def _overlap(first: UsedVolume, second: UsedVolume) -> bool:
    ends = (first.latency_low_ms, first.latency_high_ms, second.latency_low_ms, second.latency_high_ms)
    if None in ends:
        return False
    low_a, high_a, low_b, high_b = (float(end or 0) for end in ends)
    return low_a <= high_b and low_b <= high_a
