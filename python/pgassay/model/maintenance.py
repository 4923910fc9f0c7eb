"""What a maintenance command did, beside how long it took."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

MaintenanceCommand = Literal[
    "vacuum", "vacuum full", "analyze", "create index", "reindex", "cluster", "repack"
]
IndexScan = Literal["needed", "not needed", "bypassed", "bypassed by failsafe"]


class WorkFigure(Frozen):
    """One figure of a command: its median over the valid trials of each arm, in the order of `arms`.

    `per_unit`: a cost per unit of work (time per page, WAL per row version), beside the counts that it is
    computed from. None where an arm's trials don't have it: its version doesn't say so, or there was no work.
    """

    name: str
    unit: str
    per_unit: bool
    medians: tuple[float | None, ...]


class WorkResult(Frozen):
    """What one maintenance command did in each arm. Descriptive: medians without a verdict.

    `arms` and `strata` are in the order of the result's arms. `server_times`: what the server's statistics of
    tables counted of it (from 18 on); not written where no arm's did. `phases`: the seconds of each phase, by
    samples of its progress; not written where no sample caught it.
    """

    statement: str
    command: MaintenanceCommand
    arms: tuple[str, ...]
    strata: tuple[str, ...]
    figures: tuple[WorkFigure, ...]
    server_times: tuple[WorkFigure, ...] = Field(default=(), exclude_if=lambda times: not times)
    phases: tuple[WorkFigure, ...] = Field(default=(), exclude_if=lambda phases: not phases)


class VacuumedIndex(Frozen):
    """An index after a pass of VACUUM over it, in pages."""

    name: str
    pages: int
    pages_newly_deleted: int
    pages_currently_deleted: int
    pages_reusable: int


class VacuumedRelation(Frozen):
    """One relation's report of VACUUM (VERBOSE), of PostgreSQL 16 to 19 alike.

    Counts are of heap pages, row versions ("tuples") and buffers; times in milliseconds or seconds as the
    server prints them. None: this server's version doesn't say so, or said nothing. `pages_remain` and
    `pages_removed` together are the pages that the relation had at the start. Source of the texts:
    src/backend/access/heap/vacuumlazy.c, heap_vacuum_rel.
    """

    name: str
    aggressive: bool = False
    failsafe: bool = False
    index_passes: int = 0
    pages_removed: int | None = None
    pages_remain: int | None = None
    pages_scanned: int | None = None
    pages_eagerly_scanned: int | None = None
    tuples_removed: int | None = None
    tuples_remain: int | None = None
    tuples_dead_not_removable: int | None = None
    tuples_missed: int | None = None
    pages_missed: int | None = None
    pages_frozen: int | None = None
    tuples_frozen: int | None = None
    pages_set_all_visible: int | None = None
    pages_set_all_frozen: int | None = None
    pages_were_all_visible: int | None = None
    index_scan: IndexScan | None = None
    pages_with_dead_items: int | None = None
    dead_items: int | None = None
    indexes: tuple[VacuumedIndex, ...] = ()
    parallel_workers_planned: int | None = None
    parallel_workers_launched: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_resets: int | None = None
    delay_ms: float | None = None
    read_ms: float | None = None
    write_ms: float | None = None
    read_rate_mb_per_s: float | None = None
    write_rate_mb_per_s: float | None = None
    buffer_hits: int | None = None
    buffer_reads: int | None = None
    buffers_dirtied: int | None = None
    wal_records: int | None = None
    wal_full_page_images: int | None = None
    wal_bytes: int | None = None
    wal_full_page_image_bytes: int | None = None
    wal_buffers_full: int | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    elapsed_s: float | None = None


class MaintenanceObservation(Frozen):
    """One maintenance command of a trial.

    `statement` is its name in the workload. `done` maps a figure to its sum over everything that the command
    worked on; `relations` holds what VACUUM said of each relation. `progress_samples` counts the rows of
    observations/progress.parquet that caught this command at work. `phases_s`: the seconds of each phase as
    these samples have it, of all relations and passes together. `messages_dropped`: messages of the server
    that found no room, so that `relations` and `done` are incomplete when it is above 0.
    """

    statement: str
    command: MaintenanceCommand
    elapsed_s: float
    done: dict[str, float] = Field(default_factory=dict)
    relations: tuple[VacuumedRelation, ...] = ()
    progress_samples: int = 0
    phases_s: dict[str, float] = Field(default_factory=dict, exclude_if=lambda phases: not phases)
    messages_dropped: int = 0
