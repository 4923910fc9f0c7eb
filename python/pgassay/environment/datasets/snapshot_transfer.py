"""Snapshots that travel from one machine to another: in parts, checksummed, there whole or not at all.

A snapshot is a stopped cluster, so its files are all there is. They travel as one stream, in the order of
their names, cut into parts of PART_BYTES; the manifest says which file lies where in it. A part is read from
the files when it is asked for and written to the files when it arrives: no machine ever holds an archive.
"""

import errno
import hashlib
import os
import re
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import model_validator

from pgassay.environment.atomic_folder import locked, made_whole
from pgassay.environment.datasets import MEGABYTE, snapshots
from pgassay.environment.datasets.snapshots import FREE_MARGIN_BYTES, SNAPSHOT_FILE, Snapshot
from pgassay.environment.home import account
from pgassay.environment.linux.settle import sync_tree
from pgassay.environment.server.programs import make_private_folder
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.base import Frozen

PART_BYTES = 4 * MEGABYTE
_KEY = re.compile(rf"[0-9a-f]{{{snapshots.KEY_CHARACTERS}}}")
# A file system keeps at least so much for each file, and PostgreSQL has a thousand small ones.
_BLOCK_BYTES = 4096


class Manifest(Frozen):
    """What a snapshot consists of: its folders, parents first, and its files with their bytes, by name.

    Raises ValueError for a name that leads out of the snapshot, or one that comes twice.
    """

    folders: tuple[str, ...]
    files: tuple[tuple[str, int], ...]

    @model_validator(mode="after")
    def _stays_inside(self) -> Self:
        names = [*self.folders, *(name for name, _ in self.files)]
        for name in names:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
                raise ValueError(f"{name!r} is not a path below a snapshot")
        if len(set(names)) < len(names):
            raise ValueError("a name comes twice")
        if any(size < 0 for _, size in self.files):
            raise ValueError("a file has a negative size")
        return self

    @cached_property
    def bytes(self) -> int:
        """Of all files."""
        return sum(size for _, size in self.files)

    @property
    def parts(self) -> int:
        """How many parts the stream has."""
        return -(-self.bytes // PART_BYTES)

    @property
    def disk_bytes(self) -> int:
        """What the files take on a device."""
        blocks = sum(-(-size // _BLOCK_BYTES) for _, size in self.files)
        return (blocks + len(self.files) + len(self.folders)) * _BLOCK_BYTES

    def pieces(self, number: int) -> Iterator[tuple[str, int, int]]:
        """Of which pieces of files a part is made: (name, offset in the file, bytes)."""
        at, end = number * PART_BYTES, min((number + 1) * PART_BYTES, self.bytes)
        place = bisect_right(self._ends, at)
        while at < end:
            name, size = self.files[place]
            begin = self._ends[place] - size
            taken = min(end, self._ends[place]) - at
            if taken:
                yield name, at - begin, taken
            at += taken
            place += 1

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(size for _, size in self.files))


def manifest_of(snapshot: Snapshot) -> Manifest:
    """Raises UsageError for a snapshot with anything but files and folders, which stays where it is."""
    folders, files = [], []
    for path in sorted(snapshot.path.rglob("*")):
        name = str(path.relative_to(snapshot.path))
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UsageError(f"{path} is neither a file nor a folder: this snapshot can't be copied")
        if path.is_dir():
            folders.append(name)
        else:
            files.append((name, path.stat().st_size))
    return Manifest(folders=tuple(folders), files=tuple(files))


def read_part(snapshot: Snapshot, manifest: Manifest, number: int) -> bytes:
    """The bytes of a part; raises MeasurementError where a file is not what the manifest says."""
    content = bytearray()
    for name, offset, size in manifest.pieces(number):
        with (snapshot.path / name).open("rb") as file:
            file.seek(offset)
            piece = file.read(size)
        if len(piece) != size:
            raise MeasurementError(f"{snapshot.path / name} has become shorter: remove {snapshot.path}")
        content += piece
    return bytes(content)


def checksum(content: bytes) -> str:
    """The SHA-256 of a part."""
    return hashlib.sha256(content).hexdigest()


class Arrival:
    """A snapshot that is arriving: parts in their order; a folder that a crash leaves is removed later.

    Nobody else makes it meanwhile. `end` it, whole or not.
    """

    def __init__(self, key: str, manifest: Manifest) -> None:
        """Raises UsageError where the disk has too little space, or the name is none."""
        if not _KEY.fullmatch(key) or SNAPSHOT_FILE not in dict(manifest.files):
            raise UsageError(f"{key!r} is not a snapshot")
        self.key, self.manifest, self.arrived = key, manifest, 0
        final = snapshots.folder() / key
        needed, free = manifest.disk_bytes + FREE_MARGIN_BYTES, shutil.disk_usage(final.parent).free
        if free < needed:
            raise UsageError(
                f"the data take {needed // MEGABYTE} MB in {final.parent} and {free // MEGABYTE} MB are "
                "free: free some space there, or name another folder by PGASSAY_HOME"
            )
        self._stack = ExitStack()
        self._stack.enter_context(locked(final.with_name(f"{key}.lock")))
        try:
            self._is_needed = not final.exists()
            if self._is_needed:
                self._partial = self._stack.enter_context(made_whole(final))
                make_private_folder(self._partial)
                for name in manifest.folders:
                    (self._partial / name).mkdir(mode=0o700, parents=True, exist_ok=True)
                for name, _ in manifest.files:
                    (self._partial / name).touch(mode=0o600)
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise

    def take(self, number: int, content: bytes, sha256: str) -> bool:
        """Write a part; one that is here already is left as it is. False where it is damaged.

        Raises UsageError for one that is not the next, and for a full disk.
        """
        if number < self.arrived:
            return True
        if number > self.arrived:
            raise UsageError(f"part {number} of {self.key} came before part {self.arrived}")
        pieces = list(self.manifest.pieces(number))
        if checksum(content) != sha256 or len(content) != sum(size for *_, size in pieces):
            return False
        if self._is_needed:
            begin = 0
            for name, offset, size in pieces:
                self._write(self._partial / name, offset, content[begin : begin + size])
                begin += size
        self.arrived += 1
        return True

    def _write(self, path: Path, offset: int, content: bytes) -> None:
        try:
            with path.open("r+b") as file:
                file.seek(offset)
                file.write(content)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise UsageError(
                f"no space is left in {path.parent} for the data: free some space there, or name another "
                "folder by PGASSAY_HOME"
            ) from error

    def end(self, *, is_whole: bool) -> None:
        """Put the snapshot in its place, on stable storage, or remove what came of it.

        Raises MeasurementError for one of which a part is missing, and leaves nothing of it then.
        """
        try:
            if is_whole:
                self._finish()
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise
        cut_off = None if is_whole else MeasurementError(f"the data {self.key} did not arrive")
        self._stack.__exit__(type(cut_off) if cut_off else None, cut_off, None)

    def _finish(self) -> None:
        if self.arrived < self.manifest.parts:
            raise MeasurementError(f"{self.arrived} of {self.manifest.parts} parts of {self.key} arrived")
        if not self._is_needed:
            return
        owner = account()
        if owner is not None:
            for path in self._partial.rglob("*"):
                os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
        sync_tree(self._partial)
