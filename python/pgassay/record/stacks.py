"""The folded stacks of a profiled trial: lines of `outermost;…;innermost COUNT`, or the µs of waits."""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path

from pgassay.record import layout
from pgassay.record.documents import damaged

STACKS_FILE = "stacks.folded.gz"
WAITS_FILE = "waits.folded.gz"


def to_folded(stacks: Mapping[str, int]) -> bytes:
    """The file's content; the same stacks give the same bytes."""
    lines = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
    return gzip.compress(lines.encode(), mtime=0)


def folded_stacks(trial: Path) -> dict[str, int] | None:
    """The samples of each stack of a trial's folder; None where it was not profiled.

    Raises UsageError when the file is damaged.
    """
    stacks = _read(trial / layout.OBSERVATIONS_FOLDER / STACKS_FILE)
    if stacks is not None and not stacks:
        raise damaged(trial / layout.OBSERVATIONS_FOLDER / STACKS_FILE, "it has no sample")
    return stacks


def folded_waits(trial: Path) -> dict[str, int] | None:
    """The µs of waits by the stack in which they began; None where they were not recorded.

    Raises UsageError when the file is damaged.
    """
    return _read(trial / layout.OBSERVATIONS_FOLDER / WAITS_FILE)


def _read(path: Path) -> dict[str, int] | None:
    if not path.is_file():
        return None
    stacks: dict[str, int] = {}
    try:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            stack, _, count = line.rpartition(" ")
            stacks[stack] = stacks.get(stack, 0) + int(count)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise damaged(path, error) from error
    return stacks
