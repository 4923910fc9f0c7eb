"""How much memory an image may take, and how large it is there."""

from pathlib import Path

from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.linux.machine import meminfo_number
from pgassay.storage.image import SIZE_BYTES_MIN, size_for

# What a server, its shared buffers and the page cache must have beside an image in memory.
MEMORY_SHARE_MAX = 0.6
# Memory is taken as it is written, so an image may be larger than what the data need.
_ROOM_FACTOR = 4
_WAL_BYTES = 1 << 30
# What the serving process asks for beside it.
_SPARE_BYTES = 64 << 20
_STEP_BYTES = 256 << 20
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
_ALWAYS, _NEVER = "1", "2"


def image_bytes(needed_bytes: int) -> int:
    """The size of an image for data of this size: four times as large, as far as the kernel gives so much."""
    wanted = max(size_for(needed_bytes * _ROOM_FACTOR + _WAL_BYTES), SIZE_BYTES_MIN)
    least = max(size_for(needed_bytes + _WAL_BYTES), SIZE_BYTES_MIN)
    most = askable_bytes()
    if most is None or wanted <= most or not fits_in_memory(least, needed_bytes):
        return wanted
    return max(least, most // _STEP_BYTES * _STEP_BYTES)


def fits_in_memory(size_bytes: int, needed_bytes: int) -> bool:
    """Whether an image of which so much will be written can lie in memory."""
    most = askable_bytes()
    fits = most is None or size_bytes <= most
    # The image counts as memory of pgassay's own group, as in a container.
    available = min(_bytes("MemAvailable"), usable_memory_bytes())
    return fits and needed_bytes <= MEMORY_SHARE_MAX * available


def askable_bytes() -> int | None:
    """How much memory a process can ask for at once, whether it will use that or not; None: any amount.

    By default the kernel refuses what all memory and swap together could not hold (overcommit-accounting of
    its documentation).
    """
    try:
        mode = _OVERCOMMIT.read_text().strip()
    except OSError:
        mode = ""
    if mode == _ALWAYS:
        return None
    if mode == _NEVER:
        most = _bytes("CommitLimit") - _bytes("Committed_AS")
    else:
        most = _bytes("MemTotal") + _bytes("SwapTotal")
    return max(0, most - _SPARE_BYTES)


def has_swap() -> bool:
    """Whether memory that is not locked may be written elsewhere."""
    return _bytes("SwapTotal") > 0


def _bytes(name: str) -> int:
    """A figure of /proc/meminfo; 0 where the kernel tells none."""
    return (meminfo_number(name) or 0) * 1024
