"""The kind `volume`: a cloud volume of the catalogue, imitated in real time.

All such storages of an experiment share one device, one image and its data, in the same place: what differs
between them is the model that the device follows while a trial measures. Before and after that it answers at
once, and each trial begins with the credits that `credits=` says, since time can't be made to pass faster.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import ClassVar, get_args

from pgassay.environment.home import account, home, home_path
from pgassay.environment.linux import device
from pgassay.environment.storage.base import Delivered, Instance, StorageKind
from pgassay.environment.storage.files import extents_of_largest
from pgassay.environment.storage.image import SIZE_BYTES_MIN, size_for, usable_bytes
from pgassay.environment.storage.loop import LoopVolume
from pgassay.environment.storage.offered import offer_facts, peaks_of, simulated_words, would_last
from pgassay.environment.storage.options import describe, format_bytes, readable_bytes
from pgassay.environment.storage.served import Ceiling, ServedImage, Taken, beyond_ceiling, why_not
from pgassay.environment.storage.trace import UNLIMITED, Trace, latency_text, unlimited_model
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.storage import IMITATION_CPU_SHARE_MAX, IMITATION_DELAY_SHARE_MAX, StorageSpec
from pgassay.model.volumes.offer import VolumeModel, VolumeSpec
from pgassay.native.volume import Counted, Second
from pgassay.volumes.catalogue import OWN_FILE, LoadedCatalogue, load_catalogue
from pgassay.volumes.explain import text_of
from pgassay.volumes.limits import model_of
from pgassay.volumes.parse import GIB, parse_volume

# Memory is taken as it is written, so an image may be larger than what the data need.
_ROOM_FACTOR = 4
_WAL_BYTES = 1 << 30
# What is ordered of a volume beside its size; keys of `volumes.parse`.
_ORDERED = ("iops", "throughput", "credits", "flush_latency", "first_touch", "instance")
# Those on their way when the model begins and ends are counted by one side alone.
_COUNT_TOLERANCE = 0.02

_COUNTED: tuple[Counted, ...] = get_args(Counted)

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
        "is no option of a volume, whose own limits hold: see pgassay volumes, or use --storage loop:….",
    )

    def capability(self) -> str | None:
        return why_not()

    def check(self, spec: StorageSpec) -> None:
        """Raises UsageError for a volume that the catalogue does not have, or not so."""
        model_for(spec, catalogue())

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
        beyond = None if found is None else beyond_ceiling(model_for(spec, loaded), _ceiling())
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

    def provide_wal(self, spec: StorageSpec, bytes_needed: int) -> "ImitatedVolume":
        """The same with a device that the WAL of all arms shares."""
        return self._provide(spec, bytes_needed, "volume-wal")

    def _provide(self, spec: StorageSpec, bytes_needed: int, place: str) -> "ImitatedVolume":
        reason = why_not()
        if reason is not None:
            raise UsageError(reason)
        loaded = catalogue()
        model = model_for(spec, loaded)
        root = home() / "data" / "work" / place
        if root not in _shared:
            size_bytes = max(size_for(bytes_needed * _ROOM_FACTOR + _WAL_BYTES), SIZE_BYTES_MIN)
            _shared[root] = ServedImage(root, size_bytes, bytes_needed, account())
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
            beyond = beyond_ceiling(model, ceiling)
            if beyond is not None and not closest:
                raise UsageError(beyond)
            if served.overhead_ns == (0, 0):
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
        self._beyond = beyond

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
                f"The file system on the imitated volume can't be written any more ({error}): "
                "start the experiment again with resume."
            ) from error

    @contextmanager
    def measured(self) -> Iterator[Delivered | None]:
        """Impose the model, with the credits that it begins with; tell afterwards what it delivered."""
        delivered = Delivered()
        with Trace(is_wanted="trace" in dict(self.spec.own)) as trace:
            self._served.impose(self.model.model_dump(mode="json"), next(_seeds), trace.file)
            before = self._served.taken()
            try:
                yield delivered
            except Exception as error:
                # A server that lost its volume says many things; that it did is why.
                if (failed := failure_of(self._served.release(), self.model.name)) is not None:
                    raise MeasurementError(f"{failed}; then: {error}") from error
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
        if (failed := failure_of(seconds, self.model.name)) is not None:
            delivered.warnings.append(failed)
        if self._beyond is not None:
            delivered.warnings.append(self._beyond)

    def facts(self) -> Mapping[str, object]:
        found = dict(super().facts())
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
                "overhead_us": self._served.overhead_ns[0] / 1e3,
                "beyond_ceiling": self._beyond,
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
            f"'latency={own['latency']}' is of volume:{UNLIMITED}: leave it out, {own['volume']} has its own."
        )
    parts = [own["volume"], *([] if spec.size_bytes is None else [f"size={format_bytes(spec.size_bytes)}"])]
    parts += [f"{key}={own[key]}" for key in _ORDERED if key in own]
    return parse_volume(",".join(parts), loaded.catalogue)


def columns_of(seconds: list[Second]) -> dict[str, list[float] | list[int]]:
    """The series of the record; credits of a stripe set's volumes are added up."""
    columns: dict[str, list[float] | list[int]] = {"clock_ns": [second["clock_ns"] for second in seconds]}
    for counted in _COUNTED:
        columns[counted] = [float(second[counted]) for second in seconds]
    columns["own_delay_p50_us"] = [second["own_delay_us"]["p50"] for second in seconds]
    columns["own_delay_p99_us"] = [second["own_delay_us"]["p99"] for second in seconds]
    names = dict.fromkeys(level["limiter"] for second in seconds for level in second["credits"])
    for name in names:
        columns[f"credits_{name.replace(' ', '_')}"] = [
            float(sum(level["credits"] for level in second["credits"] if level["limiter"] == name))
            for second in seconds
        ]
    return columns


def summary(seconds: list[Second]) -> dict[str, object]:
    """What was delivered in all, and what imitating it took. Latencies and delays are means of requests."""
    transfers = sum(second["reads"] + second["writes"] for second in seconds)
    requests = transfers + sum(second["flushes"] for second in seconds)
    elapsed_s = sum(second["elapsed_s"] for second in seconds)
    delay_us = sum(
        second["own_delay_us"]["mean"] * (second["reads"] + second["writes"] + second["flushes"])
        for second in seconds
    )
    latency_ms = sum(second["latency_ms"] + second["queued_ms"] for second in seconds)
    cpu_s = sum(second["cpu_s"] for second in seconds)
    emptied = [
        (level["emptied_ns"] / 1e9, level["limiter"])
        for second in seconds
        for level in second["credits"]
        if level["emptied_ns"] is not None
    ]
    return {
        "requests": requests,
        "reads_and_writes": transfers,
        "operations": sum(second["operations"] for second in seconds),
        "bytes": sum(second["bytes_read"] + second["bytes_written"] for second in seconds),
        "queued_s": sum(second["queued_ms"] for second in seconds) / 1e3,
        "latency_ms": latency_ms / max(requests, 1),
        "own_delay_us": delay_us / max(requests, 1),
        "late_share": sum(second["late"] for second in seconds) / max(requests, 1),
        "cpu_s": cpu_s,
        "cpu_share": cpu_s / max(elapsed_s, 1e-9) / (os.cpu_count() or 1),
        "credits_ended_s": min(emptied)[0] if emptied else None,
        "credits_ended_of": min(emptied)[1] if emptied else None,
    }


def warnings_of(figures: Mapping[str, object], name: str) -> list[str]:
    """What makes the imitation doubtful, in sentences."""
    found = []
    delays_us = [float(str(figures.get(key) or 0)) for key in ("own_delay_us", "way_delay_us")]
    delay_ms, latency_ms = max(delays_us) / 1e3, float(str(figures["latency_ms"]))
    if latency_ms > 0 and delay_ms > IMITATION_DELAY_SHARE_MAX * latency_ms:
        late_share = float(str(figures["late_share"]))
        found.append(
            f"imitating {name} took {delay_ms * 1e3:.0f} µs a request more than its latency of "
            f"{latency_ms:.2f} ms ({delay_ms / latency_ms:.0%}; {late_share:.0%} of the answers "
            "were sent late): leave the machine more processors"
        )
    share = float(str(figures["cpu_share"]))
    if share > IMITATION_CPU_SHARE_MAX:
        found.append(
            f"imitating {name} took {share:.0%} of the processors, which the server lacked: "
            "a faster volume may look slower than it is"
        )
    return found


def way_delay_us(figures: Mapping[str, object], before: Taken, after: Taken) -> float | None:
    """By how much a request of the block device took longer than the model says, in the mean, in µs.

    That holds what the answers' times don't: a request waits for a thread of the kernel before it reaches the
    server, and its answer for another one after that. None where the device's requests are not the server's.
    """
    served, requests = int(str(figures["reads_and_writes"])), after.requests - before.requests
    if not requests or abs(served - requests) > _COUNT_TOLERANCE * requests:
        return None
    return (after.ms - before.ms) * 1e3 / requests - float(str(figures["latency_ms"])) * 1e3


def failure_of(seconds: list[Second], name: str) -> str | None:
    """Which requests the image could not serve, in a sentence; None where it served all."""
    failed = sum(second["failed"] for second in seconds)
    if not failed:
        return None
    numbers = [second["error"] for second in seconds if second["failed"]]
    requests = "1 request" if failed == 1 else f"{failed:,} requests"
    return f"the imitated volume {name} answered {requests} with: {os.strerror(numbers[0])}"


def _release(root: Path) -> None:
    _users[root] -= 1
    if _users[root] == 0:
        del _users[root]
        _shared.pop(root).remove()
