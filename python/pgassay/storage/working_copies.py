"""Working copies of frozen data directories: made, told clean from touched, and put back.

Layout below a volume's root:

    KEY/copy-N          the data directory that servers run on
    KEY/copy-N.json     its state: source, whether it is clean, and a manifest of its files
    KEY/base-N          (volumes with reflinks) the copy on the volume that copy-N is put back from

The manifest holds size, mtime, ctime and inode of every file as pgassay left it. PostgreSQL's writes
move mtime and ctime, and no program can set a ctime, so a file whose four values still hold has not
been written: a reset needs to put back only the others. pg_wal and global/pg_control are always
copied for real.
"""

import json
import os
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from pgassay.durable import replace_file
from pgassay.environment.home import SystemAccount
from pgassay.environment.linux.settle import sync_tree
from pgassay.environment.server.server_processes import processes_of
from pgassay.errors import MeasurementError
from pgassay.storage.file_copies import (
    NO_SPACE,
    CopyFile,
    copy_real,
    free_bytes,
    give,
    make_folder,
    tree,
    tree_bytes,
)
from pgassay.storage.storage_options import readable_bytes

_FORMAT = 1
_CONTROL_FILE = "global/pg_control"
_LEFT_BY_SERVERS = ("postmaster.pid", "postmaster.opts")
# Directories, state files and the file system's own records, beyond the data themselves.
_SPARE_BYTES = 32 * 1024 * 1024
_CATCH_UP_S = 1.0

Manifest = dict[str, list[int]]


class _State(TypedDict, total=False):
    """The document beside a working copy; empty where there is none that this version can read."""

    format: int
    source: str
    clean: bool
    manifest: Manifest


@dataclass(frozen=True)
class WorkingCopies:
    """The working copies below `root`, which belong to `owner` (None: to the caller)."""

    root: Path
    owner: SystemAccount | None

    def path(self, key: str, copy: int) -> Path:
        """Where working copy `copy` of the snapshot `key` lies."""
        return self.root / key / f"copy-{copy}"

    def base_path(self, key: str, copy: int) -> Path:
        """Where the base of that copy lies, on a volume with reflinks."""
        return self.root / key / f"base-{copy}"

    def prepare_folders(self, key: str) -> None:
        """Make the folders above a copy."""
        make_folder(self.root, self.owner)
        make_folder(self.root / key, self.owner)

    def make_equal(self, target: Path, source: Path, copy_file: CopyFile) -> None:
        """Make `target` equal to `source`, copying what its manifest does not vouch for; then mark it clean.

        Syncs all it wrote. Raises MeasurementError with the sizes when the space does not suffice.
        """
        if self.is_running(target):
            raise MeasurementError(
                f"A server still runs on {target}, so its files can't be put back: stop it first."
            )
        state = self._state(target)
        vouched: Manifest = state.get("manifest", {}) if state.get("source") == str(source) else {}
        self._write_state(target, source, clean=False, manifest=vouched)
        try:
            make_folder(target, self.owner)
            self._remove_extra(target, source)
            self._copy_missing(target, source, vouched, copy_file)
        except OSError as error:
            if error.errno in NO_SPACE:
                self.discard(target)
                raise MeasurementError(
                    f"The disk of {target} is full: the data take {readable_bytes(tree_bytes(source))}, "
                    f"{readable_bytes(free_bytes(self.root))} are left; free some or use a smaller --scale."
                ) from error
            raise MeasurementError(
                f"Could not copy {source} to {target}: {error.strerror} ({error.filename or 'in writing'})."
            ) from error
        sync_tree(target)
        self._write_state(target, source, clean=True, manifest=_manifest(target))

    def discard(self, target: Path) -> None:
        """Remove a copy and its state."""
        _state_file(target).unlink(missing_ok=True)
        shutil.rmtree(target, ignore_errors=True)

    def mark(self, target: Path, *, clean: bool) -> None:
        """Record durably whether the relation files of `target` still equal its source's."""
        state = self._state(target)
        if not state:
            raise MeasurementError(
                f"{target} is not a working copy of pgassay's, so it can't be marked: clone it first."
            )
        manifest: Manifest = state["manifest"]
        if clean:
            # A clean stop moves the control file; remember how it was left, to notice a later start.
            manifest = manifest | {_CONTROL_FILE: _stamp((target / _CONTROL_FILE).lstat(), touched=True)}
        self._write_state(target, Path(state["source"]), clean=clean, manifest=manifest)

    def is_clean(self, target: Path) -> bool:
        """Whether `target` was marked clean and no server was started on it since.

        Every start writes the control file, so its stamp tells a start that nobody marked.
        """
        state = self._state(target)
        if not state.get("clean") or (target / "postmaster.pid").exists():
            return False
        expected = state["manifest"].get(_CONTROL_FILE)
        try:
            return expected is not None and _stamp((target / _CONTROL_FILE).lstat())[:4] == expected[:4]
        except OSError:
            return False

    def is_whole(self, target: Path, source: Path) -> bool:
        """Whether `target` was once made equal to `source` and not touched since."""
        return self._state(target).get("source") == str(source) and self.is_clean(target)

    def is_running(self, target: Path) -> bool:
        """Whether a server works in `target` now: its files are then left as they are."""
        return bool(processes_of(target))

    def make_room(self, needed_bytes: int, keep: str) -> None:
        """Remove the copies of other snapshots, the longest unused first, until `needed_bytes` are free.

        Raises MeasurementError with the sizes, and removes nothing, when that can't suffice.
        """
        make_folder(self.root, self.owner)
        wanted = needed_bytes + _SPARE_BYTES
        free = free_bytes(self.root)
        if free >= wanted:
            return
        others = [
            folder
            for folder in self.root.iterdir()
            if folder.name != keep and any(folder.glob("copy-*.json")) and not _is_in_use(folder)
        ]
        if free + sum(map(tree_bytes, others)) >= wanted:
            for folder in sorted(others, key=_last_use):
                shutil.rmtree(folder)
                free = _free_bytes_after_removal(self.root, wanted)
                if free >= wanted:
                    return
        raise MeasurementError(
            f"A copy of the data needs {readable_bytes(wanted)} at {self.root} and {readable_bytes(free)} "
            "are free: free some space, use a smaller --scale or a larger storage (loop:size=…, host:path=…)."
        )

    def reusable_bytes(self) -> int:
        """What `make_room` could free at most."""
        return tree_bytes(self.root)

    def copies(self) -> list[Path]:
        """All working copies, of all snapshots."""
        return sorted(path for path in self.root.glob("*/copy-*") if path.is_dir())

    def copies_of(self, key: str) -> list[Path]:
        """The working copies of one snapshot, unfinished ones among them."""
        return sorted(path for path in (self.root / key).glob("copy-*") if path.is_dir())

    def _remove_extra(self, target: Path, source: Path) -> None:
        kept = {relative: stat.S_IFMT(status.st_mode) for relative, status in tree(source)}
        for name in _LEFT_BY_SERVERS:
            kept.pop(name, None)
        for relative, status in list(tree(target)):
            if kept.get(relative) == stat.S_IFMT(status.st_mode):
                continue
            path = target / relative
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _copy_missing(self, target: Path, source: Path, vouched: Manifest, copy_file: CopyFile) -> None:
        for relative, status in tree(source):
            path = target / relative
            if relative in _LEFT_BY_SERVERS:
                continue
            if stat.S_ISDIR(status.st_mode):
                make_folder(path, self.owner, stat.S_IMODE(status.st_mode))
            elif stat.S_ISLNK(status.st_mode):
                raise MeasurementError(
                    f"{source / relative} is a symbolic link (a tablespace or a moved pg_wal): "
                    "pgassay copies only data directories that hold all their files."
                )
            elif stat.S_ISREG(status.st_mode) and not _is_vouched(path, relative, vouched):
                (copy_real if _needs_own_blocks(relative) else copy_file)(source / relative, path)
                give(path, self.owner, stat.S_IMODE(status.st_mode))

    def _state(self, target: Path) -> _State:
        try:
            state: _State = json.loads(_state_file(target).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) and state.get("format") == _FORMAT else {}

    def _write_state(self, target: Path, source: Path, *, clean: bool, manifest: Manifest) -> None:
        document = {"format": _FORMAT, "source": str(source), "clean": clean, "manifest": manifest}
        file = _state_file(target)
        try:
            replace_file(file, json.dumps(document).encode())
        except OSError as error:
            raise MeasurementError(
                f"Could not write {file}: {error.strerror}; free some space there."
            ) from error


def _free_bytes_after_removal(folder: Path, wanted: int) -> int:
    """Free space once the file system has caught up: XFS frees the blocks of removed files later."""
    free, quiet_since = free_bytes(folder), time.monotonic()
    while free < wanted and time.monotonic() - quiet_since < _CATCH_UP_S:
        time.sleep(0.02)
        now = free_bytes(folder)
        if now != free:
            free, quiet_since = now, time.monotonic()
    return free


def real_bytes(source: Path) -> int:
    """What a reflinked copy of `source` takes of its own: the files that are always copied for real."""
    return sum(
        status.st_size
        for relative, status in tree(source)
        if stat.S_ISREG(status.st_mode) and _needs_own_blocks(relative)
    )


def _needs_own_blocks(relative: str) -> bool:
    # A reflinked file pays copy-on-write at its first write; WAL is written in every trial.
    return relative == _CONTROL_FILE or relative.startswith("pg_wal/")


def _is_vouched(path: Path, relative: str, vouched: Manifest) -> bool:
    if _needs_own_blocks(relative) or relative not in vouched:
        return False
    try:
        return _stamp(path.lstat()) == vouched[relative]
    except FileNotFoundError:
        return False


def _stamp(status: os.stat_result, *, touched: bool = False) -> list[int]:
    """What changes when a file is written; a fifth value marks a file that no longer equals its source."""
    values = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    return [*values, 1] if touched else values


def _manifest(target: Path) -> Manifest:
    return {relative: _stamp(status) for relative, status in tree(target) if stat.S_ISREG(status.st_mode)}


def _state_file(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")


def _last_use(folder: Path) -> float:
    return max((file.stat().st_mtime for file in folder.glob("*.json")), default=0.0)


def _is_in_use(folder: Path) -> bool:
    return any(processes_of(copy) for copy in folder.glob("copy-*"))
