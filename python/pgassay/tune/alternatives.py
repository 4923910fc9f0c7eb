"""What else the workload's server could run on: newer versions at hand, the next faster volume."""

from dataclasses import replace

from pgassay.cloud_volumes.catalogue import LoadedCatalogue
from pgassay.cloud_volumes.explain import text_of
from pgassay.cloud_volumes.price import price_of
from pgassay.cloud_volumes.sustained_volumes import cheapest_sustained
from pgassay.environment.builds.registry import ORIGINS, resolve
from pgassay.environment.server.validation import with_data_format
from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec
from pgassay.model.volumes.offer import VolumeSpec
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import KINDS
from pgassay.storage.volume import VolumeKind, catalogue, model_for, ordered
from pgassay.storage.volume_facts import peaks_of
from pgassay.tune.candidate import OtherStorage, OtherVersion

# The data of another version are loaded anew, and twice for each arm of a proof.
LOAD_SHARE_MAX = 0.05
PHYSICAL = (
    "its server can't read a physical copy of another version's data: give a dump, --dataset dump:FILE, to "
    "have it tried"
)
# How much more the next volume is to give.
FASTER_TIMES = 2.0
# What a volume keeps that takes another's place.
_KEPT = ("instance", "closest")


def other_versions(spec: ArmSpec, load_s: float, max_time_s: float) -> tuple[OtherVersion, ...]:
    """The newer majors that are at hand, the best build of each; nothing is downloaded.

    `load_s`: what loading the data took.
    """
    majors = {
        build.major for origin in ORIGINS for build in origin.builds() if build.major > spec.build.major
    }
    found = []
    for major in sorted(majors):
        try:
            build = with_data_format(resolve(str(major)))
        except UsageError:
            continue
        why_not = ""
        if spec.dataset.kind == "folder":
            why_not = PHYSICAL
        elif load_s > LOAD_SHARE_MAX * max_time_s:
            why_not = (
                f"loading the data took {load_s:.0f} s, and each arm of another version loads them twice: "
                "give more --max-time to have it tried"
            )
        found.append(OtherVersion(build, why_not))
    return tuple(found)


def other_storages(spec: ArmSpec) -> tuple[OtherStorage, ...]:
    """The cheapest volumes that give twice the bytes, or twice the operations, of the imitated one in use.

    () where the data lie on none, and where there is no such volume.
    """
    if spec.storage.kind != VolumeKind.name:
        return ()
    loaded = catalogue()
    now = ordered(spec.storage, loaded)
    if now is None:
        return ()
    alone = now.model_copy(update={"instance": None})
    operations, transferred = peaks_of(model_for(spec.storage, loaded))
    demands = ((operations, FASTER_TIMES * transferred), (FASTER_TIMES * operations, transferred))
    wanted = [cheapest_sustained(alone, loaded.catalogue, *demand) for demand in demands]
    by_text = {text_of(each): each for each in wanted if each is not None}
    made = [_storage(spec, alone, each, loaded) for each in by_text.values()]
    # Where neither grows the instance is the limit.
    return tuple(
        each for each in made if each.bytes > each.bytes_now or each.operations > each.operations_now
    )


def _storage(spec: ArmSpec, now: VolumeSpec, wanted: VolumeSpec, loaded: LoadedCatalogue) -> OtherStorage:
    kept = [f"{key}={value}" for key, value in spec.storage.own if key in _KEPT]
    if spec.storage.read_ahead_kb is not None:
        kept.append(f"read_ahead={spec.storage.read_ahead_kb}")
    storage = parse_storage(",".join([f"{VolumeKind.name}:{text_of(wanted)}", *kept]))
    storage = storage.model_copy(update={"wal": spec.storage.wal})
    given, before = (peaks_of(model_for(each, loaded)) for each in (storage, spec.storage))
    found = OtherStorage(storage, text_of(wanted), *given, *before)
    found = replace(found, why_not=KINDS[VolumeKind.name].unreachable(storage, [1]) or "")
    return _with_price(found, now, wanted, loaded)


def _with_price(
    found: OtherStorage, now: VolumeSpec, wanted: VolumeSpec, loaded: LoadedCatalogue
) -> OtherStorage:
    before, after = (price_of(each, loaded.catalogue) for each in (now, wanted))
    if before.per_month is None or after.per_month is None or before.currency != after.currency:
        return found
    difference = round(after.per_month - before.per_month, 2)
    return replace(found, per_month=difference, currency=after.currency or "")
