"""`--dataset folder:DATADIR[,database=NAME]`: a copy of a stopped server's data folder or of a base backup.

The original is read and never written. Whatever recovery it needs is done once, in the copy. With
`upgrade=on` a build of a newer major version gets a copy that pg_upgrade has brought to it.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgassay.environment.builds.registry import MAJOR_MIN
from pgassay.environment.cleanup import registry
from pgassay.environment.datasets.base import (
    DatasetKind,
    Made,
    OnStage,
    bulk_settings,
    existing_source,
    overhead_bytes,
    refuse_changed,
)
from pgassay.environment.datasets.final_steps import (
    LEFT_AS_MADE,
    install_extensions,
    relation_facts,
    run_analyse,
    settle,
)
from pgassay.environment.datasets.folder_copy import copied_files, copy_folder
from pgassay.environment.datasets.folder_server import adopt, choose_database, ensure_superuser
from pgassay.environment.datasets.load_failure import translated_errors
from pgassay.environment.server.control_file import read_control_file
from pgassay.environment.server.enclosure import isolated
from pgassay.environment.server.private_server import Server, ServerStartError
from pgassay.environment.server.programs import make_private_folder
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.environment.server.validation import block_bytes
from pgassay.environment.upgraded.cluster import LINKED, NEW, OLD, upgrade_cluster
from pgassay.environment.upgraded.programs import upgrade_programs
from pgassay.environment.upgraded.tablespaces import recovery_settings
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.model.arm import DatasetSpec
from pgassay.model.base import PAGE_BYTES
from pgassay.model.build import Build
from pgassay.sql_text import split_statements

_OPTION = re.compile(r",(database|upgrade)=([^,]*)$")
MEGABYTE = 1024**2
_SHOWN_MAX = 80
# Of the folders that a server does not start without, those that are looked into before one is started.
_NEEDED = ("base", "pg_multixact", "pg_tblspc", "pg_twophase", "pg_wal", "pg_xact")
# The superuser with which a cluster begins is the one that pg_upgrade wants, whatever it is called.
_FIRST_ROLE = "SELECT rolname FROM pg_authid WHERE oid = 10"
_STATISTICS = """
SELECT (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384),
    (SELECT count(*) FROM pg_statistic_ext_data)"""
_ANALYSED = "all tables were analysed after that"
_LEFT_OUT = "settings in files, replication slots, logs and statistics of the original were left out"
_READ_ONCE = (
    "every table was read once, which sets hint bits and prunes pages as any first read does; dead row "
    "versions, the visibility map and the planner's statistics are the original's own"
)


def specify(text: str, build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`folder:DATADIR[,database=NAME][,upgrade=on|FILE.sql]`; raises UsageError for what can't be copied.

    A file's statements are run on the copy before pg_upgrade.
    """
    name, options = text, dict[str, str]()
    while option := _OPTION.search(name):
        options[option.group(1)], name = option.group(2), name[: option.start()]
    path = existing_source(name, "folder", "a server's data folder or a base backup")
    before = _before_upgrade(options.get("upgrade", ""))
    refuse_unfit(build, path, upgrades=before is not None)
    if before and major_of_folder(path) == str(build.major):
        before = ()  # nothing is brought to another version, so a copy without them is this one
    control = read_control_file(path)
    return spec.model_copy(
        update={
            "kind": "folder",
            "source": str(path),
            "source_sha256": listing_sha256(path),
            "database": options.get("database", ""),
            "before_upgrade": before,
            "checksums": control.checksums,
            "wal_segment_mb": control.wal_segment_bytes // MEGABYTE,
        }
    )


def _before_upgrade(text: str) -> tuple[str, ...] | None:
    """What `upgrade=` says: None for no upgrade, the statements of a file; raises UsageError."""
    if text in ("", "off"):
        return None
    if text == "on":
        return ()
    file = Path(text)
    if not file.is_file():
        raise UsageError(
            f"--dataset folder: upgrade={text} is not known: write on, or a file of SQL that is run before"
        )
    return tuple(split_statements(file.read_text("utf-8"), text))


def refuse_unfit(build: Build, path: Path, *, upgrades: bool = False) -> None:
    """Raise UsageError unless the folder is at rest and of the build's own major version.

    `upgrades`: or of an older one, with programs at hand that upgrade it.
    """
    major = major_of_folder(path)
    if upgrades and major.isdigit() and int(major) < build.major:
        upgrade_programs(int(major), build)
    elif major != str(build.major):
        raise UsageError(
            f"the data folder {path} was made by PostgreSQL {major} and can't be read by {build.version}: "
            f"{_remedy_of_another_major(major)}"
        )
    _refuse_at_work(build, path)


def major_of_folder(path: Path) -> str:
    """The major version of the server whose data folder this is; raises UsageError where it is none."""
    try:
        return (path / "PG_VERSION").read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"{path} is not a PostgreSQL data folder (it has no PG_VERSION): name one, or a base backup in "
            "plain format"
        ) from error
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): make it readable") from error


def _refuse_at_work(build: Build, path: Path) -> None:
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
    lacking = [name for name in _NEEDED if not (path / name).is_dir()]
    if lacking:
        raise UsageError(
            f"{path} lacks the folder {' and '.join(lacking)}, so it is not a whole copy of a data folder: "
            "copy it again, with its empty folders, or name a base backup (pg_basebackup)"
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
        refuse_unfit(build, path, upgrades=spec.before_upgrade is not None)


def needed_bytes(spec: DatasetSpec) -> int:
    """Return the bytes of all that is copied, and of the WAL that recovery writes."""
    path = Path(spec.source)
    copied = sum(file.stat().st_size for file, _ in copied_files(path)) if path.exists() else 0
    return copied + overhead_bytes(spec)


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Copy the folder, let a server recover the copy, and leave it stopped; see DatasetKind."""
    path = refuse_changed(spec, listing_sha256)
    refuse_unfit(build, path, upgrades=spec.before_upgrade is not None)
    major = int(major_of_folder(path))
    # Replayed WAL may make a tablespace where the original has it (src/backend/commands/tablespace.c,
    # tblspc_redo): the copy's recovery sees no such place, or it would write into the original's files.
    with isolated(leaves_network=False):
        if major == build.major:
            notes = _copied(folder, spec, on_progress)
            with _recovered(build, folder, spec) as (server, database, more):
                install_extensions(server, build, database)
                settle(server, on_progress, database, analyse=False, reads=spec.settled)
                return Made(database, relation_facts(server, database), (*notes, *more))
        with _beside(folder) as place:
            brought = _bring(build, place, spec, on_progress)
            if folder.exists():
                folder.rmdir()
            (place / NEW).rename(folder)
        with _recovered(build, folder, spec) as (server, database, _):
            install_extensions(server, build, database)
            kept = _statistics(server, database)
            if spec.analysed:
                run_analyse(server, on_progress, database)
            settle(server, on_progress, database, analyse=False, reads=spec.settled)
            notes = (*brought.notes, brought.sentence(kept), *([_ANALYSED] if spec.analysed else ()))
            facts = brought.facts(kept)
            return Made(database, relation_facts(server, database), notes, upgrade=facts)


@dataclass(frozen=True)
class _Brought:
    """How a copy came to its version: by which programs, in which time; `had`: its statistics before.

    Statistics: of so many columns, and so many extended ones.
    """

    programs: str
    seconds: float
    had: tuple[int, int]
    notes: tuple[str, ...]

    def sentence(self, kept: tuple[int, int]) -> str:
        return (
            f"pg_upgrade --{LINKED} {self.programs} took {self.seconds:.1f} s; it carried statistics of "
            f"{kept[0]} of {self.had[0]} columns and {kept[1]} of {self.had[1]} extended ones"
        )

    def facts(self, kept: tuple[int, int]) -> dict[str, object]:
        return {
            "programs": self.programs,
            "mode": LINKED,
            "seconds": round(self.seconds, 3),
            "statistics": [kept[0], self.had[0]],
            "extended_statistics": [kept[1], self.had[1]],
        }


def _copied(folder: Path, spec: DatasetSpec, on_progress: OnStage) -> tuple[str, ...]:
    """Copy it; sentences about what is not as in the original."""
    path = Path(spec.source)
    on_progress(f"copying {path}", None)
    notes = [*copy_folder(path, folder), _LEFT_OUT, _READ_ONCE if spec.settled else LEFT_AS_MADE]
    # A server that was started meanwhile has changed its files, and perhaps those that were copied.
    if listing_sha256(path) != spec.source_sha256:
        raise UsageError(f"{path} changed while it was copied: stop its server, and run again")
    if not read_control_file(folder).was_stopped:
        notes.append("it was not shut down cleanly: the copy was recovered from its WAL")
    return tuple(notes)


@contextmanager
def _recovered(
    build: Build, folder: Path, spec: DatasetSpec
) -> Iterator[tuple[Server, str, tuple[str, ...]]]:
    """A server on the copy, its database, and what was cut off from the world; recovery is done."""
    settings = bulk_settings(build) | _small_wal(spec) | recovery_settings(build)
    try:
        ensure_superuser(build, folder, settings)
        with Server(build, folder, settings) as server:
            with translated_errors(server, f"opening the copy of {spec.source}"):
                database = choose_database(server, spec)
                notes = adopt(server)
            yield server, database, tuple(notes)
    except ServerStartError as error:
        why = error.failure.sentence()
        raise MeasurementError(f"the copy of {spec.source} does not start: {why}") from error


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A place for both clusters, on the same file system; nothing of it stays."""
    place = folder.with_name(f"{folder.name}.before")
    token = registry.register("folder", path=str(place))
    try:
        make_private_folder(place)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        registry.forget(token)


def _bring(build: Build, place: Path, spec: DatasetSpec, on_progress: OnStage) -> _Brought:
    """A copy in this folder, upgraded into another one there."""
    old = place / OLD
    programs = upgrade_programs(int(major_of_folder(Path(spec.source))), build)
    notes = _copied(old, spec, on_progress)
    with _recovered(programs.old, old, spec) as (server, database, more):
        with control(server, database) as session:
            user = str((session.execute(_FIRST_ROLE).fetchone() or ("",))[0])
            _run_before(session, spec)
        had = _statistics(server, database)
    words = f"from {programs.old.version} to {programs.new.version} ({programs.new.origin})"
    on_progress(f"pg_upgrade {words}", None)
    seconds = upgrade_cluster(programs, place, user, spec)
    return _Brought(words, seconds, had, (*notes, *more))


def _run_before(session: ControlSession, spec: DatasetSpec) -> None:
    """Run what the user, or `upgrade`, wants to have run before pg_upgrade; raises UsageError."""
    for statement in spec.before_upgrade or ():
        try:
            session.execute(statement.encode(), prepare=False)
        except psycopg.Error as error:
            text = " ".join(statement.split())[:_SHOWN_MAX]
            raise UsageError(
                f"'{text}' failed on the copy of {spec.source} ({first_line(error)}): correct the SQL that "
                "is to run before pg_upgrade"
            ) from None


def _statistics(server: Server, database: str) -> tuple[int, int]:
    with control(server, database) as session:
        row = session.execute(_STATISTICS).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


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
    decided_by=(*DatasetKind.decided_by, "settled", "before_upgrade", "analysed"),
    usage="folder:DATADIR",
)
