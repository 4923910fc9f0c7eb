"""What every volume answers alike whose working copies are files in a folder."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pgassay.environment.linux import pagecache
from pgassay.storage.base import Delivered
from pgassay.storage.working_copies import WorkingCopies


class CopiedVolume:
    """The marks and the page cache of working copies; a kind adds how they are made."""

    def __init__(self, copies: WorkingCopies) -> None:
        self.copies = copies
        # Those of this experiment: to look at all that lie there would take the longer the more there are.
        self.cloned: set[Path] = set()

    def mark(self, working: Path, *, clean: bool) -> None:
        self.copies.mark(working, clean=clean)

    def keep_only(self, key: str, numbers: Collection[int]) -> None:
        for working in self.copies.copies_of(key):
            number = int(working.name.rpartition("-")[2])
            if number not in numbers and not self.copies.is_running(working):
                self.copies.discard(working)
                self.copies.discard(self.copies.base_path(key, number))
                self.cloned.discard(working)

    def made(self) -> list[Path]:
        """The working copies of this experiment that are there, in their order."""
        return sorted(working for working in self.cloned if working.is_dir())

    def is_clean(self, working: Path) -> bool:
        return self.copies.is_clean(working)

    def measured(self) -> AbstractContextManager[Delivered | None]:
        """Nothing is imposed but what holds all the time."""
        return nullcontext()

    def drop_cache(self, files: Sequence[Path]) -> None:
        pagecache.evict(files)

    def resident_bytes(self, files: Sequence[Path]) -> int:
        return pagecache.resident_bytes(files)
