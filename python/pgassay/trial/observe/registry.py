"""The table of samplers that a trial runs: a new one is one file and one line here."""

from pgassay.environment.storage.base import BlockDevice
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.host_cpu import HostCpuSampler


def samplers(device: BlockDevice) -> list[Sampler]:
    """The samplers for a trial whose data lie on `device`, those available here."""
    candidates: list[Sampler] = [DeviceSampler(device), HostCpuSampler()]
    return [sampler for sampler in candidates if sampler.available()]
