"""The folded stacks of a profiled trial: lines of `outermost;…;innermost COUNT`."""

import gzip
from collections.abc import Mapping
from pathlib import Path

from pgassay.record import layout
from pgassay.record.documents import damaged

STACKS_FILE = "stacks.folded.gz"


def to_folded(stacks: Mapping[str, int]) -> bytes:
    """The file's content; the same stacks give the same bytes."""
    lines = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
    return gzip.compress(lines.encode(), mtime=0)


def folded_stacks(trial: Path) -> dict[str, int] | None:
    """The samples of each stack of a trial's folder; None where it was not profiled.

    Raises UsageError when the file is damaged.
    """
    path = trial / layout.OBSERVATIONS_FOLDER / STACKS_FILE
    if not path.is_file():
        return None
    stacks: dict[str, int] = {}
    try:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            stack, _, count = line.rpartition(" ")
            stacks[stack] = stacks.get(stack, 0) + int(count)
    except (OSError, EOFError, ValueError) as error:
        raise damaged(path, error) from error
    if not stacks:
        raise damaged(path, "it has no sample")
    return stacks
