"""The kind `volume`: a cloud volume of the catalogue, imitated in real time.

All such storages of an experiment share one device, one image and its data, in the same place: what differs
between them is the model that the device follows while a trial measures. Before and after that it answers at
once, and each trial begins with the credits that `credits=` says, since time can't be made to pass faster.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import ClassVar

from pgassay.cloud_volumes.catalogue import OWN_FILE, LoadedCatalogue, load_catalogue
from pgassay.cloud_volumes.explain import text_of
from pgassay.cloud_volumes.parse import GIB, parse_volume
from pgassay.cloud_volumes.volume_limits import instance_of, model_of, without_instance
from pgassay.environment.home import account, home, home_path
from pgassay.environment.linux import device
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.storage import StorageSpec
from pgassay.model.volumes.offer import VolumeModel, VolumeSpec
from pgassay.storage.base import Delivered, Instance, StorageKind, Volume
from pgassay.storage.delivered_rates import (
    columns_of,
    failure_of,
    summary,
    unsteady_way,
    warnings_of,
    way_delay_us,
)
from pgassay.storage.file_copies import extents_of_largest
from pgassay.storage.image import SIZE_BYTES_MIN, usable_bytes
from pgassay.storage.image_memory import image_bytes
from pgassay.storage.imitated_device import SERVED_NO_MORE, Ceiling, ServedImage, ceiling_refusal, why_not
from pgassay.storage.loop import LoopVolume
from pgassay.storage.request_trace import UNLIMITED, Trace, latency_text, unlimited_model
from pgassay.storage.storage_options import describe, format_bytes, readable_bytes
from pgassay.storage.volume_facts import offer_facts, peaks_of, simulated_words, would_last

# What is ordered of a volume beside its size; keys of `volumes.parse`.
_ORDERED = ("iops", "throughput", "credits", "flush_latency", "first_touch", "instance")
_shared: dict[Path, ServedImage] = {}
_users: dict[Path, int] = {}
_seeds = itertools.count(1)


def _as_typed(_key: str, value: str, _text: str) -> str:
    return value.strip()


def _yes(key: str, value: str, text: str) -> str:
    if value.strip() != "yes":
        raise UsageError(f"'{key}={value}' in '{text}': type {key}=yes, or leave it out.")
    return "yes"


class VolumeKind(StorageKind):
    """Working copies on a volume of the catalogue."""

    name = "volume"
    keys = ("volume", "size", *_ORDERED, "read_ahead", "closest", "latency", "trace")
    own_keys: ClassVar[Mapping[str, Callable[[str, str, str], str]]] = {
        **dict.fromkeys(("volume", *_ORDERED), _as_typed),
        "closest": _yes,
        "latency": latency_text,
        "trace": _yes,
    }
    leading_key = "volume"
    refusals: ClassVar[dict[str, str]] = dict.fromkeys(
        ("read_mb_s", "write_mb_s", "read_iops", "write_iops"),
        "is not an option of a volume, whose own limits hold: see pgassay volumes, or use --storage loop:….",
    )

    def capability(self) -> str | None:
        return why_not()

    def check(self, spec: StorageSpec) -> None:
        """Raises UsageError for a volume that the catalogue does not have, or not so."""
        loaded = catalogue()
        model_for(spec, loaded)
        if spec.wal is not None:
            wal_on_data_instance(spec.wal, spec, loaded)

    def instance(self, spec: StorageSpec) -> Instance | None:
        """That of `instance=`, or the one whose local disk it is."""
        loaded = catalogue()
        found = ordered(spec, loaded)
        name = None if found is None else found.instance
        if name is None:
            return None
        memory_gib = loaded.catalogue.instances[name].memory_gib
        return Instance(name, None if memory_gib is None else round(memory_gib * GIB))

    def unreachable(self, spec: StorageSpec, clients: Sequence[int]) -> str | None:
        """Why it is above the machine's ceiling, with what the simulator says in its place."""
        if why_not() is not None or dict(spec.own).get("closest") == "yes":
            return None
        loaded = catalogue()
        found = ordered(spec, loaded)
        beyond = None if found is None else ceiling_refusal(model_for(spec, loaded), _ceiling())
        if found is None or beyond is None:
            return None
        return f"{beyond} {simulated_words(found, loaded, clients)}"

    def read_ceiling(self, spec: StorageSpec) -> tuple[float | None, float | None]:
        """What the volume gives while its credits last."""
        operations, transferred = peaks_of(model_for(spec, catalogue()))
        return transferred / 1e6 or None, operations or None

    def provide(self, spec: StorageSpec, bytes_needed: int) -> "ImitatedVolume":
        """Make the device with an empty file system, or use the one that is there."""
        return self._provide(spec, bytes_needed, "volume")

    def provide_wal(self, spec: StorageSpec, bytes_needed: int, data: Volume) -> "ImitatedVolume":
        """The same with a device that the WAL of all arms shares; behind the instance of the data."""
        wal = self._provide(spec, bytes_needed, "volume-wal")
        if isinstance(data, ImitatedVolume):
            data.share_instance(wal)
        return wal

    def _provide(self, spec: StorageSpec, bytes_needed: int, place: str) -> "ImitatedVolume":
        reason = why_not()
        if reason is not None:
            raise UsageError(reason)
        loaded = catalogue()
        model = model_for(spec, loaded)
        root = home() / "data" / "work" / place
        if root not in _shared:
            size_bytes = image_bytes(bytes_needed)
            beside = next(iter(_shared.values()), None)
            _shared[root] = ServedImage(root, size_bytes, bytes_needed, account(), beside=beside, name=place)
            _users[root] = 0
        served = _shared[root]
        _users[root] += 1
        try:
            if usable_bytes(served.size_bytes) < bytes_needed:
                raise UsageError(
                    f"The imitated volumes of this experiment share an image of "
                    f"{readable_bytes(served.size_bytes)} and the data need {readable_bytes(bytes_needed)}: "
                    "use a smaller --scale."
                )
            ceiling = served.ceiling()
            closest = dict(spec.own).get("closest") == "yes"
            beyond = ceiling_refusal(model, ceiling)
            if beyond is not None and not closest:
                raise UsageError(beyond)
            if served.overhead is None:
                served.measure_overhead()
            volume = ImitatedVolume(spec, served, model, loaded, beyond)
            volume.activate()
        except BaseException:
            _release(root)
            raise
        return volume


class ImitatedVolume(LoopVolume):
    """A storage on the shared device, with a model of its own."""

    def __init__(
        self,
        spec: StorageSpec,
        served: ServedImage,
        model: VolumeModel,
        loaded: LoadedCatalogue,
        beyond: str | None,
    ) -> None:
        super().__init__(spec, served.attached)
        self.model = model
        self._served = served
        self._loaded = loaded
        self._overhead = served.overhead
        self._beyond = beyond
        self._own_model = model
        self._instance: VolumeModel | None = None

    def share_instance(self, wal: "ImitatedVolume") -> None:
        """Put the volume of the WAL behind the same limits of the instance; nothing where this one has none.

        A local disk of the instance is behind none.
        """
        of_wal = wal_on_data_instance(wal.spec, self.spec, self._loaded)
        of_data = ordered(self.spec, self._loaded)
        shared = instance_of(self.model)
        if of_data is None or of_wal is None or shared is None or instance_of(of_wal) is None:
            return
        self._instance = wal._instance = shared.model_copy(update={"name": of_data.instance})
        self._own_model = without_instance(self.model)

    def activate(self) -> None:
        """Set the device's read-ahead, and whether it wants to be flushed."""
        # A volume whose flush costs nothing holds nothing back: the kernel sends none, as on the real one.
        self._served.set_write_cache(is_volatile=self.model.latency.flush.median_ns > 0)
        super().activate()

    def mark(self, working: Path, *, clean: bool) -> None:
        """As `Volume.mark`; says that the volume failed, where that is why it can't be done."""
        try:
            super().mark(working, clean=clean)
        except MeasurementError as error:
            self._served.check()
            raise MeasurementError(
                f"The file system on the imitated volume is no longer writable ({error}): "
                "start the experiment again with resume."
            ) from error

    @contextmanager
    def measured(self) -> Iterator[Delivered | None]:
        """Impose the model, with the credits that it begins with; tell afterwards what it delivered."""
        delivered = Delivered()
        with Trace(is_wanted="trace" in dict(self.spec.own)) as trace:
            instance = None if self._instance is None else self._instance.model_dump(mode="json")
            self._served.impose(self._own_model.model_dump(mode="json"), next(_seeds), trace.file, instance)
            before = self._served.taken()
            try:
                yield delivered
            except Exception as error:
                # A server that lost its volume says many things; that it did is why.
                if (failed := failure_of(self._served.release(), self.model.name)) is not None:
                    raise MeasurementError(f"{failed}; then: {error}") from error
                raise
            except BaseException:
                # Ctrl-C: the server's last checkpoint needn't be as slow as the volume.
                with suppress(MeasurementError):
                    self._served.release()
                raise
            seconds = self._served.release()
            trace.hand_over(self._served.server.traced, delivered)
        delivered.columns.update(columns_of(seconds))
        figures = summary(seconds)
        figures["way_delay_us"] = way_delay_us(figures, before, self._served.taken())
        delivered.facts.update(figures)
        if (spec := ordered(self.spec, self._loaded)) is not None:
            delivered.facts["would_last"] = would_last(spec, self._loaded, self.model, seconds, figures)
        delivered.warnings.extend(warnings_of(figures, self.model.name))
        doubts = (
            unsteady_way(self._overhead, self.model),
            self._served.unlocked,
            self._served.waits_for_writes,
            failure_of(seconds, self.model.name),
            self._beyond,
        )
        delivered.warnings.extend(doubt for doubt in doubts if doubt is not None)

    def facts(self) -> Mapping[str, object]:
        try:
            found = dict(super().facts())
        except OSError as error:
            # Its file can't be asked any more: whoever served it has just gone.
            raise MeasurementError(SERVED_NO_MORE) from error
        backing = found.pop("backing_device", None)
        del backing  # the native server, which is no device
        return {
            **found,
            "kind": "volume",
            "storage": describe(self.spec, VolumeKind.keys, VolumeKind.leading_key),
            "device": device.facts(self.device),
            "image": "memory" if self._served.is_in_memory else "file",
            "image_bytes": self._served.size_bytes,
            "limits": {},
            "extents": extents_of_largest(self.made()),
            "volume": {
                **offer_facts(ordered(self.spec, self._loaded), self._loaded, self.model.name),
                "model": self.model.model_dump(mode="json"),
                "overhead_us": 0.0 if self._overhead is None else self._overhead["p50_ns"] / 1e3,
                "beyond_ceiling": self._beyond,
                "shared_instance": None if self._instance is None else self._instance.name,
            },
        }

    def limits_cgroup(self) -> Mapping[str, str]:
        return {}

    def remove(self) -> None:
        if self._is_removed:
            return
        self._is_removed = True
        _release(self.root)


@cache
def _ceiling() -> Ceiling:
    """This machine's, found on an image of its own where it is not known yet."""
    image = ServedImage(home() / "data" / "work" / "volume-ceiling", SIZE_BYTES_MIN, 0, account())
    try:
        return image.ceiling()
    finally:
        image.remove()


def catalogue() -> LoadedCatalogue:
    """The catalogue, with the user's file where the home has one."""
    own = home_path() / OWN_FILE
    return _loaded(own if own.is_file() else None, own.stat().st_mtime_ns if own.is_file() else 0)


@lru_cache(maxsize=4)
def _loaded(own: Path | None, _modified_ns: int) -> LoadedCatalogue:
    return load_catalogue([] if own is None else [own])


def model_for(spec: StorageSpec, loaded: LoadedCatalogue) -> VolumeModel:
    """The model of a storage; raises UsageError for one that the catalogue can't give."""
    found = ordered(spec, loaded)
    if found is None:
        return unlimited_model(spec)
    return model_of(found, loaded.catalogue, text_of(found))


def wal_on_data_instance(wal: StorageSpec, data: StorageSpec, loaded: LoadedCatalogue) -> VolumeModel | None:
    """The model of the WAL's volume on the instance of the data's; None where there is none of one of them.

    Raises UsageError for one that can't be attached to that instance.
    """
    found = ordered(data, loaded) if data.kind == "volume" else None
    own = dict(wal.own)
    if found is None or found.instance is None or wal.kind != "volume" or own["volume"] == UNLIMITED:
        return None
    attached = wal.model_copy(update={"own": (*wal.own, ("instance", found.instance))})
    return model_for(attached, loaded)


def ordered(spec: StorageSpec, loaded: LoadedCatalogue) -> VolumeSpec | None:
    """The volume that a storage is, None for the one without limits, which nobody sells.

    Raises UsageError for one that the catalogue does not have.
    """
    own = dict(spec.own)
    if "volume" not in own:
        raise UsageError("--storage volume:… names a volume of the catalogue: type volume:gp3,size=100GiB.")
    if own["volume"] == UNLIMITED:
        return None
    if "latency" in own:
        raise UsageError(
            f"'latency={own['latency']}' is for volume:{UNLIMITED} only: leave it out, "
            f"{own['volume']} has its own."
        )
    parts = [own["volume"], *([] if spec.size_bytes is None else [f"size={format_bytes(spec.size_bytes)}"])]
    parts += [f"{key}={own[key]}" for key in _ORDERED if key in own]
    return parse_volume(",".join(parts), loaded.catalogue)


def _release(root: Path) -> None:
    _users[root] -= 1
    if _users[root] == 0:
        del _users[root]
        _shared.pop(root).remove()
