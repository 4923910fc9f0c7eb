"""A capture's files, cut into blocks whose checksums are right: crates/capture/FORMAT.md."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pgassay.errors import UsageError

VERSION = 1
SUFFIX = ".pgcap"
_MAGIC = b"PGAcaptr"
_HEADER = struct.Struct("<8sIIQII")
_BLOCK = struct.Struct("<4sIIIIQQIII")
_TRAILER = struct.Struct("<4sQQI")
# What claims more than this is damaged.
_RAW_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class CaptureBlock:
    """The records of a block, and the time of its first one in nanoseconds from the capture's time 0."""

    first_ns: int
    last_ns: int
    records: int
    dropped: int
    raw: bytes


class CaptureFile:
    """One file of a capture. After all blocks were read, `is_whole` says whether the file has its end."""

    def __init__(self, path: Path) -> None:
        """Read the header; raises UsageError where it is no capture, or of another version."""
        self.path = path
        self.is_whole = False
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            raise UsageError(
                f"{path} is not a capture of pgassay: name the folder that `pgassay capture` wrote"
            )
        _, version, self.group, self.started_unix_ns, _, checksum = _HEADER.unpack(header)
        if version != VERSION:
            raise UsageError(
                f"{path} is a capture of format {version}, and this pgassay reads format {VERSION}: "
                "read it with the pgassay that wrote it, or with a newer one"
            )
        if zlib.crc32(header[:-4]) != checksum:
            raise UsageError(f"{path} has a damaged header: restore the file from a copy")

    def blocks(self) -> Iterator[CaptureBlock]:
        """The whole blocks, in their order; ends at the file's end or where it was cut off or damaged."""
        self.is_whole = False
        with self.path.open("rb") as file:
            file.seek(_HEADER.size)
            while (block := self._next(file)) is not None:
                yield block

    def _next(self, file: BinaryIO) -> CaptureBlock | None:
        head = file.read(_TRAILER.size)
        if len(head) == _TRAILER.size and head.startswith(b"DONE"):
            self.is_whole = zlib.crc32(head[:-4]) == _TRAILER.unpack(head)[3]
            return None
        head += file.read(_BLOCK.size - _TRAILER.size)
        if len(head) < _BLOCK.size or not head.startswith(b"BLCK"):
            return None
        _, stored, length, records, dropped, first_ns, last_ns, checksum, _, own = _BLOCK.unpack(head)
        if zlib.crc32(head[:-4]) != own or length > _RAW_BYTES_MAX:
            return None
        payload = file.read(stored)
        if len(payload) < stored or zlib.crc32(payload) != checksum:
            return None
        try:
            raw = zlib.decompressobj(-15).decompress(payload, length + 1)
        except zlib.error:
            return None
        return CaptureBlock(first_ns, last_ns, records, dropped, raw) if len(raw) == length else None


def paths(folder: Path) -> list[Path]:
    """Where the files of a capture's folder are, by group; raises UsageError where there are none."""
    found = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not found:
        raise UsageError(f"{folder} holds no capture: name the folder that `pgassay capture --out` wrote")
    return found


def files(folder: Path) -> list[CaptureFile]:
    """The files of a capture's folder, by group; raises UsageError where there are none."""
    return [CaptureFile(path) for path in paths(folder)]
