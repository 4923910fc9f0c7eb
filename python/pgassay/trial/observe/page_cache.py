"""How much of the user's relations lies in the page cache (cachestat(2), else mincore(2))."""

import time
from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.linux import pagecache
from pgassay.errors import MeasurementError

# The kernel walks over the cached pages: asked rarely enough to stay below one percent of a processor.
_PAUSE_FACTOR = 100.0
_PAUSE_S_MIN = 1.0


class PageCacheSampler:
    """Levels, not counters; between two readings the last answer is repeated."""

    name = "page_cache"
    version = 1
    columns: tuple[str, ...] = ("resident_bytes", "size_bytes")

    def __init__(self, files: Sequence[Path]) -> None:
        """Watch these files; one that has gone since counts nothing."""
        self._files = files
        self._latest = (0.0, 0.0)
        self._next_s = 0.0

    def available(self) -> bool:
        """Whether there are files, and the kernel tells."""
        return bool(self._files) and pagecache.can_verify()

    def sample(self) -> tuple[float, ...]:
        """Bytes in the page cache, and of the files, at the last reading."""
        began = time.monotonic()
        if began < self._next_s:
            return self._latest
        files = [file for file in self._files if file.exists()]
        try:
            self._latest = (
                float(pagecache.resident_bytes(files)),
                float(sum(file.stat().st_size for file in files)),
            )
        except MeasurementError as error:
            raise OSError(str(error)) from error
        took = time.monotonic() - began
        self._next_s = began + max(_PAUSE_S_MIN, _PAUSE_FACTOR * took)
        return self._latest
