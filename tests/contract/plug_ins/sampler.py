"""How many processes the machine has, and how many of them can run, as /proc/loadavg says."""

from pathlib import Path

_SOURCE = Path("/proc/loadavg")


class ToySampler:
    """Counts of this moment (proc_loadavg(5): the fourth field)."""

    name = "toy"
    version = 1
    columns: tuple[str, ...] = ("runnable", "processes")

    def available(self) -> bool:
        """Whether the kernel offers the file."""
        return _SOURCE.is_file()

    def sample(self) -> tuple[float, ...]:
        """Both counts."""
        runnable, processes = _SOURCE.read_text().split()[3].split("/")
        return float(runnable), float(processes)
