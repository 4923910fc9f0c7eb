"""`--dataset folder:DATADIR[,database=NAME]`: a copy of a stopped server's data folder or of a base backup.

The original is read and never written. Whatever recovery it needs is done once, in the copy.
"""

import hashlib
import os
import re
from pathlib import Path

from pgassay.environment.builds.registry import MAJOR_MIN
from pgassay.environment.datasets.base import (
    DatasetKind,
    Made,
    OnStage,
    bulk_settings,
    existing_source,
    overhead_bytes,
    refuse_changed,
)
from pgassay.environment.datasets.final_steps import LEFT_AS_MADE, install_extensions, relation_facts, settle
from pgassay.environment.datasets.folder_copy import copied_files, copy_folder
from pgassay.environment.datasets.folder_server import adopt, choose_database, ensure_superuser
from pgassay.environment.datasets.load_failure import translated_errors
from pgassay.environment.server.control_file import read_control_file
from pgassay.environment.server.enclosure import isolated
from pgassay.environment.server.private_server import Server, ServerStartError
from pgassay.environment.server.validation import block_bytes
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.base import PAGE_BYTES
from pgassay.model.build import Build

_DATABASE = re.compile(r",database=([^,]*)$")
MEGABYTE = 1024**2
_LEFT_OUT = "settings in files, replication slots, logs and statistics of the original were left out"
_READ_ONCE = (
    "every table was read once, which sets hint bits and prunes pages as any first read does; dead row "
    "versions, the visibility map and the planner's statistics are the original's own"
)


def specify(text: str, build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`folder:DATADIR[,database=NAME]`; raises UsageError for what can't be copied as it is."""
    option = _DATABASE.search(text)
    name = text[: option.start()] if option else text
    path = existing_source(name, "folder", "a server's data folder or a base backup")
    refuse_unfit(build, path)
    control = read_control_file(path)
    return spec.model_copy(
        update={
            "kind": "folder",
            "source": str(path),
            "source_sha256": listing_sha256(path),
            "database": option.group(1) if option else "",
            "checksums": control.checksums,
            "wal_segment_mb": control.wal_segment_bytes // MEGABYTE,
        }
    )


def refuse_unfit(build: Build, path: Path) -> None:
    """Raise UsageError unless the folder is at rest and of the build's own major version."""
    try:
        major = (path / "PG_VERSION").read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"{path} is no data folder of PostgreSQL (it has no PG_VERSION): name one, or a base backup in "
            "plain format"
        ) from error
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): make it readable") from error
    if major != str(build.major):
        raise UsageError(
            f"the data folder {path} was made by PostgreSQL {major} and can't be read by {build.version}: "
            f"{_remedy_of_another_major(major)}"
        )
    running = _postmaster_of(path)
    if running is not None:
        raise UsageError(
            f"a server (process {running}) is running on {path}: stop it, or name a base backup of it "
            "(pg_basebackup)"
        )
    control = read_control_file(path)
    # Nearly all builds are made with the usual size, so that only another one is asked for its own.
    if control.block_bytes != PAGE_BYTES and control.block_bytes != block_bytes(build):
        raise UsageError(
            f"{path} has blocks of {control.block_bytes} bytes, which the build {build.version} can't read: "
            "name a build that was made with this block size, or move the data by a dump"
        )
    if any((path / "pg_twophase").iterdir()):
        raise UsageError(
            f"{path} holds prepared transactions: commit them or roll them back, and stop the server again"
        )


def _remedy_of_another_major(major: str) -> str:
    by_dump = "move the data by a dump (pg_dump, then --dataset dump:FILE)"
    is_measured = major.isdigit() and int(major) >= MAJOR_MIN
    return f"use --pg {major}, or {by_dump}" if is_measured else by_dump


def listing_sha256(path: Path) -> str:
    """Return a hash of the control file and of all files' names, sizes and times of change.

    Reading all of a large cluster at each start would take longer than the experiment.
    """
    total = hashlib.sha256((path / "global" / "pg_control").read_bytes())
    for file, name in copied_files(path):
        facts = file.stat()
        total.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return total.hexdigest()


def check(build: Build, spec: DatasetSpec) -> None:
    """Raise UsageError when the folder is gone from rest, or of another major version."""
    path = Path(spec.source)
    if path.exists():  # else a snapshot may have been made of it; making one says that it is gone
        refuse_unfit(build, path)


def needed_bytes(spec: DatasetSpec) -> int:
    """Return the bytes of all that is copied, and of the WAL that recovery writes."""
    path = Path(spec.source)
    copied = sum(file.stat().st_size for file, _ in copied_files(path)) if path.exists() else 0
    return copied + overhead_bytes(spec)


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Copy the folder, let a server recover the copy, and leave it stopped; see DatasetKind."""
    path = refuse_changed(spec, listing_sha256)
    refuse_unfit(build, path)
    on_progress(f"copying {path}", None)
    notes = [*copy_folder(path, folder), _LEFT_OUT, _READ_ONCE if spec.settled else LEFT_AS_MADE]
    # A server that was started meanwhile has changed its files, and perhaps those that were copied.
    if listing_sha256(path) != spec.source_sha256:
        raise UsageError(f"{path} changed while it was copied: stop its server, and run again")
    if not read_control_file(folder).was_stopped:
        notes.append("it was not shut down in order: the copy was recovered from its WAL")
    settings = bulk_settings(build) | _small_wal(spec)
    try:
        # Replayed WAL may make a tablespace where the original has it (src/backend/commands/tablespace.c,
        # tblspc_redo): the copy's recovery sees no such place, or it would write into the original's files.
        with isolated(leaves_network=False):
            ensure_superuser(build, folder, settings)
            with Server(build, folder, settings) as server:
                with translated_errors(server, f"opening the copy of {path}"):
                    database = choose_database(server, spec)
                    notes += adopt(server)
                install_extensions(server, build, database)
                settle(server, on_progress, database, analyse=False, reads=spec.settled)
                return Made(database, relation_facts(server, database), tuple(notes))
    except ServerStartError as error:
        raise MeasurementError(f"the copy of {path} does not start: {error.failure.sentence()}") from error


def _small_wal(spec: DatasetSpec) -> dict[str, str]:
    """Settings with which the last checkpoint leaves little of the original's WAL."""
    return {"max_wal_size": f"{4 * spec.wal_segment_mb}MB", "min_wal_size": f"{2 * spec.wal_segment_mb}MB"}


def _postmaster_of(path: Path) -> int | None:
    """The living process that holds the folder's lock file, if any."""
    try:
        first = (path / "postmaster.pid").read_text("ascii").splitlines()[0]
        pid = abs(int(first))
    except (FileNotFoundError, ValueError, IndexError):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return pid
    return pid


KIND = DatasetKind(
    specify=specify,
    check=check,
    needed_bytes=needed_bytes,
    make=make,
    decided_by=(*DatasetKind.decided_by, "settled"),
    usage="folder:DATADIR",
)
