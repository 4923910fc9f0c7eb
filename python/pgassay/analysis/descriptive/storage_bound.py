"""How much faster a workload of a server elsewhere could be at most, if storage took no time.

A connection does one thing at a time. Of its time T it waits W for storage, or for somebody who may; without
W it would need T - W, so it could be T / (T - W) times as fast and no more (Amdahl, AFIPS 1967). What is
certainly no wait for storage is the rest: work, the client, the network, sleeping. It is a bound from above,
since what is left grows where more is done at once, and no storage takes no time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from scipy import stats

from pgassay.analysis.accounts.arm_accounts import measured_spans
from pgassay.analysis.accounts.threads import BACKEND, Span
from pgassay.analysis.accounts.wait_groups import READS, TEMPORARY, WAL
from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.trial import Counters, TrialRecord, figure
from pgassay.model.volumes.size import StorageBound
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.record.observations import Columns, integers, texts

# Below so many trials parts of them are the units of the interval.
TRIALS_MIN = 3
PARTS = 10
CONFIDENCE = 0.95
# Waits of these classes are for no storage and for nobody who waits for it.
_NOT_STORAGE = frozenset({"", "Client", "Activity", "Timeout"})
_TIMES = ("read_time", "write_time", "extend_time", "writeback_time", "fsync_time")
_KINDS = ("reads", "wal", "temporary", "files", "others")


@dataclass(frozen=True)
class Looked:
    """Looks at the connections of a workload in a stretch of time, each counted once for each connection.

    connections: all of them; reads, wal, temporary, files (other input and output), others: those that were
    seen in a wait of that kind. Each look stands for the same time.
    """

    connections: float
    reads: float = 0.0
    wal: float = 0.0
    temporary: float = 0.0
    files: float = 0.0
    others: float = 0.0

    @property
    def waits(self) -> float:
        """All that may be due to storage, and no more than there is."""
        return min(self.connections, self.reads + self.wal + self.temporary + self.files + self.others)

    @property
    def share(self) -> float:
        """The part of the time that is due to storage at most."""
        return self.waits / self.connections if self.connections > 0 else 0.0


def kind_of(event_type: str, event: str) -> str | None:
    """The kind of a wait by its class and name; None for one that is certainly not due to storage.

    A lock, a buffer or a message of another process is waited for as long as that one waits for storage.
    """
    if event_type in _NOT_STORAGE:
        return None
    if event in READS:
        return "reads"
    if event in WAL:
        return "wal"
    if event in TEMPORARY:
        return "temporary"
    return "files" if event_type == "IO" else "others"


def looked(waits: Columns, spans: Sequence[Span], clients: int, parts: int = 1) -> list[Looked]:
    """Looks within the spans in so many parts, the earliest first; those without a look are left out.

    waits: the columns of waits.parquet. A window counts for the span that has its middle. Where fewer
    connections are seen than there are clients (a pooler), those that are seen have the time.
    """
    windows: dict[tuple[int, int], dict[int, int]] = {}
    seen: dict[tuple[int, int], dict[str, float]] = {}
    names = (texts(waits, name) for name in ("kind", "wait_event_type", "wait_event"))
    edges = zip(integers(waits, "from_ns"), integers(waits, "clock_ns"), strict=True)
    rows = zip(edges, integers(waits, "pid"), integers(waits, "samples"), *names, strict=True)
    for edge, pid, samples, kind, event_type, event in rows:
        middle = sum(edge) / 2
        if not any(span.begin_ns <= middle <= span.end_ns for span in spans):
            continue
        of_window = windows.setdefault(edge, {})
        of_window[pid] = of_window.get(pid, 0) + samples
        if kind == BACKEND:
            counts = seen.setdefault(edge, {})
            counts["all"] = counts.get("all", 0.0) + samples
            if (which := kind_of(event_type, event)) is not None:
                counts[which] = counts.get(which, 0.0) + samples
    order = sorted(windows)
    found = []
    for part in range(parts):
        chosen = order[part * len(order) // parts : (part + 1) * len(order) // parts]
        looks = sum(max(windows[edge].values()) for edge in chosen)
        total = {name: sum(seen.get(edge, {}).get(name, 0.0) for edge in chosen) for name in ("all", *_KINDS)}
        connections = min(float(looks * clients), total.pop("all"))
        if connections > 0:
            found.append(Looked(connections=connections, **total))
    return found


def together(parts: Sequence[Looked]) -> Looked:
    """All looks of several stretches."""
    return Looked(
        connections=sum(each.connections for each in parts),
        reads=sum(each.reads for each in parts),
        wal=sum(each.wal for each in parts),
        temporary=sum(each.temporary for each in parts),
        files=sum(each.files for each in parts),
        others=sum(each.others for each in parts),
    )


def share_interval(units: Sequence[Looked], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """An interval for the share of `together(units)`.

    The wider of two: Student's for the mean of the units' shares, as units vary for more reasons than
    chance; and that of a binomial share of all looks with two added of either kind (Agresti and Coull, The
    American Statistician 52(2), 1998), so that none seen is not none.
    """
    whole = together(units)
    tail = (1 + confidence) / 2
    added = 2.0
    adjusted = (whole.waits + added) / (whole.connections + 2 * added)
    error = math.sqrt(adjusted * (1 - adjusted) / (whole.connections + 2 * added))
    reach = float(stats.norm.ppf(tail)) * error
    low, high = min(whole.share, adjusted - reach), max(whole.share, adjusted + reach)
    if len(units) > 1:
        shares = [each.share for each in units]
        of_units = float(stats.t.ppf(tail, len(units) - 1)) * stdev(shares) / math.sqrt(len(units))
        low, high = min(low, fmean(shares) - of_units), max(high, fmean(shares) + of_units)
    return max(0.0, low), min(1.0, high)


def gain_of(share: float) -> float | None:
    """How many times as fast without this share of the time; None where nothing bounds it."""
    return 1 / (1 - share) if share < 1 else None


def storage_bounds(stored: StoredExperiment) -> tuple[StorageBound, ...]:
    """A bound for each set of arms that are alike, in the plan's order.

    Raises UsageError where no trial tells what its connections waited for, which says what to do.
    """
    groups: dict[tuple[str, ...], list[tuple[Arm, StoredTrial]]] = {}
    arms = {arm.id: arm for arm in stored.experiment.arms}
    for arm in stored.experiment.arms:
        groups.setdefault(_key(arm), [])
    for trial in stored.trials:
        known = arms.get(trial.record.arm_id)
        if known is not None and trial.record.status == "ok":
            groups[_key(known)].append((known, trial))
    found = [made for trials in groups.values() if (made := _bound(trials)) is not None]
    if not found:
        raise UsageError(
            f"{stored.folder}: no trial was observed, so it is not known what its connections "
            "waited for: measure again without --observe off."
        )
    return tuple(found)


def _key(arm: Arm) -> tuple[str, ...]:
    spec = arm.spec
    server = "" if spec.server is None else spec.server.name
    return (
        server,
        spec.workload.model_dump_json(),
        *(f"{name}={spec.settings[name]}" for name in spec.settings),
    )


def _bound(trials: Sequence[tuple[Arm, StoredTrial]]) -> StorageBound | None:
    looked_at = [(arm, trial, waits) for arm, trial in trials if (waits := _waits(trial)) is not None]
    wholes = [_looked(arm, trial.record, waits, 1) for arm, trial, waits in looked_at]
    wholes = [each for each in wholes if each]
    if not wholes:
        return None
    units = [each for parts in wholes for each in parts]
    of_trials = len(units) >= TRIALS_MIN
    if not of_trials:
        units = [each for arm, trial, waits in looked_at for each in _looked(arm, trial.record, waits, PARTS)]
    whole = together(units)
    share, (low, high) = whole.share, share_interval(units)
    timed = [value for arm, trial in trials if (value := timed_share(arm, trial.record)) is not None]
    timed_share_mean = fmean(timed) if timed else None
    if timed_share_mean is not None and timed_share_mean > share:
        # A clock that ran all the time saw more than looks: the bound may not be below it.
        share, high = min(1.0, timed_share_mean), max(high, min(1.0, max(timed)))
    arm = looked_at[0][0]
    return StorageBound(
        name=_name(arm),
        server="" if arm.spec.server is None else arm.spec.server.name,
        unit="run" if arm.spec.workload.load is None else "transaction",
        trials=len(wholes),
        looks=round(whole.connections),
        seconds_per_unit=median(_seconds_per_unit(trial.record) for _, trial, _ in looked_at),
        share=share,
        share_interval=(low, high),
        interval_of="trials" if of_trials else "parts of trials",
        reads_share=_part(whole.reads, whole),
        wal_share=_part(whole.wal, whole),
        other_files_share=_part(whole.temporary + whole.files, whole),
        others_share=_part(whole.others, whole),
        timed_share=timed_share_mean,
        gain_at_most=gain_of(share),
        gain_interval=(gain_of(low) or 1.0, gain_of(high)),
        other_sessions=max(
            (trial.record.facts.server.other_active_sessions or 0) for _, trial, _ in looked_at
        ),
    )


def _part(count: float, whole: Looked) -> float:
    """Its share; of more than there is, in proportion."""
    total = whole.reads + whole.wal + whole.temporary + whole.files + whole.others
    return count / total * whole.share if total > 0 else 0.0


def _name(arm: Arm) -> str:
    return ", ".join(
        f"{name}={level}" for name, level in arm.levels.items() if name not in ("copy", "server")
    )


def _waits(trial: StoredTrial) -> Columns | None:
    try:
        waits = observations.columns(trial.folder, "waits")
    except UsageError:
        return None  # a damaged file costs this trial's looks alone
    return waits if waits and waits.get("clock_ns") else None


def _looked(arm: Arm, record: TrialRecord, waits: Columns, parts: int) -> list[Looked]:
    spans = measured_spans(record)
    if not spans and record.clock_ns is not None:
        spans = [Span(*record.clock_ns, False)]
    return looked(waits, spans, arm.spec.workload.connections, parts)


def _seconds_per_unit(record: TrialRecord) -> float:
    if record.load is not None:
        return record.load.elapsed_s / max(1, record.load.transactions)
    return sum(each.elapsed_s for each in record.statements)


def timed_share(arm: Arm, record: TrialRecord) -> float | None:
    """The part of the connections' time that the server's own clock counted as reading and writing.

    None where it does not time that (track_io_timing, and track_wal_io_timing for the WAL). Of a load with
    its warm-up, as counters are. Before 16 pg_stat_database knows relations alone.
    """
    counters = Counters(record.counters)
    rows = counters.rows("pg_stat_io")
    own = [row for row in rows if row.get("backend_type") == "client backend"]
    spent_ms = sum(figure(row, name) for row in own for name in _TIMES)
    if not rows:
        spent_ms = counters.total("pg_stat_database", "blk_read_time", "blk_write_time") or 0.0
    load = arm.spec.workload.load
    if record.load is not None and load is not None:
        total_s = load.clients * (record.load.elapsed_s + load.warmup_s)
    else:
        total_s = record.sessions_s
    is_timed = spent_ms > 0 or record.facts.settings.get("track_io_timing") == "on"
    return spent_ms / 1e3 / total_s if is_timed and total_s > 0 else None
