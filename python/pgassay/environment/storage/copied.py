"""What every volume answers alike whose working copies are files in a folder."""

from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.linux import pagecache
from pgassay.environment.storage.working import WorkingCopies


class CopiedVolume:
    """The marks and the page cache of working copies; a kind adds how they are made."""

    def __init__(self, copies: WorkingCopies) -> None:
        self.copies = copies
        # Those of this experiment: to look at all that lie there would take the longer the more there are.
        self.cloned: set[Path] = set()

    def mark(self, working: Path, *, clean: bool) -> None:
        self.copies.mark(working, clean=clean)

    def is_clean(self, working: Path) -> bool:
        return self.copies.is_clean(working)

    def drop_cache(self, files: Sequence[Path]) -> None:
        pagecache.evict(files)

    def resident_bytes(self, files: Sequence[Path]) -> int:
        return pagecache.resident_bytes(files)
