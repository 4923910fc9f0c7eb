"""Servers that pgassay starts itself, as trials use them, and the volumes and copies of data they run on.

At most one server runs. It is started once for as many trials as it can serve: a factor that a session can
change does not restart it. Everything that was started is gone when the target is closed.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pgassay.environment.builds.build_identity import refuse_changed
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.cgroup.group import capabilities as cgroup_capabilities
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.environment.datasets import OnStage, snapshots
from pgassay.environment.datasets.snapshots import Snapshot
from pgassay.environment.linux import pagecache
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.server_caps import server_limits
from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.errors import UsageError
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.storage import StorageSpec
from pgassay.storage.base import Delivered, Volume
from pgassay.storage.parse import describe
from pgassay.storage.registry import provide
from pgassay.trial.target import LocalTrialServer, RunningServer
from pgassay.trial.trial_caps import inherited_caps, is_limited

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
        # What loading took: data that are there already take none.
        self.loading_s = 0.0

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
            began_s = time.monotonic()
            self._snapshots[key] = snapshots.ensure(spec.build, spec.dataset, spec.prepare, self._on_stage)
            self.loading_s += time.monotonic() - began_s
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
        """Every distinct (dataset, copy) on this storage, those made anew at once, and room for a server."""
        here = (arm for arm in self._arms if describe(arm.spec.storage) == describe(spec))
        copies = {(self.snapshot(arm.spec).key, arm.data_copy): arm for arm in here}
        sizes_bytes = [self.snapshot(arm.spec).bytes for arm in copies.values()]
        of_key: dict[str, int] = {}
        for (key, _), size in zip(copies, sizes_bytes, strict=True):
            of_key[key] = of_key.get(key, 0) + size
        # As `replace_copies` makes them: those of one set of data before the old ones of that go.
        anew_bytes = max(of_key.values(), default=0) if self._has_replicates else 0
        segment_mb = max((arm.spec.dataset.wal_segment_mb for arm in copies.values()), default=0)
        room_bytes = max(WORKING_ROOM_BYTES, WORKING_WAL_SEGMENTS * segment_mb * 1024 * 1024)
        return sum(sizes_bytes) + anew_bytes + room_bytes


def _check_scale(spec: ArmSpec, relations: dict[str, dict[str, int]]) -> None:
    """Raise UsageError when a pgbench load would ask own data for accounts that they don't hold.

    What a user's own scripts ask for is theirs, but for pgbench's variable of the scale.
    """
    load = spec.workload.load
    if (
        load is None
        or load.replay is not None
        or spec.dataset.kind in ("pgbench", "sysbench")
        or load.of_sysbench is not None
    ):
        return
    branches = relations.get(_BRANCHES)
    if load.scripts and (branches is None or not any(":scale" in each.text for each in load.scripts)):
        return
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


@dataclass(frozen=True)
class ServerIdentity:
    """What can't change while a server runs: its data, its build, its group, its start settings."""

    working: Path
    bin_directory: str
    storage: str
    memory_bytes: int | None
    cpus: float | None
    settings: tuple[tuple[str, str], ...]


class ProvisionedTarget:
    """The servers of an experiment on this machine, of which one runs at a time.

    Where any arm's memory is capped, an arm's data are dropped from the page cache before each start of a
    server, in all arms, since each starts alike then.
    """

    def __init__(
        self, provider: MachineProvider, arms: Sequence[Arm], reloaded: Collection[str] = ()
    ) -> None:
        """`reloaded`: settings in which arms differ, and which a running server reads anew for each."""
        self._provider = provider
        self._reloaded = frozenset(reloaded)
        self._arms = arms
        self._session_names: frozenset[str] = frozenset()
        self._evicts_at_start = any(arm.spec.memory_bytes is not None for arm in arms)
        self._stack = ExitStack()
        self._running: RunningServer | None = None
        self._identity: ServerIdentity | None = None
        self._cgroup: Cgroup | None = None
        self._used: Path | None = None
        self._used_volume: Volume | None = None
        self._unclean = False
        self._log: Path | None = None
        # By root and key the copies that were left when some were last replaced.
        self._kept: dict[tuple[Path, str], frozenset[int]] = {}

    def __enter__(self) -> Self:
        self._session_names = _session_names(self._arms)
        scratch = self._stack.enter_context(scratch_folder())
        self._log = scratch / "server.log"
        return self

    def __exit__(self, *details: object) -> None:
        try:
            self.stop_server()
        finally:
            self._stack.close()

    @property
    def machine(self) -> Self:
        return self

    @property
    def group(self) -> Cgroup | None:
        """The control group of the running server; None without one."""
        return self._cgroup

    @property
    def log(self) -> Path:
        """The log of all its servers; a trial takes the part that it caused."""
        if self._log is None:
            raise AssertionError("the target is entered before it is used")
        return self._log

    def volume(self, arm: Arm) -> Volume:
        """The volume that an arm's data lie on."""
        return self._provider.volume(arm.spec.storage)

    def working_copy(self, arm: Arm) -> Path:
        """The arm's working copy of its dataset (cloned at its first use)."""
        snapshot = self._provider.snapshot(arm.spec)
        return self.volume(arm).clone(snapshot.path, snapshot.key, arm.data_copy)

    def replace_copies(self, arms: Sequence[Arm]) -> None:
        """Make the copies of the data that these arms run on, and remove all others of the same data.

        The running server is stopped. One set of data after the other, so that the room for a second
        copy is needed of the largest alone; and each is made before the one that it replaces goes, so that it
        does not come to lie in the very place that it is to be independent of.
        """
        wanted: dict[tuple[Path, str], list[Arm]] = {}
        for arm in arms:
            # Volumes that differ in their limits may hold the same copies.
            place = self.volume(arm).root, self._provider.snapshot(arm.spec).key
            wanted.setdefault(place, []).append(arm)
        numbers = {place: frozenset(arm.data_copy for arm in found) for place, found in wanted.items()}
        if numbers.items() <= self._kept.items():
            return
        self.stop_server()
        for place, found in wanted.items():
            for arm in found:
                self.working_copy(arm)
            self.volume(found[0]).keep_only(place[1], numbers[place])
        self._kept |= numbers

    def restore(self, arm: Arm) -> bool:
        """Give the arm's working copy its original content; True when something had to be copied.

        A running server on it is stopped only when the copy is not as it was.
        """
        volume, working = self.volume(arm), self.working_copy(arm)
        if self._used == working and self._running is not None:
            if not self._unclean and not arm.spec.leaves_data_changed:
                return False
            self.stop_server()
        if volume.is_clean(working):
            return False
        volume.reset(working, self._provider.snapshot(arm.spec).path)
        return True

    def data_folder(self, arm: Arm) -> Path:
        """A folder on the storage of the arm's data, beside its working copies."""
        return self.volume(arm).root

    def storage_facts(self, arm: Arm) -> Mapping[str, object]:
        """What the arm's storage is, for the record."""
        return self.volume(arm).facts()

    def measured(self, arm: Arm) -> AbstractContextManager[Delivered | None]:
        """What the arm's volume imposes while it is measured."""
        return self.volume(arm).measured()

    def session(self, arm: Arm) -> RunningServer:
        """A running server for the arm, started where the running one won't do."""
        return self._serve(arm, fresh=False)[0]

    def start_server(self, arm: Arm, *, fresh: bool) -> LocalTrialServer:
        """A running server for the arm.

        `fresh` asks for a new start even if the running one would do. Raises MeasurementError.
        """
        running, is_fresh = self._serve(arm, fresh=fresh)
        capped = self._cgroup if is_limited(arm.spec) else None
        inherited = inherited_caps(running.server.pid, self._cgroup, arm.spec)
        return LocalTrialServer(running, is_fresh, self.volume(arm).device, self._cgroup, capped, inherited)

    def abandon(self) -> None:
        """Stop the server after a failure, and have its data restored before they are used again."""
        self.taint()
        self.stop_server()

    def _serve(self, arm: Arm, *, fresh: bool) -> tuple[RunningServer, bool]:
        # A pooler's server sessions are nobody's own: the server itself has the settings of such an arm.
        of_session = frozenset() if arm.spec.pooler is not None else self._session_names
        session = {name: value for name, value in arm.spec.settings.items() if name in of_session}
        reloaded = {name: value for name, value in arm.spec.settings.items() if name in self._reloaded}
        identity = self._identity_of(arm, {**session, **reloaded})
        if self._running is not None and self._identity == identity and not fresh and self._is_running():
            if self._running.session_settings != session:
                self._running.close_control()
                self._running = RunningServer(self._running.server, session, self._running.database)
            if not reloaded.items() <= self._running.server.settings.items():
                self._running.server.reload(reloaded)
            return self._running, False
        self.stop_server()
        refuse_changed(arm.spec.build)
        volume, working = self.volume(arm), self.working_copy(arm)
        limits = {**volume.limits_cgroup(), **server_limits(arm.spec)}
        if limits or cgroup_capabilities()["cpu_accounting"].is_available:
            self._cgroup = Cgroup.create("server", limits)
        volume.activate()
        volume.mark(working, clean=False)
        if self._evicts_at_start:
            # A page counts in the group that touched it first: what the machine holds would cost nothing.
            pagecache.evict([*pagecache.relation_files(working), *pagecache.wal_files(working)])
        self._used, self._used_volume, self._unclean = working, volume, False
        settings = {**dict(identity.settings), **reloaded}
        server = Server(arm.spec.build, working, settings, self._cgroup, self.log)
        try:
            server.start()
        except BaseException:
            self._unclean = True
            self.stop_server()
            raise
        database = self._provider.snapshot(arm.spec).database
        self._running, self._identity = RunningServer(server, session, database), identity
        return self._running, True

    def _is_running(self) -> bool:
        return self._running is not None and self._running.server.is_running()

    def _identity_of(self, arm: Arm, changed: dict[str, str]) -> ServerIdentity:
        settings = {name: value for name, value in arm.spec.settings.items() if name not in changed}
        return ServerIdentity(
            working=self.working_copy(arm),
            bin_directory=arm.spec.build.bin_directory,
            storage=describe(arm.spec.storage),
            memory_bytes=arm.spec.memory_bytes,
            cpus=arm.spec.cpus,
            settings=tuple(sorted(settings.items())),
        )

    def taint(self) -> None:
        """Say that the working copy in use is no longer as it was (written to, or crashed)."""
        self._unclean = True

    def stop_server(self) -> None:
        """Stop the running server, if any, and mark its working copy clean when it still is."""
        running, self._running, self._identity = self._running, None, None
        crashed = running is not None and not running.server.is_running()
        try:
            if running is not None:
                running.close_control()
                running.server.stop()
        finally:
            if self._cgroup is not None:
                self._cgroup.remove()
                self._cgroup = None
            if running is not None and self._used_volume is not None and self._used is not None:
                self._used_volume.mark(self._used, clean=not self._unclean and not crashed)
            self._used = self._used_volume = None


def _session_names(arms: Sequence[Arm]) -> frozenset[str]:
    """The varied settings that a session can change, so that they need no restart.

    Starts a server of each build that pgassay sees for the first time.
    """
    builds = {arm.spec.build.bin_directory: arm.spec.build for arm in arms}
    known = [build_settings(build) for build in builds.values()]
    varied = {name for arm in arms for name in arm.levels if name in arm.spec.settings}
    # A level may hold several settings, and arms without one have the default.
    varied |= {
        name
        for arm in arms
        for other in arms
        if arm.spec.build.bin_directory == other.spec.build.bin_directory
        for name in arm.spec.settings_unlike(other.spec)
    }
    return frozenset(name for name in varied if all(classify(each, name) == "session" for each in known))
