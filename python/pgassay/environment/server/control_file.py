"""The control file of a data directory, read without a server: its format, how it was made, how it was left.

The layout is that of `ControlFileData` (src/include/catalog/pg_control.h): the first four fields have kept
their places since 8.3, and those with sizes stand behind a float that tells the machine's format of floats.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from pgassay.errors import UsageError

FLOAT_FORMAT = struct.pack("<d", 1234567.0)
# After the cluster's own identifier (8 bytes): pg_control_version, catalog_version_no, state.
_VERSIONS_AND_STATE = struct.Struct("<8xIII")
_STATE_OFFSET = 16
_SIZES = struct.Struct("<IIIIIIII4xI")
SHUT_DOWN = 1
SHUT_DOWN_IN_RECOVERY = 2


@dataclass(frozen=True)
class ControlFile:
    """How a cluster was made, by which format of files, and in which state it was left; sizes in bytes.

    `control_version` is PG_CONTROL_VERSION and `catalog_version` CATALOG_VERSION_NO of the sources: a server
    refuses a cluster whose numbers are others than its own.
    """

    control_version: int
    catalog_version: int
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
            f"{path} is not a control file of PostgreSQL on a machine like this: name another folder"
        )
    control_version, catalog_version, state = _VERSIONS_AND_STATE.unpack_from(data)
    sizes = _SIZES.unpack_from(data, sizes_at)
    return ControlFile(
        control_version=control_version,
        catalog_version=catalog_version,
        state=state,
        block_bytes=sizes[0],
        wal_segment_bytes=sizes[3],
        checksums=sizes[-1] != 0,
    )
