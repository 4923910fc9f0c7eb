"""What makes a recommendation doubtful beside the replay: figures assumed, prices, memory, a proof."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from pgassay.model.experiment import Experiment
from pgassay.model.storage import IMITATION_CPU_SHARE_MAX
from pgassay.model.volumes.size import SizedGroup
from pgassay.record.experiment import StoredExperiment
from pgassay.sizing.knees import UNSERVED_MAX
from pgassay.sizing.server_volumes import CandidateVolume
from pgassay.storage.storage_options import format_bytes, readable_bytes
from pgassay.words import join, percent_rounded, seconds

Offers = Mapping[str, CandidateVolume]
_GIB = 1024**3
_LATENCY = "latency"
_WAL = ",wal=volume:"
_NAMED_MAX = 3
_OF_REPLAY = (
    "sessions of a replay wait for each other, so times on a volume are taken between the two recordings by "
    "its latency, and a volume with too few IOPS may be slower than predicted (check with --prove)."
)


def doubts_of(
    experiment: Experiment,
    groups: Sequence[SizedGroup],
    offers: Offers,
    slow_down: float,
    size_gib: int,
    local: Collection[str] = (),
) -> Iterator[str]:
    """A sentence for each.

    offers: every volume of the groups by its name. local: the types that are disks of an instance.
    """
    yield from dict.fromkeys(
        line for group in groups for line in _of_recommended(group, offers, size_gib, local)
    )
    for group in groups:
        yield from _of_reference(group, offers, slow_down)
        yield from _refuted(group, offers, slow_down)
    yield from _of_instances(offers)
    yield from _of_prices(offers)
    yield from _of_memory(experiment, offers)
    if any(arm.spec.workload.is_replay for arm in experiment.arms):
        yield _OF_REPLAY


def imitation_doubts(experiments: Sequence[StoredExperiment]) -> Iterator[str]:
    """That volumes were imitated at the server's cost, or not as fast as they are."""
    shares: dict[str, list[float]] = {}
    beyond: dict[str, None] = {}
    for experiment in experiments:
        for trial in experiment.trials:
            facts = trial.record.facts
            volumes = (facts.volume, facts.wal_volume)
            known = [float(each.cpu_share) for each in volumes if each.cpu_share is not None]
            if trial.record.status != "ok" or not known:
                continue
            shares.setdefault(facts.storage.volume.name or "a volume", []).append(sum(known))
            if facts.storage.volume.beyond_ceiling:
                beyond[facts.storage.volume.beyond_ceiling.partition(": ")[0]] = None
    for name, found in shares.items():
        if (share := median(found)) > IMITATION_CPU_SHARE_MAX:
            yield (
                f"imitating {name} took {percent_rounded(share)} of the processors, which the server lacked: "
                "the workload may look slower there than it is, and fast volumes slower than they are. Use a "
                "machine with more processors."
            )
    yield from (f"{each}: it was measured only as fast as this machine can imitate it." for each in beyond)


def wal_of(group: SizedGroup) -> str:
    """The volume of the WAL on which requests were recorded fastest; '' where it had none of its own."""
    fastest = min(group.recordings, key=lambda each: each.seconds_per_unit)
    _, apart, wal = fastest.storage.partition(_WAL)
    return apart + wal


def _of_recommended(
    group: SizedGroup, offers: Offers, size_gib: int, local: Collection[str]
) -> Iterator[str]:
    """Of what is bought first, and of what might be where latency is low: its size, and what is assumed."""
    volumes = {each.volume: each for each in group.volumes}
    firsts = {volumes[name].within: name for name in reversed(group.recommended)}
    for name in reversed(firsts.values()):
        offer, unserved = offers[name], volumes[name].unserved_share
        if unserved > UNSERVED_MAX:
            more = percent_rounded(unserved / (1 - unserved))
            yield (
                f"writes in the background need {more} more than {name} can sustain: they pile up until the "
                "kernel makes writers wait, which is not predicted. Prove it with a load that lasts for "
                "minutes, or choose a faster volume."
            )
        if offer.data.spec.size_gib < size_gib:
            yield (
                f"{name} holds less than the {size_gib:,} GiB needed: name a larger one, or give the size of "
                "your data with --size."
            )
        if offer.data.spec.name in local:
            yield (
                f"{name} is a local disk of {offer.data.spec.instance}: its data is usually lost "
                "when the instance stops."
            )
        known = [each for each in (offer.data, offer.wal) if each is not None]
        assumed = dict.fromkeys(word for each in known for word in each.assumed if word != _LATENCY)
        if assumed:
            yield f"{name} relies on assumptions that the provider does not document: {'; '.join(assumed)}."


def _of_reference(group: SizedGroup, offers: Offers, slow_down: float) -> Iterator[str]:
    """That the volume which all are compared with may answer sooner than was assumed, and then it matters."""
    volumes = {each.volume: each for each in group.volumes}
    first, against = volumes.get(next(iter(group.recommended), "")), volumes[group.against]
    if first is None or first.within != "yes" or first.high_s is None or against.low_s is None:
        return
    # Of equal latencies equal ends were compared.
    if offers[first.volume].latencies == offers[group.against].latencies:
        return
    most = first.high_s / against.low_s - 1
    if most > slow_down:
        head = f"{group.name}: " if group.name else ""
        yield (
            f"{head}{first.volume} is compared with {group.against} at the middle of its latency: if the "
            f"former has its lowest latency and the latter its highest, it is {percent_rounded(most)} "
            "slower. Measure both (pgassay volumes fit)."
        )


def _refuted(group: SizedGroup, offers: Offers, slow_down: float) -> Iterator[str]:
    """That the volume to buy was measured and took longer than is allowed."""
    first = next((each for each in group.volumes if each.volume in group.recommended[:1]), None)
    if first is None or first.within != "yes":
        return
    measured = {check.storage: check.measured_s for check in group.checks}

    def measured_s(name: str) -> float | None:
        offer = offers[name]
        return measured.get(offer.sustained_name + ("" if offer.wal is not None else wal_of(group)))

    took_s, against_s = measured_s(first.volume), measured_s(group.against) or group.against_s
    if took_s is not None and took_s > against_s * (1 + slow_down):
        head = f"{group.name}: " if group.name else ""
        yield (
            f"{head}{first.volume} was measured: {seconds(took_s)} a {group.unit}, which is "
            f"{percent_rounded(took_s / against_s - 1)} slower than {group.against} ({seconds(against_s)}), "
            f"but {percent_rounded(slow_down)} is allowed: prove the next one (--volume …)."
        )


def _of_instances(offers: Offers) -> Iterator[str]:
    """That some prices have an instance in them and others have none."""
    priced = [each for each in offers.values() if each.price_per_month is not None]
    rented = [each for each in priced if each.data.spec.instance is not None]
    if rented and len(rented) < len(priced):
        names = [each.name for each in rented[:_NAMED_MAX]]
        more = [f"{len(rented) - _NAMED_MAX} more"] if len(rented) > _NAMED_MAX else []
        instances = dict.fromkeys(f"--instance {each.data.spec.instance}" for each in rented)
        yield (
            f"the instance is in the price of {join([*names, *more])}, and not in the others': compare them "
            f"on instances ({', '.join(instances)}, and the one that you have)."
        )


def _of_prices(offers: Offers) -> Iterator[str]:
    """Which prices the catalogue lacks, without which a volume is never recommended."""
    known = [each for offer in offers.values() for each in (offer.data, offer.wal) if each is not None]
    missing = dict.fromkeys(name for each in known for name in each.price.missing)
    if missing:
        yield (
            f"the catalogue has no price for {join(list(missing))}, so volumes that need it are "
            "not recommended: add it (--catalogue FILE)."
        )


def _of_memory(experiment: Experiment, offers: Offers) -> Iterator[str]:
    """That what was recorded was cached in another memory than that of the instance that is looked at."""
    memory = {each.data.spec.instance: each.data.memory_gib for each in offers.values()}
    caps = {arm.spec.memory_bytes for arm in experiment.arms}
    if any("memory" in arm.levels for arm in experiment.arms):
        return
    machine_bytes = experiment.environment.machine.memory_bytes
    for instance, memory_gib in memory.items():
        if instance is None or memory_gib is None or caps == {round(memory_gib * _GIB)}:
            continue
        has = "" if caps != {None} or machine_bytes is None else f" ({readable_bytes(int(machine_bytes))})"
        had = "the memory of this machine" if caps == {None} else "another memory"
        size = format_bytes(round(memory_gib * _GIB))
        yield (
            f"{instance} has {size} of memory, and requests were recorded with {had}{has}: data cached "
            f"there may have been read here, or the reverse. Record with --memory {size}."
        )
