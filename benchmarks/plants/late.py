"""A disk that answers late, but as many requests at a time as are asked, below the volumes of a plant.

The server of imitated volumes, with a model that has a latency and no limit, a loop device on it,
and XFS on that. Limits of a control group make a ceiling, never a latency.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pgassay.storage.imitated_device import ServedImage
from plants.base import Outside

# What stands in a plant's words for the folder on the disk.
FOLDER = "LATE_FOLDER"
_SIZE_BYTES = 2 << 30


def late_disk(read_ms: float = 0.0, write_ms: float = 0.0) -> Outside:
    """A folder in which every read or write of a file takes so long at least, however many are asked."""

    @contextmanager
    def mounted(home: Path) -> Iterator[Mapping[str, str]]:
        folder = home / "late"
        folder.mkdir()
        served = ServedImage(folder, _SIZE_BYTES, _SIZE_BYTES, None, is_users=True)
        try:
            served.impose(_model(read_ms, write_ms), seed=1)
            served.mount()
            yield {FOLDER: str(folder)}
        finally:
            served.remove()
            folder.rmdir()

    return mounted


def _model(read_ms: float, write_ms: float) -> dict[str, object]:
    read, write, flush = ({"median_ns": each_ms * 1e6, "sigma": 0.0} for each_ms in (read_ms, write_ms, 0.0))
    return {"name": "late", "latency": {"read": read, "write": write, "flush": flush}}
