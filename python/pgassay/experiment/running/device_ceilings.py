"""What the device of each arm delivers at most: by the last probe, its storage, groups around pgassay."""

import os
from collections.abc import Iterable
from pathlib import Path

from pgassay.environment.cgroup.caps import read_limits
from pgassay.environment.cgroup.group import capabilities
from pgassay.environment.last_probe import last_probe
from pgassay.environment.linux.device import BlockDevice, device_of
from pgassay.model.arm import Arm
from pgassay.model.experiment import PlannedCeilings
from pgassay.model.probe import ProbeResult
from pgassay.model.storage import StorageSpec
from pgassay.storage.base import Volume
from pgassay.storage.registry import kind_named
from pgassay.trial.provisioned_target import MachineProvider


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
