"""Data and WAL on different storages: pg_wal is moved while a server runs, and a symbolic link leads to it.

So the working copies stay what they are, and arms with and without a WAL of its own run on the same ones. A
server follows the link as it does after `initdb --waldir` (create_xlog_or_symlink, src/bin/initdb/initdb.c).
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pgassay.environment.home import SystemAccount, account
from pgassay.environment.linux.settle import sync_tree
from pgassay.errors import MeasurementError
from pgassay.storage.base import Delivered, Volume
from pgassay.storage.file_copies import NO_SPACE, copy_real, give, make_folder, tree

# As much as max_wal_size has a server keep, and some more until a checkpoint has removed it.
WAL_BYTES = 2 << 30
_WAL = "pg_wal"
_PLACES = "wal-of-"


class SeparateWal:
    """The storage of the data with that of the WAL beside it; each imposes what it imposes."""

    def __init__(self, data: Volume, wal: Volume) -> None:
        self.spec = data.spec.model_copy(update={"wal": wal.spec})
        self.root = data.root
        self.device = data.device
        self._data = data
        self._wal = wal
        self._owner = account()

    def activate(self) -> None:
        """Make the settings of both devices hold."""
        self._data.activate()
        self._wal.activate()

    def clone(self, source: Path, key: str, copy: int) -> Path:
        """As the storage of the data does."""
        return self._data.clone(source, key, copy)

    def keep_only(self, key: str, numbers: Collection[int]) -> None:
        """As the storage of the data does."""
        self._data.keep_only(key, numbers)

    def reset(self, working: Path, source: Path) -> None:
        """What makes a copy equal to its source puts a folder where the link is; its WAL is not needed."""
        self._data.reset(working, source)
        shutil.rmtree(self._place(working), ignore_errors=True)

    def mark(self, working: Path, *, clean: bool) -> None:
        """Before a server starts pg_wal is moved, and back when the copy is as it was."""
        wal = working / _WAL
        if clean and wal.is_symlink():
            self._move_back(working)
        self._data.mark(working, clean=clean)
        if not clean and not wal.is_symlink():
            self._move_out(working)

    def is_clean(self, working: Path) -> bool:
        """As the storage of the data tells."""
        return self._data.is_clean(working)

    def drop_cache(self, files: Sequence[Path]) -> None:
        """Of relations, which lie with the data."""
        self._data.drop_cache(files)

    def resident_bytes(self, files: Sequence[Path]) -> int:
        """Of relations, which lie with the data."""
        return self._data.resident_bytes(files)

    def facts(self) -> Mapping[str, object]:
        """Those of the data's storage, with those of the WAL's in them."""
        data, wal = self._data.facts(), self._wal.facts()
        return {**data, "storage": f"{data['storage']} with its WAL on {wal['storage']}", "wal": wal}

    def limits_cgroup(self) -> Mapping[str, str]:
        """Those of the data's device."""
        return self._data.limits_cgroup()

    @contextmanager
    def measured(self) -> Iterator[Delivered]:
        """Both impose at once."""
        both = Delivered()
        with self._wal.measured() as wal, self._data.measured() as data:
            yield both
        if data is not None:
            both.columns.update(data.columns)
            both.facts.update(data.facts)
            both.warnings.extend(data.warnings)
            both.files.update(data.files)
        if wal is not None:
            both.warnings.extend(f"the WAL's volume: {sentence}" for sentence in wal.warnings)
            both.wal.append(replace(wal, files={f"wal_{name}": each for name, each in wal.files.items()}))

    def remove(self) -> None:
        """Both; a copy whose link leads nowhere then is put back before its next use, as it is not clean."""
        # No server runs any more, and a copy whose WAL is still here is made equal to its source again.
        for place in self._wal.root.glob(f"{_PLACES}*"):
            shutil.rmtree(place, ignore_errors=True)
        try:
            self._wal.remove()
        finally:
            self._data.remove()

    def _place(self, working: Path) -> Path:
        return self._wal.root / _name(working)

    def _move_out(self, working: Path) -> None:
        place, wal = self._place(working), working / _WAL
        shutil.rmtree(place, ignore_errors=True)
        _copy(wal, place, self._owner)
        shutil.rmtree(wal)
        wal.symlink_to(place)
        if self._owner is not None:
            os.chown(wal, self._owner.uid, self._owner.gid, follow_symlinks=False)

    def _move_back(self, working: Path) -> None:
        place, wal = self._place(working), working / _WAL
        wal.unlink()
        _copy(place, wal, self._owner)
        shutil.rmtree(place)


def _name(working: Path) -> str:
    return f"{_PLACES}{working.parent.name}-{working.name}"


def separate_wal(working: Path) -> Path | None:
    """The folder that a copy's `pg_wal` leads to, where a storage of the WAL made it; else None.

    The servers' account could put another link there.
    """
    link = working / _WAL
    if not link.is_symlink():
        return None
    place = Path(os.path.realpath(link))
    return place if place.name == _name(working) and place.is_dir() else None


def _copy(source: Path, target: Path, owner: SystemAccount | None) -> None:
    """Copy the WAL with its folders, and have it on the device, so that nothing is written behind a trial."""
    try:
        make_folder(target, owner, stat.S_IMODE(source.stat().st_mode))
        for relative, status in tree(source):
            path, mode = target / relative, stat.S_IMODE(status.st_mode)
            if stat.S_ISDIR(status.st_mode):
                make_folder(path, owner, mode)
            elif stat.S_ISREG(status.st_mode):
                copy_real(source / relative, path)
                give(path, owner, mode)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise MeasurementError(
                f"The WAL does not fit into {target.parent}: use a larger storage for it (wal=…)."
            ) from error
        raise MeasurementError(f"Could not move the WAL to {target}: {error.strerror}.") from error
    sync_tree(target)
