"""What the device below each arm can deliver at most: by its last probe, and by the arm's own limits."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pgassay.environment.last_probe import last_probe
from pgassay.environment.linux.device import device_of
from pgassay.environment.storage.base import BlockDevice, Volume
from pgassay.experiment.running.provider import MachineProvider
from pgassay.model.arm import Arm
from pgassay.model.probe import ProbeResult
from pgassay.model.storage import StorageSpec

# A probe's MB is 10⁶ bytes, that of a storage's limits 2²⁰.
_LIMIT_MB = 1.048576


def ceilings_of(arms: Iterable[Arm], provider: MachineProvider) -> dict[str, Any]:
    """For each arm its device's `read_mb_s`, `read_iops` and where they come from; {} where nothing is known.

    `by_arm` has the arms by name, `probe` the ceilings of the last probe as it stated them.
    """
    by_arm: dict[str, Any] = {}
    probes: dict[str, Any] = {}
    for arm in arms:
        volume = provider.volume(arm.spec.storage)
        probe = last_probe(physical_device(volume))
        known = arm_ceiling(arm.spec.storage, probe)
        if known:
            by_arm[arm.name] = known
        if probe is not None:
            name = str(probe.device.get("disk") or probe.path)
            probes[name] = {"measured_at": probe.measured_at, **probe.ceilings.model_dump()}
    return {"by_arm": by_arm, "probe": probes} if by_arm else {}


def arm_ceiling(spec: StorageSpec, probe: ProbeResult | None) -> dict[str, Any]:
    """The lower of the device's ceiling and the storage's limit, in 10⁶ bytes and reads a second."""
    limits = {
        "read_mb_s": None if spec.read_mb_s is None else spec.read_mb_s * _LIMIT_MB,
        "read_iops": spec.read_iops,
    }
    measured: dict[str, float | None] = {"read_mb_s": None, "read_iops": None}
    if probe is not None:
        measured = {
            "read_mb_s": probe.ceilings.sequential_read_mb_s,
            "read_iops": max(probe.ceilings.random_read_iops.values(), default=None),
        }
    made: dict[str, Any] = {}
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
