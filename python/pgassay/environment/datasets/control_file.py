"""What `global/pg_control` says of a data folder, read without a program or a server.

The layout is ControlFileData of src/include/catalog/pg_control.h. Fields after the first four have
moved between versions; those about sizes follow `floatFormat`, whose value is always 1234567.0.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from pgassay.errors import UsageError

FLOAT_FORMAT = struct.pack("<d", 1234567.0)
_STATE_OFFSET = 16
_SIZES = struct.Struct("<IIIIIIII4xI")
SHUT_DOWN = 1
SHUT_DOWN_IN_RECOVERY = 2


@dataclass(frozen=True)
class ControlFile:
    """How a cluster was made, and in which state it was left; sizes in bytes."""

    state: int
    block_bytes: int
    wal_segment_bytes: int
    checksums: bool

    @property
    def was_stopped(self) -> bool:
        """Whether the server ended in order, so that no recovery is needed."""
        return self.state in (SHUT_DOWN, SHUT_DOWN_IN_RECOVERY)


def read_control_file(folder: Path) -> ControlFile:
    """Read the control file of a data folder; raises UsageError for one that is missing or damaged."""
    path = folder / "global" / "pg_control"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name a readable data folder") from error
    at = data.find(FLOAT_FORMAT, _STATE_OFFSET)
    sizes_at = at + len(FLOAT_FORMAT)
    if at < 0 or len(data) < sizes_at + _SIZES.size:
        raise UsageError(
            f"{path} is no control file of PostgreSQL on a machine like this: name another folder"
        )
    state = struct.unpack_from("<I", data, _STATE_OFFSET)[0]
    sizes = _SIZES.unpack_from(data, sizes_at)
    return ControlFile(
        state=state, block_bytes=sizes[0], wal_segment_bytes=sizes[3], checksums=sizes[-1] != 0
    )
