"""The host's processor time by kind, in seconds, as /proc/stat sums it over all processors."""

from dataclasses import fields

from pgassay.environment.linux.machine import CpuTimes, cpu_times

_FIELDS = tuple(field.name for field in fields(CpuTimes))


class HostCpuSampler:
    """Cumulative seconds since boot."""

    name = "host_cpu"
    version = 1
    columns: tuple[str, ...] = tuple(name.removesuffix("_s") for name in _FIELDS)

    def available(self) -> bool:
        """Whether the kernel offers /proc/stat."""
        return cpu_times() is not None

    def sample(self) -> tuple[float, ...]:
        times = cpu_times()
        if times is None:
            raise OSError("/proc/stat can't be read")
        return tuple(getattr(times, name) for name in _FIELDS)
