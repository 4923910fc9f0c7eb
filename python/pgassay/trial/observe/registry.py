"""The table of samplers that a trial runs: a new one is one file and one line here."""

from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.cgroup.caps import NO_CAPS, Caps
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.linux.device import BlockDevice
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.control_group import ControlGroupSampler
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.host_cpu import HostCpuSampler
from pgassay.trial.observe.memory import MemorySampler
from pgassay.trial.observe.page_cache import PageCacheSampler
from pgassay.trial.observe.pressure import PressureSampler


def samplers(
    device: BlockDevice,
    group: Cgroup | None = None,
    files: Sequence[Path] = (),
    inherited: Caps = NO_CAPS,
) -> list[Sampler]:
    """The samplers for a trial whose data lie on `device`, those available here.

    `group` is the server's control group, `files` are those of the user's relations, `inherited` tighter caps
    of groups above it.
    """
    candidates: list[Sampler] = [
        DeviceSampler(device),
        HostCpuSampler(),
        MemorySampler(),
        PressureSampler(),
        ControlGroupSampler(group, inherited),
        PageCacheSampler(files),
    ]
    return [sampler for sampler in candidates if sampler.available()]
