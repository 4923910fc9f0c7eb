"""What the servers of an experiment run on: volumes, loaded datasets and the copies of them."""

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pgassay.environment.datasets import OnStage, snapshots
from pgassay.environment.datasets.snapshots import Snapshot
from pgassay.environment.storage.base import Volume
from pgassay.environment.storage.parse import describe
from pgassay.environment.storage.registry import provide
from pgassay.errors import UsageError
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.storage import StorageSpec

# Room for WAL, temporary files and what a writing workload adds to a working copy.
WORKING_ROOM_BYTES = 768 * 1024 * 1024
# With segments so large that these are more, the WAL alone takes it.
WORKING_WAL_SEGMENTS = 6
_BRANCHES = "pgbench_branches"


class MachineProvider:
    """The storages and datasets of an experiment, made when first asked for; removed when it is left.

    Arms whose storage differs only in its limits or read-ahead still get a volume each: a limit
    belongs to a device. `arms` are those of all loads and copies that are made before the first trial;
    `has_replicates`: fresh copies will take their place, and one of them is there before an old one goes.
    """

    def __init__(self, arms: tuple[Arm, ...], on_stage: OnStage, *, has_replicates: bool = False) -> None:
        self._arms = arms
        self._has_replicates = has_replicates
        self._on_stage = on_stage
        self._stack = ExitStack()
        self._volumes: dict[str, Volume] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def prepare(self) -> None:
        """Load every dataset and make the copies of them that trials run on, before the first trial.

        Raises UsageError when the disk can't hold them all.
        """
        snapshots.check_space_for((arm.spec.build, arm.spec.dataset, arm.spec.prepare) for arm in self._arms)
        numbers: dict[tuple[Path, str], set[int]] = {}
        for arm in self._arms:
            snapshot = self.snapshot(arm.spec)
            _check_scale(arm.spec, snapshot.facts["relations"])
            place = self.volume(arm.spec.storage).root, snapshot.key
            numbers.setdefault(place, set()).add(arm.data_copy)
        for arm in self._arms:
            snapshot, volume = self.snapshot(arm.spec), self.volume(arm.spec.storage)
            if self._has_replicates and (kept := numbers.pop((volume.root, snapshot.key), None)):
                # Those that an earlier experiment ended with would only take room.
                volume.keep_only(snapshot.key, kept)
            self._on_stage("copying the data that the arms and the twin run on", None)
            volume.clone(snapshot.path, snapshot.key, arm.data_copy)

    def snapshot(self, spec: ArmSpec) -> Snapshot:
        """The frozen dataset of an arm, loaded when it isn't there yet."""
        key = snapshots.key(spec.build, spec.dataset, spec.prepare)
        if key not in self._snapshots:
            self._snapshots[key] = snapshots.ensure(spec.build, spec.dataset, spec.prepare, self._on_stage)
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
        """Every distinct (dataset, copy) on this storage, one that is made anew, and room for a server."""
        copies = {
            (snapshots.key(arm.spec.build, arm.spec.dataset, arm.spec.prepare), arm.data_copy): arm
            for arm in self._arms
            if describe(arm.spec.storage) == describe(spec)
        }
        sizes_bytes = [self.snapshot(arm.spec).bytes for arm in copies.values()]
        anew_bytes = sum(sizes_bytes) if self._has_replicates else 0
        segment_mb = max((arm.spec.dataset.wal_segment_mb for arm in copies.values()), default=0)
        room_bytes = max(WORKING_ROOM_BYTES, WORKING_WAL_SEGMENTS * segment_mb * 1024 * 1024)
        return sum(sizes_bytes) + anew_bytes + room_bytes


def _check_scale(spec: ArmSpec, relations: dict[str, dict[str, int]]) -> None:
    """Raise UsageError when a pgbench load would ask own data for accounts that they don't hold."""
    load = spec.workload.load
    if load is None or spec.dataset.kind in ("pgbench", "sysbench") or load.oltp_read_only is not None:
        return
    branches = relations.get(_BRANCHES)
    if branches is None:
        raise UsageError(
            f"workload {spec.workload.family} needs pgbench's tables, and {spec.dataset.source} makes none "
            f"called {_BRANCHES}: write your own statements with --workload sql:FILE"
        )
    if branches["rows"] != spec.dataset.scale:
        raise UsageError(
            f"{_BRANCHES} holds {branches['rows']} rows and the scale is {spec.dataset.scale}: "
            f"write --scale {branches['rows']}"
        )
