"""Copying a data folder: what is left out, and how links become what they lead to."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from pgassay.environment.home import account
from pgassay.environment.server.programs import make_private_folder
from pgassay.errors import UsageError

# What a base backup leaves out as well (src/backend/backup/basebackup.c, excludeDirContents and
# excludeFiles): it belongs to the server that ran, or would hold WAL back for a stranger.
EMPTIED = frozenset(
    {
        "pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp",
        "pg_subtrans",
    }
)  # fmt: skip
# Settings are pgassay's own; a signal would make the copy a standby of the original.
LEFT_OUT = frozenset(
    {
        "postmaster.pid", "postmaster.opts", "current_logfiles", "backup_manifest", "standby.signal",
        "recovery.signal", "postgresql.conf", "postgresql.auto.conf", "postgresql.auto.conf.tmp",
        "pg_hba.conf", "pg_ident.conf", "log", "pg_log", "tablespace_map", "server.log", "logfile",
    }
)  # fmt: skip
_SETTING = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*=", re.MULTILINE)


def copied_files(source: Path) -> Iterator[tuple[Path, str]]:
    """Each file that is copied, and its name below the copy, in a fixed order.

    Links of pg_wal and of tablespaces are followed: in the copy they are folders of its own
    (a tablespace inside the data folder is read like any other since version 15). Raises UsageError
    for any other link, and for a file that can't be read.
    """
    yield from _walk(source, source, "")


def _walk(root: Path, folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"can't read {error.filename} ({error.strerror}): make it readable") from error
    for entry in entries:
        inner = f"{name}{entry.name}"
        if (not name and entry.name in LEFT_OUT) or entry.name == "pg_internal.init":
            continue
        if entry.is_symlink():
            _refuse_other_link(root, entry, inner)
        if entry.is_dir():
            if name or entry.name not in EMPTIED:
                yield from _walk(root, Path(entry.path), f"{inner}/")
        elif entry.is_file():
            yield Path(entry.path), inner


def _refuse_other_link(root: Path, entry: "os.DirEntry[str]", inner: str) -> None:
    is_known = inner == "pg_wal" or re.fullmatch(r"pg_tblspc/\d+", inner)
    if not is_known or not Path(entry.path).exists():
        raise UsageError(
            f"{root}/{inner} is a link to {Path(entry.path).readlink()}, which can't be "
            "followed: replace it by its target, in a copy of the folder"
        )


def copy_folder(source: Path, target: Path) -> list[str]:
    """Copy a data folder to `target` (which must not exist), owned by the servers' account.

    Returns sentences about what is not as in the original. The original is opened for reading alone.
    """
    make_private_folder(target)
    for folder in sorted(_folders(source)):
        (target / folder).mkdir(mode=0o700, exist_ok=True)
    for file, name in copied_files(source):
        (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(file, target / name)
        (target / name).chmod(0o600)
    owner = account()
    if owner is not None:
        for path in (target, *target.rglob("*")):
            os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
    return _notes(source)


def _folders(source: Path) -> Iterator[str]:
    """The folders at the top, and those of WAL, which a server wants even when they are empty."""
    for entry in source.iterdir():
        if entry.is_dir() and entry.name not in LEFT_OUT:
            yield entry.name
    yield from ("pg_wal/archive_status", "pg_logical/snapshots", "pg_logical/mappings")
    if (source / "pg_wal" / "summaries").is_dir():
        yield "pg_wal/summaries"
    for base in (source / "base").iterdir():
        yield f"base/{base.name}"


def _notes(source: Path) -> list[str]:
    notes = []
    if (source / "backup_label").exists():
        notes.append("it is a base backup: the copy was recovered from the WAL in it")
    if any((source / "pg_tblspc").iterdir()):
        notes.append("its tablespaces are inside the copy, on the experiment's storage")
    auto = source / "postgresql.auto.conf"
    names = _SETTING.findall(auto.read_text("utf-8", "replace")) if auto.is_file() else []
    if names:
        notes.append(f"settings made by ALTER SYSTEM were left out: {', '.join(sorted(set(names)))}")
    return notes
