"""The volumes that may be bought: each type in steps of what can be ordered of it."""

import math
from collections.abc import Iterator, Sequence

from pgassay.cloud_volumes.catalogue import LoadedCatalogue
from pgassay.cloud_volumes.explain import explain
from pgassay.cloud_volumes.parse import is_fixed, plain, range_of
from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import Catalogue, Rate, VolumeEntry
from pgassay.model.volumes.offer import VolumeOffer
from pgassay.sizing.server_volumes import CandidateVolume
from pgassay.storage.storage_options import split_wal

# A larger volume is bought for its operations.
_SIZE_STEPS = (1, 1.5, 2, 3, 5, 8, 12, 20, 34, 54, 80, 140)
_OPERATIONS_STEPS = (1, 4 / 3, 5 / 3, 2, 8 / 3, 4, 16 / 3, 8, 12, 16, 24)
_OPERATIONS_REQUIRED = (1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 32_000, 64_000, 128_000)
_THROUGHPUT_STEPS = (1, 1.6, 2, 4, 8, 16)
CANDIDATES_MAX = 500


def candidates(
    loaded: LoadedCatalogue,
    size_gib: int,
    *,
    volumes: Sequence[str] = (),
    providers: Sequence[str] = (),
    instances: Sequence[str] = (),
    wals: Sequence[str] = (),
) -> tuple[CandidateVolume, ...]:
    """The volumes that are named, else all that hold `size_gib` and have a price, cheapest first.

    Args:
        loaded: the catalogue.
        size_gib: what they must hold.
        volumes: texts as `pgassay volumes` takes them; these alone, with a price or without. One with `wal=`
            brings the volume of the WAL with it.
        providers: those of these alone; all of them where it is empty.
        instances: the limits of each of these are added to the volumes of its provider; others are left out,
            as local disks are of instances that are not among them.
        wals: the volumes on which the WAL lies, each beside every volume of its provider.

    Raises:
        UsageError: a volume, a provider or an instance is unknown, or nothing or too much is left.
    """
    catalogue = loaded.catalogue
    known = sorted({entry.provider for entry in catalogue.volumes.values()})
    for provider in providers:
        if provider not in known:
            raise UsageError(f"The catalogue has no provider '{provider}': it has {', '.join(known)}.")
    for each in instances:
        if each not in catalogue.instances:
            raise UsageError(
                f"The catalogue doesn't know the instance '{each}': it has {', '.join(catalogue.instances)}."
            )
    beside: Sequence[str | None] = wals or [None]
    if volumes:
        named = [
            candidate(_with_instance(text, instance), loaded, wal)
            for text in volumes
            for instance in instances or (None,)
            for wal in beside
        ]
        return _distinct(named)
    _explained_wals(wals, loaded)
    found = [
        each
        for name, entry in catalogue.volumes.items()
        if not providers or entry.provider in providers
        for each in _of_type(name, entry, size_gib, loaded, instances, beside)
    ]
    if not found:
        words = f" on {' or '.join(instances)}" if instances else ""
        words += f" with {' or '.join(wals)}" if wals else ""
        raise UsageError(
            f"No volume of the catalogue with a price holds {size_gib} GiB here{words}: "
            "name some with --volume, or add prices (--catalogue FILE)."
        )
    found.sort(key=lambda each: (each.price_per_month or 0.0, each.name))
    return _few_enough(_distinct(found))


def _few_enough(found: tuple[CandidateVolume, ...]) -> tuple[CandidateVolume, ...]:
    # To leave out the dearest would be to leave out the fastest, with which all are compared.
    if len(found) > CANDIDATES_MAX:
        raise UsageError(
            f"These are {len(found)} volumes; at most {CANDIDATES_MAX} are compared: "
            "name fewer --wal or --instance, one --provider, or volumes with --volume."
        )
    return found


def _of_type(
    name: str,
    entry: VolumeEntry,
    size_gib: int,
    loaded: LoadedCatalogue,
    instances: Sequence[str],
    wals: Sequence[str | None],
) -> Iterator[CandidateVolume]:
    """What of a type has a price, on each of the instances that it fits, beside each volume of the WAL."""
    if entry.instance is not None and entry.instance not in instances:
        return  # its price would be the only one that has an instance in it
    on: Sequence[str | None] = [each for each in instances if _fits(entry, each, loaded.catalogue)]
    for text in _texts(name, entry, size_gib):
        for instance in on if instances else (None,):
            for wal in wals:
                try:
                    made = candidate(_with_instance(text, instance), loaded, wal)
                except UsageError:
                    continue  # beyond what is sold together, such as IOPS per GiB
                if made.price_per_month is not None:
                    yield made


def candidate(text: str, loaded: LoadedCatalogue, wal: str | None = None) -> CandidateVolume:
    """The volume that the text orders, with that of the WAL: the text's own (`…,wal=volume:…`), or `wal`.

    Raises UsageError for one that can't be had, or not together.
    """
    data_text, own = split_wal(text)
    wal = wal if own is None else own.removeprefix("volume:")
    (data,) = explain([data_text], loaded).volumes
    if wal is None:
        return CandidateVolume(data)
    (offer,) = _explained_wals([wal], loaded)
    if offer.provider != data.provider:
        raise UsageError(f"{data.model.name} is of {data.provider}, and its WAL's {wal} of {offer.provider}.")
    paid_in = [each.price.currency for each in (data, offer) if each.price.per_month is not None]
    if len(set(paid_in)) > 1:
        raise UsageError(
            f"{data.model.name} is paid for in {paid_in[0]}, and its WAL's {wal} in {paid_in[1]}: "
            "type a region=… of one currency for both."
        )
    if data.spec.instance is None or offer.spec.instance is not None:
        return CandidateVolume(data, offer)
    on_instance = explain([f"{offer.model.name},instance={data.spec.instance}"], loaded).volumes[0].model
    return CandidateVolume(data, offer, on_instance)


def reference(
    text: str, loaded: LoadedCatalogue, instances: Sequence[str] = (), wals: Sequence[str] = ()
) -> CandidateVolume:
    """The volume that all are compared with: on the first of the instances and beside the first of the WAL's.

    Where it names one itself, or is of another provider than the instances, it stays as it is.
    """
    wal = wals[0] if wals else None
    found = candidate(text, loaded, wal)
    of_provider = [
        each for each in instances if loaded.catalogue.instances[each].provider == found.data.provider
    ]
    if found.data.spec.instance is not None or not of_provider:
        return found
    return candidate(_with_instance(text, of_provider[0]), loaded, wal)


def _explained_wals(wals: Sequence[str], loaded: LoadedCatalogue) -> tuple[VolumeOffer, ...]:
    for wal in wals:
        if any(part.strip().startswith("instance=") for part in wal.split(",")):
            raise UsageError(f"The instance in '{wal}' is ordered with the volume of the data: leave it out.")
    return explain([wal.removeprefix("volume:") for wal in wals], loaded).volumes


def _fits(entry: VolumeEntry, instance: str, catalogue: Catalogue) -> bool:
    if entry.instance is not None:
        return entry.instance == instance
    return entry.provider == catalogue.instances[instance].provider


def _with_instance(text: str, instance: str | None) -> str:
    if instance is None or "instance=" in text:
        return text
    data, wal = split_wal(text)
    return f"{data},instance={instance}" + ("" if wal is None else f",wal={wal}")


def _distinct(found: Sequence[CandidateVolume]) -> tuple[CandidateVolume, ...]:
    return tuple({each.name: each for each in found}.values())


def _texts(name: str, entry: VolumeEntry, needed_gib: int) -> Iterator[str]:
    """What can be ordered of a type, in steps; some of it may not be sold together."""
    least, most = entry.ranges[0].from_gib, entry.ranges[-1].to_gib
    if most < needed_gib:
        return
    for size_gib in _sizes(entry, max(least, needed_gib), most):
        here = range_of(entry, size_gib)
        for iops in _amounts(here.operations, size_gib, _OPERATIONS_STEPS):
            # Of a type that sells so many operations for each GiB, more of them take a larger size.
            bought_gib = max(size_gib, _size_for(here.operations, iops))
            size = "" if is_fixed(entry) else f",size={bought_gib}GiB"
            for throughput in _amounts(here.throughput, size_gib, _THROUGHPUT_STEPS):
                yield name + size + _option("iops", iops) + _option("throughput", throughput)


def _size_for(rate: Rate | None, ordered: float | None) -> int:
    """The least GiB with which so much can be ordered; 0 where the size doesn't matter."""
    if ordered is None or rate is None or rate.settable is None or rate.settable.per_gib is None:
        return 0
    return math.ceil(ordered / rate.settable.per_gib)


def _sizes(entry: VolumeEntry, needed_gib: int, most: int) -> list[int]:
    """The size that is needed; larger ones too where they give more."""
    if is_fixed(entry):
        return [most]
    gains = any(
        rate is not None and (rate.per_gib > 0 or (rate.burst is not None and rate.burst.peak_per_gib > 0))
        for here in entry.ranges
        for rate in (here.operations, here.throughput)
    )
    begins = [here.from_gib for here in entry.ranges if here.from_gib > needed_gib]
    sizes = [round(needed_gib * step) for step in _SIZE_STEPS] if gains else [needed_gib, *begins]
    return sorted({min(size, most) for size in sizes})


def _amounts(rate: Rate | None, size_gib: int, steps: Sequence[float]) -> list[float | None]:
    """What is included (None), and what can be ordered beyond it, up to the most that is sold."""
    if rate is None or rate.settable is None:
        return [None]
    least, most = rate.settable.minimum or 0.0, rate.settable.maximum
    if rate.settable.required:
        return [*sorted({most, *(float(each) for each in _OPERATIONS_REQUIRED if least <= each <= most)})]
    included = rate.of_size(size_gib)
    return [None, *sorted({most, *(float(round(min(included * step, most))) for step in steps[1:])})]


def _option(key: str, amount: float | None) -> str:
    return "" if amount is None else f",{key}={plain(amount)}"
