"""Opens the servers of an experiment for its trials: started here from data made ready, or running already.

What trials need of this machine, storages and datasets, is made before the first of them and removed at the
end.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.design.arms import arms_of_all_loads
from pgassay.design.schedule import arms_to_prepare, has_fresh_copies
from pgassay.environment.cgroup.caps import read_limits
from pgassay.environment.cgroup.group import capabilities
from pgassay.environment.last_probe import last_probe
from pgassay.environment.linux.device import device_of
from pgassay.environment.remote.resolve import Resolved
from pgassay.environment.storage.base import BlockDevice, Volume
from pgassay.environment.storage.registry import kind_named
from pgassay.experiment.planning.servers import OnStage
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment, PlannedCeilings
from pgassay.model.probe import ProbeResult
from pgassay.model.storage import StorageSpec
from pgassay.trial.provisioned import MachineProvider, ProvisionedTarget
from pgassay.trial.remote import RemoteTarget
from pgassay.trial.target import Target

# What a disk that others use as well copies, reading and writing: a hundred times less than the fastest, and
# rather too little than too much, since a block more on a set of copies costs little.
COPYING_BYTES_PER_S = 100e6
COPYING_QUICK_S = 1.0
COPYING_SHARE_MAX = 0.25


@dataclass(frozen=True)
class OpenTarget:
    """A target ready for its trials, which enter it.

    `complete`: the plan with the facts that are known once storages and datasets are made; it is given the
    seconds that a trial is expected to take.
    """

    target: Target
    complete: Callable[[Experiment, float], Experiment]


@contextmanager
def open_target(
    experiment: Experiment, servers: Mapping[str, Resolved], on_stage: OnStage
) -> Iterator[OpenTarget]:
    """The target of an experiment's trials; removes at the end what was made for them.

    `servers` are those that run already, by name; without any, data are loaded and copied here for each arm.
    Raises UsageError when the disk can't hold them all.
    """
    if not servers:
        has_replicates = experiment.design.blocks_per_copy > 0
        arms = arms_to_prepare(experiment)
        with MachineProvider(arms, on_stage, has_replicates=has_replicates) as provider:
            provider.prepare()
            target = ProvisionedTarget(provider, experiment.arms)
            yield OpenTarget(target, lambda planned, trial_s: _with_machine(planned, provider, trial_s))
    else:
        yield OpenTarget(RemoteTarget(servers), lambda planned, _trial_s: planned)


def _with_machine(experiment: Experiment, provider: MachineProvider, trial_s: float) -> Experiment:
    """The plan with the facts of its storages and datasets, known once they are made."""
    storages = {}
    for arm in experiment.arms:
        volume = provider.volume(arm.spec.storage)
        volume.activate()  # volumes that differ in read-ahead share a device, which has one at a time
        storages[arm.name] = dict(volume.facts())
    datasets = {}
    for arm in arms_of_all_loads(experiment):
        snapshot = provider.snapshot(arm.spec)
        datasets[snapshot.key] = dict(snapshot.facts)
    environment = experiment.environment.updated(storage=storages, datasets=datasets)
    ceilings = ceilings_of(experiment.arms, provider)
    design = experiment.design
    if experiment.design.blocks_per_copy:
        blocks = blocks_per_copy(experiment, _replicate_bytes(experiment, provider), trial_s)
        design = design.model_copy(update={"blocks_per_copy": blocks})
    changes = {"environment": environment, "ceilings": ceilings, "design": design}
    return experiment.model_copy(update=changes)


def _replicate_bytes(experiment: Experiment, provider: MachineProvider) -> int:
    """What a set of fresh copies takes, of the stratum whose set is largest."""
    found: dict[str, dict[tuple[str, int], int]] = {}
    for arm in arms_to_prepare(experiment):
        if has_fresh_copies(experiment, arm.stratum):
            snapshot = provider.snapshot(arm.spec)
            found.setdefault(arm.stratum, {})[snapshot.key, arm.data_copy] = snapshot.bytes
    return max((sum(sizes.values()) // experiment.dataset_loads for sizes in found.values()), default=0)


def blocks_per_copy(experiment: Experiment, replicate_bytes: int, trial_s: float) -> int:
    """How many blocks run on one set of copies, so that copying takes about a quarter of the time at most.

    1 where copying is quick. Never so many that blocks and time have no room for twice the replicates that a
    verdict takes, if one block for each has.
    """
    copying_s = replicate_bytes / COPYING_BYTES_PER_S
    if copying_s < COPYING_QUICK_S:
        return 1
    contract, strata = experiment.contract, {arm.stratum for arm in experiment.arms}
    block_s = trial_s * len(experiment.arms) / len(strata)
    wanted = math.ceil(copying_s * (1 - COPYING_SHARE_MAX) / COPYING_SHARE_MAX / block_s)
    visits = min(contract.blocks_max, int(contract.time_max_s / len(strata) / block_s))
    least = minimum_blocks(pooled=contract.pool_twin, contrasts=contract.contrasts, alpha=contract.alpha)
    return max(1, min(wanted, visits // (2 * least)))


def ceilings_of(arms: Iterable[Arm], provider: MachineProvider) -> PlannedCeilings:
    """For each arm its device's `read_mb_s`, `read_iops` and where they come from; {} where nothing is known.

    `by_arm` has the arms by name, `probe` the ceilings of the last probe as it stated them.
    """
    by_arm: dict[str, object] = {}
    probes: dict[str, object] = {}
    for arm in arms:
        volume = provider.volume(arm.spec.storage)
        probe = last_probe(physical_device(volume))
        known = arm_ceiling(arm.spec.storage, probe, _inherited_limits(arm.spec.storage, volume))
        if known:
            by_arm[arm.name] = known
        if probe is not None:
            name = str(probe.device.get("disk") or probe.path)
            probes[name] = {"measured_at": probe.measured_at, **probe.ceilings.model_dump()}
    return PlannedCeilings.model_validate({"by_arm": by_arm, "probe": probes} if by_arm else {})


def _inherited_limits(spec: StorageSpec, volume: Volume) -> tuple[float | None, float | None]:
    """What the groups around pgassay itself allow its servers to read: 10⁶ bytes and reads a second.

    On version 1 a group's limits hold for its own processes alone, so not for a server that is in one of its
    own because its storage is limited.
    """
    is_apart = capabilities()["io"].version == 1 and (spec.read_mb_s or spec.read_iops)
    device = physical_device(volume)
    if is_apart or device.name is None:
        return None, None
    read_bytes_s, reads_s = read_limits(os.getpid(), device)
    return None if read_bytes_s is None else read_bytes_s / 1e6, reads_s


def arm_ceiling(
    spec: StorageSpec,
    probe: ProbeResult | None,
    inherited: tuple[float | None, float | None] = (None, None),
) -> dict[str, float | str]:
    """The lower of the device's ceiling and the storage's limit, in 10⁶ bytes and reads a second.

    inherited: limits of groups around pgassay, in the same units.
    """
    given = kind_named(spec.kind).read_ceiling(spec)
    lowest = [min(filter(None, pair), default=None) for pair in zip(given, inherited, strict=True)]
    limits = dict(zip(("read_mb_s", "read_iops"), lowest, strict=True))
    measured: dict[str, float | None] = {"read_mb_s": None, "read_iops": None}
    if probe is not None:
        measured = {
            "read_mb_s": probe.ceilings.sequential_read_mb_s,
            "read_iops": max(probe.ceilings.random_read_iops.values(), default=None),
        }
    made: dict[str, float | str] = {}
    for name, limit in limits.items():
        known = [value for value in (limit, measured[name]) if value]
        if known:
            made[name] = min(known)
            made[f"{name}_from"] = "limit" if limit and min(known) == limit else "probe"
    return made


def physical_device(volume: Volume) -> BlockDevice:
    """The device that delivers: below an image's loop device that which holds the image."""
    name = volume.device.name
    backing = Path(f"/sys/block/{name}/loop/backing_file")
    if name is None or not backing.is_file():
        return volume.device
    image = Path(backing.read_text("utf-8", "surrogateescape").strip())
    return device_of(image) if image.exists() else volume.device
