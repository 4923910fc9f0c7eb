"""What maintenance commands did, per arm, and what a unit of that work cost. Pure; descriptive."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.verdicts.study import Study
from pgassay.model.arm import Arm
from pgassay.model.maintenance import MaintenanceCommand, MaintenanceObservation, WorkFigure, WorkResult
from pgassay.model.trial import Counters, TrialRecord

# A figure of `MaintenanceObservation.done` → its name in words and its unit; in the order of the report.
COUNTS = {
    "pages_scanned": ("pages scanned", "pages"),
    "pages_eagerly_scanned": ("pages eagerly scanned", "pages"),
    "pages_removed": ("pages removed", "pages"),
    "pages_remain": ("pages remaining", "pages"),
    "tuples_removed": ("tuples removed", "tuples"),
    "tuples_remain": ("tuples remaining", "tuples"),
    "tuples_dead_not_removable": ("dead tuples not yet removable", "tuples"),
    "tuples_missed": ("dead tuples missed", "tuples"),
    "tuples_copied": ("tuples copied", "tuples"),
    "tuples_live": ("live rows seen", "rows"),
    "tuples_dead": ("dead rows seen", "rows"),
    "rows_sampled": ("rows in sample", "rows"),
    "pages_frozen": ("pages frozen", "pages"),
    "tuples_frozen": ("tuples frozen", "tuples"),
    "pages_set_all_visible": ("pages set all-visible", "pages"),
    "pages_set_all_frozen": ("pages set all-frozen", "pages"),
    "index_passes": ("index passes", "passes"),
    "index_pages_deleted": ("index pages deleted", "pages"),
    "parallel_workers_launched": ("parallel workers launched", "workers"),
    "index_tuples_built": ("index tuples built", "tuples"),
    "index_bytes_built": ("index bytes built", "B"),
    "table_bytes_written": ("table bytes written", "B"),
    "buffer_hits": ("buffers hit", "buffers"),
    "buffer_reads": ("buffers read", "buffers"),
    "buffers_dirtied": ("buffers dirtied", "buffers"),
    "wal_records": ("WAL records", "records"),
    "wal_full_page_images": ("full-page images", "images"),
    "wal_bytes": ("WAL bytes", "B"),
    "wal_full_page_image_bytes": ("full-page image bytes", "B"),
    "wal_buffers_full": ("WAL buffers full", "times"),
    "read_ms": ("I/O read time", "ms"),
    "write_ms": ("I/O write time", "ms"),
    "delay_ms": ("cost delay", "ms"),
    "cpu_user_s": ("CPU user time", "s"),
    "cpu_system_s": ("CPU system time", "s"),
}


# Counters of pg_stat_user_tables, from 18 on, in milliseconds.
_SERVER_TIMES: Mapping[MaintenanceCommand, str] = {
    "vacuum": "total_vacuum_time",
    "analyze": "total_analyze_time",
}


@dataclass(frozen=True)
class _PerUnit:
    """A cost per unit of work: numerator / (denominator / scale)."""

    name: str
    unit: str
    cost: str
    work: str
    scale: float = 1.0


_ELAPSED = "elapsed_s"
_MILLION = 1e6
_MEGABYTE = 1048576.0
_PER_UNIT = (
    _PerUnit("time per thousand pages scanned", "s", _ELAPSED, "pages_scanned", 1e3),
    _PerUnit("time per million tuples removed", "s", _ELAPSED, "tuples_removed", _MILLION),
    _PerUnit("time per million tuples frozen", "s", _ELAPSED, "tuples_frozen", _MILLION),
    _PerUnit("time per million tuples copied", "s", _ELAPSED, "tuples_copied", _MILLION),
    _PerUnit("time per million index tuples", "s", _ELAPSED, "index_tuples_built", _MILLION),
    _PerUnit("time per MB of index", "s", _ELAPSED, "index_bytes_built", _MEGABYTE),
    _PerUnit("time per thousand rows in sample", "s", _ELAPSED, "rows_sampled", 1e3),
    _PerUnit("WAL bytes per page scanned", "B", "wal_bytes", "pages_scanned"),
    _PerUnit("WAL bytes per tuple removed", "B", "wal_bytes", "tuples_removed"),
    _PerUnit("WAL bytes per index tuple", "B", "wal_bytes", "index_tuples_built"),
)


def work_results(study: Study) -> tuple[WorkResult, ...]:
    """One result per maintenance command of the workload, in its order; () for another workload.

    Medians are over every valid trial of an arm, as those of the primary metric. A figure that no arm has, or
    that is 0 in all of them, is left out.
    """
    arms = [arm for arm in study.experiment.arms if arm.role != "twin"]
    names = dict.fromkeys(
        work.statement for arm in arms for record in study.table.valid[arm.id] for work in record.maintenance
    )
    return tuple(_result(study, arms, name) for name in names)


def _result(study: Study, arms: Sequence[Arm], name: str) -> WorkResult:
    works = [_works(study.table.valid[arm.id], name) for arm in arms]
    command = next(work.command for found in works for work in found)
    figures = [
        WorkFigure(
            name="time", unit="s", per_unit=False, medians=tuple(_median(found, _ELAPSED) for found in works)
        )
    ]
    for unit in _PER_UNIT:
        medians = tuple(_median(found, unit.cost, unit.work, unit.scale) for found in works)
        figures.append(WorkFigure(name=unit.name, unit=unit.unit, per_unit=True, medians=medians))
    for key, (words, unit_name) in COUNTS.items():
        medians = tuple(_median(found, key) for found in works)
        figures.append(WorkFigure(name=words, unit=unit_name, per_unit=False, medians=medians))
    return WorkResult(
        statement=name,
        command=command,
        arms=tuple(arm.name for arm in arms),
        strata=tuple(arm.stratum for arm in arms),
        figures=tuple(figure for figure in figures if any(figure.medians)),
        server_times=_server_times(study, arms, command),
        phases=_phases(works),
    )


def _phases(works: Sequence[Sequence[MaintenanceObservation]]) -> tuple[WorkFigure, ...]:
    """The seconds of each phase, in the order in which they were first seen; 0 where samples saw others only.

    None for an arm whose command no sample caught: it was too short.
    """
    sampled = [[work.phases_s for work in found if work.phases_s] for found in works]
    names = dict.fromkeys(name for found in sampled for phases in found for name in phases)
    return tuple(
        WorkFigure(
            name=name,
            unit="s",
            per_unit=False,
            medians=tuple(
                float(np.median([phases.get(name, 0.0) for phases in found])) if found else None
                for found in sampled
            ),
        )
        for name in names
    )


def _server_times(study: Study, arms: Sequence[Arm], command: MaintenanceCommand) -> tuple[WorkFigure, ...]:
    """The command's time as the server summed it over tables; () of several such commands in a trial."""
    name = _SERVER_TIMES.get(command)
    valid = [study.table.valid[arm.id] for arm in arms]
    is_alone = all(
        sum(work.command == command for work in record.maintenance) == 1
        for records in valid
        for record in records
    )
    if name is None or not is_alone:
        return ()
    medians = []
    for records in valid:
        found = [Counters(record.counters).total("pg_stat_user_tables", name) for record in records]
        known = [each for each in found if each]
        medians.append(float(np.median(known)) if known else None)
    made = WorkFigure(name=f"{name} (pg_stat_user_tables)", unit="ms", per_unit=False, medians=tuple(medians))
    return (made,) if any(medians) else ()


def _works(records: Sequence[TrialRecord], name: str) -> list[MaintenanceObservation]:
    return [work for record in records for work in record.maintenance if work.statement == name]


def _median(
    works: Sequence[MaintenanceObservation], cost: str, work: str = "", scale: float = 1.0
) -> float | None:
    values = []
    for item in works:
        value = item.elapsed_s if cost == _ELAPSED else item.done.get(cost)
        units = item.done.get(work, 0.0) / scale if work else 1.0
        if value is not None and units > 0 and math.isfinite(value):
            values.append(value / units)
    return float(np.median(values)) if values else None
