"""The contract of a kind of dataset, and the server that makes one.

That server may lose everything in a crash (fsync off, no WAL for new tables): a load that does not
end well is thrown away, and one that does is written to the device before it is used.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.rows import TupleRow

from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.value_syntax.paths import typed_path

OnStage = Callable[[str, float | None], None]
# Part of every snapshot, so that no trial has to write in order to create them.
OBSERVING_EXTENSIONS = ("pg_buffercache", "pg_prewarm", "pg_visibility")
DATABASE = "postgres"
MEGABYTE = 1024**2
EMPTY_CLUSTER_BYTES = 48 * MEGABYTE
WAL_SEGMENTS_WHILE_LOADING = 6
# A server whose min_wal_size (80 MB where nobody gives one) is below two segments does not start
# (src/backend/access/transam/xlog.c, ReadControlFile).
WAL_SEGMENTS_MIN = 2
MIN_WAL_MB = 80
INDEX_MEMORY_BYTES_MAX = 1024 * MEGABYTE
# Keys arrive sorted, so a parallel build only spreads the scan; it pays with cores to spare.
INDEX_CORES_SPARED = 2
INDEX_WORKERS_MAX = 2


@dataclass(frozen=True)
class Made:
    """What was made: the database that holds it, its relations, and what was done to it, in sentences.

    `relations` are pages, rows and bytes of each table and index by name (with its schema unless
    that is `public`). `upgrade`: of data that pg_upgrade brought to their version, how; {} of others.
    """

    database: str
    relations: dict[str, dict[str, int]]
    notes: tuple[str, ...] = field(default=())
    upgrade: dict[str, object] = field(default_factory=dict)


def kind_and_source(spec: DatasetSpec) -> str:
    """`dump:shop.dump`, or the kind alone where there is no source."""
    return f"{spec.kind}:{Path(spec.source).name}" if spec.source else spec.kind


@dataclass(frozen=True)
class DatasetKind:
    """A kind of dataset.

    specify(text, build, spec): the spec with what follows the colon of `--dataset`; raises UsageError.
    check(build, spec): raises UsageError for one that this build can't be given; starts nothing.
    needed_bytes(spec): the disk space that making it takes, its cluster and WAL included.
    make(build, folder, spec, progress): makes a cluster in `folder` (missing or empty), stopped and
    not synced; raises UsageError for what the user must mend, MeasurementError for what failed.
    decided_by: the fields of the spec that decide the content, besides `load` and the options of initdb,
    which count for every kind; data are used again where all of them are alike. Where the source lies is
    no part of it, what it holds is.
    describe(spec): the data in a few words, for titles.
    usage: how it is typed after `--dataset`; '' for a kind that is not chosen there.
    """

    specify: Callable[[str, Build, DatasetSpec], DatasetSpec]
    check: Callable[[Build, DatasetSpec], None]
    needed_bytes: Callable[[DatasetSpec], int]
    make: Callable[[Build, Path, DatasetSpec, OnStage], Made]
    decided_by: tuple[str, ...] = ("source_sha256", "database")
    describe: Callable[[DatasetSpec], str] = kind_and_source
    usage: str = ""


def overhead_bytes(spec: DatasetSpec) -> int:
    """Return the bytes of an empty cluster and of the WAL that loading into it keeps."""
    return EMPTY_CLUSTER_BYTES + WAL_SEGMENTS_WHILE_LOADING * spec.wal_segment_mb * MEGABYTE


def bulk_settings(build: Build, wal_segment_mb: int = 16) -> dict[str, str]:
    """Return the settings of a server that only loads; its WAL has segments of so many MB."""
    index_memory_bytes = min(INDEX_MEMORY_BYTES_MAX, usable_memory_bytes() // 8)
    workers = max(0, min(INDEX_WORKERS_MAX, (os.cpu_count() or 1) - INDEX_CORES_SPARED))
    settings = {
        "shared_buffers": f"{max(16, min(256, usable_memory_bytes() // 16 // MEGABYTE))}MB",
        "maintenance_work_mem": f"{max(64, index_memory_bytes // MEGABYTE)}MB",
        "max_parallel_maintenance_workers": str(workers),
        "max_connections": "10",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "wal_skip_threshold": "0",
        "max_wal_size": "16GB",
        # The last checkpoint then leaves no old segment: every reset of a working copy copies pg_wal.
        "wal_recycle": "off",
        "checkpoint_timeout": "1h",
        "fsync": "off",
        # A VACUUM marks no page all-visible, and a reader sets no hint bit, where the rows' commit is not in
        # the WAL's file yet (src/backend/access/heap/pruneheap.c, heapam_visibility.c). A write costs little.
        "synchronous_commit": "on",
        "full_page_writes": "off",
        "autovacuum": "off",
        "jit": "off",
        # A copied cluster may subscribe to a publisher, which is none of our business.
        "max_logical_replication_workers": "0",
    }
    if build.major >= 16:
        settings["vacuum_buffer_usage_limit"] = "16MB"
    if WAL_SEGMENTS_MIN * wal_segment_mb > MIN_WAL_MB:
        settings["min_wal_size"] = f"{WAL_SEGMENTS_MIN * wal_segment_mb}MB"
    return settings


def existing_source(text: str, kind: str, what: str) -> Path:
    """The absolute path of a source as typed; raises UsageError when nothing is there."""
    if not text:
        raise UsageError(f"--dataset {kind} needs {what}: write --dataset {kind}:PATH")
    path = typed_path(text).absolute()
    if not path.exists():
        raise UsageError(f"--dataset {kind}:{text}: there is no {path}: name {what}")
    return path


def files_below(path: Path) -> Iterator[Path]:
    """The files of a source in a fixed order: itself, or all below it."""
    if path.is_dir():
        yield from sorted(entry for entry in path.rglob("*") if entry.is_file())
    else:
        yield path


def size_bytes(path: Path) -> int:
    """The bytes of a source file, or of all files of a source folder."""
    return sum(file.stat().st_size for file in files_below(path))


def content_sha256(path: Path) -> str:
    """The hash of a source file, or of the names and contents of a source folder's files."""
    total = hashlib.sha256()
    try:
        for file in files_below(path):
            with file.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            name = "" if file == path else str(file.relative_to(path))
            total.update(f"{name}\0{digest}\n".encode())
    except OSError as error:
        raise UsageError(f"can't read {error.filename} ({error.strerror}): make it readable") from error
    return total.hexdigest()


def refuse_changed(spec: DatasetSpec, sha256: Callable[[Path], str]) -> Path:
    """The source's path; raises UsageError when it is gone, or holds something other than was planned."""
    path = Path(spec.source)
    if not path.exists():
        raise UsageError(f"{path}, the source of the data, is gone: put it back and run again")
    if sha256(path) != spec.source_sha256:
        raise UsageError(f"{path} has changed since the experiment was planned: start a new experiment")
    return path


def facts_of_row(row: TupleRow) -> tuple[str, dict[str, int]]:
    """(schema, name, pages, rows, bytes) → the relation's name and its facts."""
    schema, name, pages, rows, size = row
    return (name if schema == "public" else f"{schema}.{name}"), {"pages": pages, "rows": rows, "bytes": size}
