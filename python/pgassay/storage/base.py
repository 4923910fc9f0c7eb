"""The contract of a storage kind, hook by hook.

A kind is one file with a class that extends `StorageKind`, and one line in
`storage/registry.py`. The null implementation used by tests is `host` on a
temporary folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from pgassay.environment.linux.device import BlockDevice
from pgassay.model.storage import StorageSpec


@dataclass(frozen=True)
class Instance:
    """The machine that a storage is rented with; `memory_bytes` None where that is not known."""

    name: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Delivered:
    """What an imitated volume delivered while a trial measured, known in full when that is over.

    `columns`: a series with `clock_ns` (CLOCK_MONOTONIC), one value for each second, empty where the data lie
    on none; `facts` for the record. `wal`: of the volume that pg_wal lies on, where that is another;
    `files`: observations of its own, by name.
    """

    columns: dict[str, list[float] | list[int]] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    wal: "list[Delivered]" = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


class Volume(Protocol):
    """A provided storage. Every path it returns lies below `root`."""

    spec: StorageSpec
    root: Path
    device: BlockDevice

    def activate(self) -> None:
        """Make the settings of the volume's device hold (read-ahead).

        Required before each start of a server when several volumes are provided at once: those
        that differ only in read-ahead or limits share one device and its data. Cheap when nothing
        is to be done.
        """

    def clone(self, source: Path, key: str, copy: int) -> Path:
        """Return the working copy number `copy` of the frozen data directory `source`.

        Called before the first trial of an arm, and again whenever its path is wanted: a copy on
        which a server is running is returned as it is. Reuses a copy that is marked clean; otherwise
        copies for real (never a reflink of another copy that is in use: the twin's data must be
        its own), syncs files and directories, and marks it clean.
        Raises MeasurementError with the sizes when the space does not suffice.
        """

    def keep_only(self, key: str, numbers: Collection[int]) -> None:
        """Remove the working copies of a snapshot that have other numbers than these, and what they lie on.

        No server runs on one of them.
        """

    def reset(self, working: Path, source: Path) -> None:
        """Make `working` equal to `source` again; the server on it is stopped.

        Called before a trial whose working copy is not clean. May use reflinks, but copies
        pg_wal for real (a reflinked file pays copy-on-write at its first write).
        """

    def mark(self, working: Path, *, clean: bool) -> None:
        """Record durably whether `working` still equals its source in every relation file.

        Called with clean=False before a server starts on it, with clean=True after a read-only
        trial that was verified and whose server was stopped.
        """

    def is_clean(self, working: Path) -> bool:
        """Whether `working` was marked clean and nothing was started on it since."""

    def drop_cache(self, files: Sequence[Path]) -> None:
        """Evict the files from the page cache (they are synced first)."""

    def resident_bytes(self, files: Sequence[Path]) -> int:
        """Bytes of the files in the page cache."""

    def facts(self) -> Mapping[str, object]:
        """File system, device, read_ahead_kb, limits in force, rotational, scheduler, extents.

        Called in every trial. Raises MeasurementError when a setting of the device that the
        volume answers for does not hold.
        """

    def limits_cgroup(self) -> Mapping[str, str]:
        """The limits to write into the server's cgroup: controller file -> line (may be empty)."""

    def measured(self) -> AbstractContextManager["Delivered | None"]:
        """Entered before a trial measures and left after: what the volume imposes, it imposes meanwhile.

        None where it imposes nothing. Raises MeasurementError when the volume failed meanwhile.
        """

    def remove(self) -> None:
        """Unmount and detach; keeps files that a later experiment reuses. Called once, also after errors."""


class StorageKind(ABC):
    """One kind of storage.

    `name` is what `--storage NAME:key=value` says. `keys`: those that it understands, in the order in which
    its text names them. `own_keys`: those of them that are not in `storage_options.FIELDS`, each with what
    checks (key, value, the whole text), returns the value as it is stored, and raises UsageError. `refusals`:
    why it can't have a key of another kind, and the remedy, as words that follow "'KEY' in 'TEXT'"; for those
    where there is more to say than which keys there are. `leading_key`: the key whose value may stand first
    without its name, as in NAME:value,key=value.
    """

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    own_keys: ClassVar[Mapping[str, Callable[[str, str, str], str]]] = {}
    refusals: ClassVar[Mapping[str, str]] = {}
    leading_key: ClassVar[str | None] = None

    def check(self, spec: StorageSpec) -> None:
        """Raise UsageError for keys that are right one by one and not together; touch no machine."""
        del spec  # most kinds have none

    def instance(self, spec: StorageSpec) -> Instance | None:
        """The machine that it is rented with, whose memory its servers have; touch no machine."""
        del spec  # most kinds have none
        return None

    def read_ceiling(self, spec: StorageSpec) -> tuple[float | None, float | None]:
        """The most that it lets be read: 10⁶ bytes and requests a second; None where nothing limits them."""
        return spec.read_limit_mb_s, spec.read_iops

    def unreachable(self, spec: StorageSpec, clients: Sequence[int]) -> str | None:
        """Why this machine is too slow for it, and what is known of it all the same; None where it is not.

        `clients`: how many connections it was to serve, in each number once. May measure the machine.
        """
        del spec, clients  # most kinds are what the machine is
        return None

    @abstractmethod
    def capability(self) -> str | None:
        """None where this kind can be provided, else what is missing and the remedy, one sentence.

        Called for listings and before anything is made; makes and fetches nothing itself.
        """

    @abstractmethod
    def provide(self, spec: StorageSpec, bytes_needed: int) -> Volume:
        """Make the storage usable, or raise UsageError naming what is missing and the remedy.

        `bytes_needed` is the space that the working copies will take; checked before any work.
        """

    def provide_wal(self, spec: StorageSpec, bytes_needed: int, data: Volume) -> Volume:
        """As `provide`, for pg_wal alone: on another device than that of data of the same description.

        `data`: the storage of the data that it belongs to.
        """
        del data  # most kinds have nothing in common with it
        return self.provide(spec, bytes_needed)
