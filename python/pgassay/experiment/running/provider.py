"""Provides volumes and snapshots to the arms of one experiment, and removes them at the end."""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from pgassay.environment.datasets import snapshots
from pgassay.environment.datasets.snapshots import Snapshot
from pgassay.environment.storage.base import Volume
from pgassay.environment.storage.parse import describe
from pgassay.environment.storage.registry import provide
from pgassay.experiment.planning.own_data import check_scale
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.storage import StorageSpec

# Room for WAL, temporary files and what a writing workload adds to a working copy.
WORKING_ROOM_BYTES = 768 * 1024 * 1024


class MachineProvider:
    """The storages and datasets of an experiment, made when first asked for.

    Arms whose storage differs only in its limits or read-ahead still get a volume each: a limit
    belongs to a device.
    """

    def __init__(self, arms: tuple[Arm, ...], progress: Callable[[str, float | None], None]) -> None:
        self._arms = arms
        self._progress = progress
        self._stack = ExitStack()
        self._volumes: dict[str, Volume] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def prepare(self) -> None:
        """Load every dataset and give every arm its working copy, before the first trial.

        Raises UsageError when the disk can't hold them all.
        """
        snapshots.check_space_for((arm.spec.build, arm.spec.dataset, arm.spec.prepare) for arm in self._arms)
        for arm in self._arms:
            snapshot = self.snapshot(arm.spec)
            check_scale(arm.spec, snapshot.facts["relations"])
            volume = self.volume(arm.spec.storage)
            self._progress("copying the data for each arm and the twin", None)
            volume.clone(snapshot.path, snapshot.key, arm.data_copy)

    def snapshot(self, spec: ArmSpec) -> Snapshot:
        """The frozen dataset of an arm, loaded when it isn't there yet."""
        key = snapshots.key(spec.build, spec.dataset, spec.prepare)
        if key not in self._snapshots:
            self._snapshots[key] = snapshots.ensure(spec.build, spec.dataset, spec.prepare, self._progress)
        return self._snapshots[key]

    def volume(self, spec: StorageSpec) -> Volume:
        """The volume of a storage, provided when first asked for."""
        name = describe(spec)
        if name not in self._volumes:
            volume = provide(spec, self._bytes_needed(spec))
            self._volumes[name] = volume
            self._stack.callback(volume.remove)
        return self._volumes[name]

    def _bytes_needed(self, spec: StorageSpec) -> int:
        """Every distinct (dataset, copy) on this storage, and room for a server to work."""
        copies = {
            (snapshots.key(arm.spec.build, arm.spec.dataset, arm.spec.prepare), arm.data_copy): arm
            for arm in self._arms
            if describe(arm.spec.storage) == describe(spec)
        }
        return sum(self.snapshot(arm.spec).bytes for arm in copies.values()) + WORKING_ROOM_BYTES
