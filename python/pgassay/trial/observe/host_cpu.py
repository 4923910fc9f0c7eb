"""The host's processor time by kind, in seconds, as /proc/stat sums it over all processors."""

import os
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class HostCpuSampler:
    """Cumulative seconds since boot."""

    name = "host_cpu"
    version = 1
    columns: tuple[str, ...] = _FIELDS

    def available(self) -> bool:
        """Whether the kernel offers /proc/stat."""
        return Path("/proc/stat").is_file()

    def sample(self) -> tuple[float, ...]:
        """The counters now."""
        line = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return tuple(int(value) * _TICK_S for value in line[1 : 1 + len(_FIELDS)])
