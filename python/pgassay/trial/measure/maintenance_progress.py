"""The server's own progress of a maintenance command, sampled while it runs (pg_stat_progress_*)."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from pgassay.errors import first_line
from pgassay.model.running_server.watch import pass_number
from pgassay.model.trial import CounterRow, figure
from pgassay.record.columns import to_parquet
from pgassay.trial.target import ServerSession

FILE = "progress.parquet"
VERSION = 1
# Each view, the first and last major that is asked for it, and what its rows are where they don't say. Their
# figures are read by name, whatever a version has: 17 counts dead_tuple_bytes where 16 has num_dead_tuples,
# 18 adds delay_time. From 19 on pg_stat_progress_repack has what pg_stat_progress_cluster shows.
VIEWS = {
    "vacuum": (9, 99, "VACUUM"),
    "analyze": (13, 99, "ANALYZE"),
    "create_index": (12, 99, "CREATE INDEX"),
    "cluster": (12, 18, "CLUSTER"),
    "repack": (19, 99, "REPACK"),
}
_KEYS = ("pid", "datid", "datname", "relid", "phase", "command")
# View and phase → what is counted in it: done and total. Only these phases have a total; source:
# PostgreSQL's manual, "Progress Reporting", and src/backend/catalog/system_views.sql. The sums of index
# blocks and tuples stay at their totals in later phases, so that they tell nothing there.
_COUNTED = {
    ("vacuum", "scanning heap"): ("heap_blks_scanned", "heap_blks_total"),
    ("vacuum", "vacuuming heap"): ("heap_blks_vacuumed", "heap_blks_total"),
    ("vacuum", "vacuuming indexes"): ("indexes_processed", "indexes_total"),
    ("vacuum", "cleaning up indexes"): ("indexes_processed", "indexes_total"),
    ("analyze", "acquiring sample rows"): ("sample_blks_scanned", "sample_blks_total"),
    ("analyze", "acquiring inherited sample rows"): ("sample_blks_scanned", "sample_blks_total"),
    ("create_index", "building index"): ("blocks_done", "blocks_total"),
    ("create_index", "building index: scanning table"): ("blocks_done", "blocks_total"),
    ("create_index", "building index: loading tuples in tree"): ("tuples_done", "tuples_total"),
    ("create_index", "index validation: scanning index"): ("blocks_done", "blocks_total"),
    ("create_index", "index validation: scanning table"): ("blocks_done", "blocks_total"),
    ("cluster", "seq scanning heap"): ("heap_blks_scanned", "heap_blks_total"),
    ("repack", "seq scanning heap"): ("heap_blks_scanned", "heap_blks_total"),
}
# The views in which a later pass over the same phase is told by a count of the passes that have ended.
_PASSES = {"vacuum": "index_vacuum_count"}
# A short command is sampled more often, so that its phases can be told apart.
_FIRST_INTERVAL_S = 0.05
_FIRST_S = 2.0


def union_of_views(major: int, select: str) -> str:
    """The rows of this SELECT of every view that a major has; `{view}` in it is the view's short name."""
    views = [view for view, (first, last, _) in VIEWS.items() if first <= major <= last]
    return " UNION ALL ".join(select.format(view=view) for view in views)


def progress_words(view: str, relation: str, figures: CounterRow) -> str:
    """One row of `pg_stat_progress_VIEW` as words: 'pgbench_accounts: scanning heap, 45 %'.

    A phase without a total has no percentage. VACUUM's passes over the indexes are numbered from the second.
    """
    phase = str(figures.get("phase") or "")
    words = f"{relation}: {phase}" if relation else phase
    number = pass_number(phase, passes_ended(view, figures))
    if number > 1:
        words += f" (pass {number})"
    counted = counted_in_phase(view, figures)
    if counted is None:
        return words
    return f"{words}, {min(1.0, counted[0] / counted[1]):.0%}".replace("%", " %")


def passes_ended(view: str, figures: CounterRow) -> int:
    """How many passes over the indexes have ended; 0 for what makes none."""
    return int(figure(figures, _PASSES.get(view, "")))


def counted_in_phase(view: str, figures: CounterRow) -> tuple[float, float] | None:
    """What one row of `pg_stat_progress_VIEW` counts in its phase: done and total (above 0).

    None where the phase has no total.
    """
    done_name, total_name = _COUNTED.get((view, str(figures.get("phase") or "")), ("", ""))
    total = figure(figures, total_name)
    if figures.get(done_name) is None or not total:
        return None
    return figure(figures, done_name), total


@dataclass(frozen=True)
class SampledProgress:
    """How many samples caught a statement at work, and the seconds of each phase by these."""

    samples: int = 0
    phases_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Figure:
    clock_ns: int
    statement: str
    view: str
    pid: int
    relation: str
    phase: str
    name: str
    value: float


class ProgressSampler:
    """Samples over a control connection of its own; the figures of all statements go into one file.

    `interval_s` is the time between two samples, less in the first seconds of a statement; the first is taken
    one interval after it began.
    `on_step` gets each sample in words, on a thread of its own.
    """

    def __init__(
        self, server: ServerSession, major: int, interval_s: float, on_step: Callable[[str], None]
    ) -> None:
        self._interval_s = interval_s
        self._on_step = on_step
        self._server = server
        self._connection = server.connect_another("pgassay progress")
        self._query = _query(major)
        self._figures: list[_Figure] = []
        self.warnings: list[str] = []

    def connect(self) -> None:
        """Connect again, after a restart of the server."""
        self._connection.close()
        self._connection = self._server.connect_another("pgassay progress")

    def close(self) -> None:
        self._connection.close()

    def watch(self, statement: str) -> "_Watch":
        """A context manager around one statement; its `sampled` is what the samples saw of it."""
        return _Watch(self, statement)

    def sample(self, statement: str) -> str | None:
        """Take one sample now: the phase, None where the server had nothing to tell."""
        clock_ns = time.monotonic_ns()
        rows = self._connection.execute(self._query.encode()).fetchall()
        for view, relation, figures in rows[:1]:
            self._on_step(f"{statement}: {progress_words(view, relation or '', figures)}")
        for view, relation, figures in rows:
            self._figures += [
                _Figure(
                    clock_ns,
                    statement,
                    view,
                    int(figures["pid"]),
                    relation or "",
                    str(figures.get("phase") or ""),
                    name,
                    float(value),
                )
                for name, value in figures.items()
                if name not in _KEYS and isinstance(value, int | float) and not isinstance(value, bool)
            ]
        return str(rows[0][2].get("phase") or "") if rows else None

    def content(self) -> bytes | None:
        """The Parquet file: one row per sample and figure; None when no sample caught anything."""
        if not self._figures:
            return None
        columns = {
            name: [getattr(figure, name) for figure in self._figures] for name in _Figure.__dataclass_fields__
        }
        return to_parquet(columns, sampler="progress", version=VERSION)


class PhaseClock:
    """How long each phase lasted, by samples: the time between two belongs to both of them by halves.

    So a change of phase is wrong by half of an interval at most. The time before the first sample is the
    first phase's, that after the last sample the last one's.
    """

    def __init__(self, start_s: float) -> None:
        self.phases_s: dict[str, float] = {}
        self._last: tuple[float, str] = (start_s, "")

    def seen(self, at_s: float, phase: str) -> None:
        before_s, before = self._last
        half_s = (at_s - before_s) / 2
        self._add(before or phase, half_s)
        self._add(phase, half_s)
        self._last = (at_s, phase)

    def end(self, at_s: float) -> None:
        before_s, before = self._last
        if before:
            self._add(before, at_s - before_s)

    def _add(self, phase: str, seconds: float) -> None:
        self.phases_s[phase] = self.phases_s.get(phase, 0.0) + seconds


class _Watch:
    def __init__(self, sampler: ProgressSampler, statement: str) -> None:
        self._samples = 0
        self._clock = PhaseClock(time.monotonic())
        self._sampler = sampler
        self._statement = statement
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    @property
    def sampled(self) -> SampledProgress:
        """What was seen, after the statement has ended."""
        return SampledProgress(self._samples, self._clock.phases_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        end_s = time.monotonic()
        self._stop.set()
        self._thread.join()
        self._clock.end(end_s)

    def _run(self) -> None:
        import psycopg

        start_s = time.monotonic()
        while not self._stop.wait(self._interval_s(time.monotonic() - start_s)):
            try:
                phase = self._sampler.sample(self._statement)
                if phase is not None:
                    self._samples += 1
                    self._clock.seen(time.monotonic(), phase)
            except psycopg.Error as error:
                sentence = first_line(error)
                self._sampler.warnings.append(f"the progress of {self._statement} was lost ({sentence})")
                return

    def _interval_s(self, elapsed_s: float) -> float:
        interval_s = self._sampler._interval_s
        return min(interval_s, _FIRST_INTERVAL_S) if elapsed_s < _FIRST_S else interval_s


def _query(major: int) -> str:
    return union_of_views(
        major,
        "SELECT '{view}', relid::regclass::text, to_jsonb(p) FROM pg_stat_progress_{view} p "
        "WHERE datname = current_database()",
    )
