"""What a dump says of itself: its format, and the versions that wrote it; read without pg_restore.

The header of an archive is written by src/bin/pg_dump/pg_backup_archiver.c, WriteHead: "PGDMP", the
format's version, the sizes of integers and offsets, the compression, the time, the database's name
and two versions as strings. A tar archive and a directory keep it in `toc.dat`.
"""

import io
import mmap
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from pgassay.errors import UsageError
from pgassay.model.build import major_of

Format = Literal["plain", "custom", "tar", "directory"]
MAGIC = b"PGDMP"
HEAD_BYTES = 64 * 1024
_TIME_INTEGERS = 7
_COMPRESSION_ALGORITHM_SINCE = (1, 15)
_STRING_BYTES_MAX = 4096
_PACKED = {
    b"\x1f\x8b": "gunzip",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"BZh": "bunzip2",
    b"\xfd7zXZ": "unxz",
    b"\x04\x22\x4d\x18": "lz4 -d",
}
_PLAIN_SERVER = re.compile(r"^-- Dumped from database version (\d+)(\S*)", re.MULTILINE)
_PLAIN_PROGRAM = re.compile(r"^-- Dumped by pg_dump version (\d+)(\S*)", re.MULTILINE)
_COMPLETE = b"-- PostgreSQL database dump complete"
_WHOLE_CLUSTER = "-- PostgreSQL database cluster dump"


@dataclass(frozen=True)
class DumpFacts:
    """The format of a dump, and the versions as it states them ('' where it does not)."""

    format: Format
    server_version: str
    program_version: str

    @property
    def major(self) -> int:
        """The newest major version that had a part in it; 0 when it says nothing."""
        return max(major_of(self.server_version), major_of(self.program_version))


def read_header(path: Path) -> DumpFacts:
    """Read what a dump says of itself; raises UsageError for what is no dump, or a packed one."""
    try:
        if path.is_dir():
            return _directory(path)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            if head.startswith(MAGIC):
                return _archive("custom", io.BytesIO(head), path)
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): make it readable") from error
    for magic, program in _PACKED.items():
        if head.startswith(magic):
            raise UsageError(
                f"{path} is compressed: unpack it with {program}, or dump with pg_dump --format=custom"
            )
    if head[257:262] == b"ustar":
        return _tar(path)
    return _plain(head, path)


def refuse_cut_short(path: Path) -> None:
    """Raise UsageError for a plain dump without its last line: psql takes its data's end for the end.

    pg_dump has always written that line (src/bin/pg_dump/pg_backup_archiver.c, RestoreArchive).
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        if text.rfind(_COMPLETE) < 0:
            raise UsageError(
                f"{path} is truncated (it has no line 'PostgreSQL database dump complete'): dump again"
            )


def _directory(path: Path) -> DumpFacts:
    for packed in ("toc.dat.gz", "toc.dat.lz4", "toc.dat.zst"):
        if (path / packed).exists():
            raise UsageError(f"{path}: {packed} is compressed, but not by pg_dump: unpack it first")
    if not (path / "toc.dat").is_file():
        raise UsageError(
            f"{path} is a folder without toc.dat, so it is not a dump of pg_dump --format=directory: "
            "for a server's data folder write --dataset folder:PATH"
        )
    with (path / "toc.dat").open("rb") as file:
        return _archive("directory", file, path)


def _tar(path: Path) -> DumpFacts:
    try:
        with tarfile.open(path, "r:") as archive:
            member = archive.extractfile("toc.dat")
            if member is not None:
                return _archive("tar", member, path)
    except (KeyError, tarfile.TarError):
        pass  # said below
    raise UsageError(
        f"{path} is a tar file without toc.dat, so it is not a dump of pg_dump --format=tar, or truncated"
    )


def _archive(kind: Format, file: IO[bytes], path: Path) -> DumpFacts:
    reader = _Reader(file, path)
    if reader.take(len(MAGIC)) != MAGIC:
        raise UsageError(f"{path} is not an archive of pg_dump: name a dump")
    version = (reader.byte(), reader.byte())
    reader.byte()  # the revision
    reader.integer_bytes = reader.byte()
    reader.byte()  # the size of offsets
    reader.byte()  # the format
    if version >= _COMPRESSION_ALGORITHM_SINCE:
        reader.byte()
    else:
        reader.integer()
    for _ in range(_TIME_INTEGERS):
        reader.integer()
    reader.string()  # the database's name
    return DumpFacts(kind, server_version=reader.string(), program_version=reader.string())


class _Reader:
    """Integers and strings as WriteInt and WriteStr of pg_backup_archiver.c put them."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self.integer_bytes = 4

    def take(self, count: int) -> bytes:
        data = self._file.read(count) if 0 <= count <= _STRING_BYTES_MAX else b""
        if len(data) != count:
            raise UsageError(f"{self._path} is truncated or damaged: dump again")
        return data

    def byte(self) -> int:
        return self.take(1)[0]

    def integer(self) -> int:
        sign = self.byte()
        value = int.from_bytes(self.take(self.integer_bytes), "little")
        return -value if sign else value

    def string(self) -> str:
        length = self.integer()
        return "" if length < 0 else self.take(length).decode("utf-8", "replace")


def _plain(head: bytes, path: Path) -> DumpFacts:
    text = head.decode("utf-8", "replace")
    if "\0" in text or not text.strip():
        raise UsageError(f"{path} is not a dump of pg_dump: name one, in any of its formats")
    if _WHOLE_CLUSTER in text:
        raise UsageError(
            f"{path} is a dump of a whole cluster (pg_dumpall): "
            "dump the one database with pg_dump and name that"
        )
    server, program = _PLAIN_SERVER.search(text), _PLAIN_PROGRAM.search(text)
    if server is None and program is None and "PostgreSQL database dump" not in text:
        raise UsageError(
            f"{path} has no pg_dump header: for SQL that builds data write --dataset script:{path}"
        )
    return DumpFacts(
        "plain",
        server_version="".join(server.groups()) if server else "",
        program_version="".join(program.groups()) if program else "",
    )
