"""A disk that answers late, but as many reads at a time as are asked, below the volumes of a plant.

The server of imitated volumes, with a model that has a latency of reads and no limit, a loop device on it,
and XFS on that. Limits of a control group make a ceiling, never a latency.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pgassay.environment.storage.served import ServedImage
from plants.base import Outside

# What stands in a plant's words for the folder on the disk.
FOLDER = "LATE_FOLDER"
_SIZE_BYTES = 2 << 30


def late_disk(latency_ms: float) -> Outside:
    """A folder in which every read of a file takes so long at least, however many are on their way."""

    @contextmanager
    def mounted(home: Path) -> Iterator[Mapping[str, str]]:
        folder = home / "late"
        folder.mkdir()
        served = ServedImage(folder, _SIZE_BYTES, _SIZE_BYTES, None, is_users=True)
        try:
            served.impose(_model(latency_ms), seed=1)
            yield {FOLDER: str(folder)}
        finally:
            served.remove()
            folder.rmdir()

    return mounted


def _model(read_ms: float) -> dict[str, object]:
    at_once = {"median_ns": 0.0, "sigma": 0.0}
    late = {"median_ns": read_ms * 1e6, "sigma": 0.0}
    return {"name": "late", "latency": {"read": late, "write": at_once, "flush": at_once}}
