"""The machine below a server: device, processors, pressure and memory, from two readings of the samplers."""

import os
import time
from dataclasses import dataclass

from pgassay.analysis.descriptive.iostat import iostat
from pgassay.environment.linux.device import BlockDevice
from pgassay.model.running_server.watch import DeviceRates, HostUse
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.host_cpu import HostCpuSampler
from pgassay.trial.observe.memory import MemorySampler
from pgassay.trial.observe.pressure import PressureSampler
from pgassay.watch.reading.rates import increase, shares


@dataclass(frozen=True)
class _Reading:
    clock_s: float
    values: dict[str, float]


class MachineWatch:
    """Readings of this machine, and of `device` where the kernel counts for it."""

    def __init__(self, device: BlockDevice | None) -> None:
        self._device_name = device.name if device else None
        self._cpu, self._memory, self._pressure = HostCpuSampler(), MemorySampler(), PressureSampler()
        samplers: list[Sampler] = [self._cpu, self._memory, self._pressure]
        if device is not None:
            samplers.append(DeviceSampler(device))
        self._samplers = [each for each in samplers if each.available()]
        self._last = self._readings()

    def sample(self) -> tuple[DeviceRates | None, HostUse | None]:
        """What happened since the last call (or the beginning); None for what this machine does not tell."""
        before, self._last = self._last, self._readings()
        return self._device(before), self._host(before)

    def _readings(self) -> dict[str, _Reading]:
        """One reading of each source; one that has gone (a device that was detached) is left out."""
        found = {}
        for sampler in self._samplers:
            try:
                values = sampler.sample()
            except OSError:
                continue
            found[sampler.name] = _Reading(time.monotonic(), dict(zip(sampler.columns, values, strict=True)))
        return found

    def _device(self, before: dict[str, _Reading]) -> DeviceRates | None:
        old, new = before.get(DeviceSampler.name), self._last.get(DeviceSampler.name)
        if old is None or new is None or self._device_name is None:
            return None
        columns = iostat(old.values, new.values, new.clock_s - old.clock_s)
        return DeviceRates(name=self._device_name, iostat=columns)

    def _host(self, before: dict[str, _Reading]) -> HostUse | None:
        old, new = before.get(self._cpu.name), self._last.get(self._cpu.name)
        if old is None or new is None:
            return None
        levels = self._last.get(self._memory.name)
        return HostUse(
            processors=os.cpu_count() or 1,
            cpu=shares(old.values, new.values),
            pressure=self._pressures(before),
            memory=levels.values if levels else {},
        )

    def _pressures(self, before: dict[str, _Reading]) -> dict[str, float]:
        old, new = before.get(self._pressure.name), self._last.get(self._pressure.name)
        seconds = new.clock_s - old.clock_s if old and new else 0.0
        if old is None or new is None or seconds <= 0:
            return {}
        rises = {name: increase(old.values, new.values, name) for name in new.values}
        return {name: min(1.0, (rise or 0.0) / seconds) for name, rise in rises.items()}
