"""The machine's memory: what is free, cached, dirty and on its way to a device (/proc/meminfo)."""

from pathlib import Path

_FILE = Path("/proc/meminfo")
# Column → the line of /proc/meminfo (Documentation/filesystems/proc.rst, "meminfo").
_LINES = {
    "free_bytes": "MemFree",
    "available_bytes": "MemAvailable",
    "cached_bytes": "Cached",
    "dirty_bytes": "Dirty",
    "writeback_bytes": "Writeback",
    "shared_bytes": "Shmem",
    "swap_free_bytes": "SwapFree",
}


class MemorySampler:
    """Bytes at the moment: levels, not counters."""

    name = "memory"
    version = 1
    columns: tuple[str, ...] = tuple(_LINES)

    def available(self) -> bool:
        """Whether the kernel offers /proc/meminfo."""
        return _FILE.is_file()

    def sample(self) -> tuple[float, ...]:
        pairs = (line.split(":", 1) for line in _FILE.read_text().splitlines())
        kilobytes = {name: float(rest.split()[0]) for name, rest in pairs}
        return tuple(kilobytes.get(line, 0.0) * 1024 for line in _LINES.values())
