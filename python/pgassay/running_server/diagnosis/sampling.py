"""One interval of a running server: samplers beside, counters at both ends, samples of sessions between."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from pgassay.analysis.causes.evidence import MB, EvidenceCaps
from pgassay.analysis.diagnosis.interval import Cost, Interval, ReplicationSlot, SessionsSample
from pgassay.environment.cgroup import caps
from pgassay.environment.last_probe import last_probe
from pgassay.environment.linux.device import BlockDevice
from pgassay.errors import MeasurementError, first_line
from pgassay.model.base import PAGE_BYTES
from pgassay.model.experiment import ArmCeiling
from pgassay.model.running_server.diagnosis import DiagnosedServer
from pgassay.model.trial import CounterRow
from pgassay.model.vacuum_state import VacuumState
from pgassay.native.observer import Observer
from pgassay.record import layout
from pgassay.running_server.diagnosis import other_processes, server_queries
from pgassay.running_server.diagnosis import thread_observer as observers
from pgassay.running_server.diagnosis.counted_statements import CalledStatements, Statements
from pgassay.running_server.diagnosis.estimated_plans import with_plans
from pgassay.running_server.open_server import OpenServer
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.host_cpu import HostCpuSampler
from pgassay.trial.observe.runner import SamplerRunner
from pgassay.trial.observe.server_observer import window_files
from pgassay.trial.observe.server_reads import ServerReadsSampler
from pgassay.trial.snapshots import counters
from pgassay.trial.snapshots.vacuum_state import TransactionRate, vacuum_state_or_none, with_ages
from pgassay.words import join

APPLICATION = "pgassay diagnose"
# Counters of the machine, and sessions with their statements: often enough to see when something changed.
_COUNTERS_S = 1.0
_SESSIONS_S = 1.0
# Less than this says nothing.
SECONDS_MIN = 1.0
SECONDS_MAX = 3600.0
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity"

# The seconds that have passed.
OnElapsed = Callable[[float], None]


@dataclass(frozen=True)
class _Totals:
    """What moved between the two ends, and what was read at the last; fields as `Interval` has them."""

    counters: dict[str, list[CounterRow]]
    settings: dict[str, str]
    statements: CalledStatements | None
    texts: dict[str, str]
    upkeep: VacuumState | None
    caps: EvidenceCaps
    group: dict[str, float]
    missing: tuple[str, ...]
    clients_cpu_s: float
    others: dict[str, float]
    slots: tuple[ReplicationSlot, ...]


class _Edges:
    """Everything that is read at both ends; `__init__` is the first of them."""

    def __init__(self, target: OpenServer, session: psycopg.Connection) -> None:
        self._target = target
        self._session = session
        self._views = server_queries.views(session)
        self._pid = target.local.postmaster_pid if target.local else None
        self._caps = caps.caps_of(self._pid) if self._pid else caps.Caps()
        self._statements = Statements(session)
        self._processes = other_processes.snapshot() if self._pid else {}
        self._group = caps.counters(self._caps)
        self._rate = TransactionRate(session)
        self._snapshot = counters.snapshot(session, target.major, self._views)

    def close(self, seconds: float) -> _Totals:
        """The last readings; raises psycopg.Error."""
        after = counters.snapshot(self._session, self._target.major, self._views)
        group = caps.counters(self._caps)
        settings = server_queries.settings(self._session)
        called = self._statements.difference(int(settings.get("block_size", PAGE_BYTES)))
        clients_cpu_s, others = self._beside(seconds)
        return _Totals(
            counters=counters.difference(self._snapshot, after, self._views),
            settings=settings,
            statements=called,
            texts=self._statements.whole_texts([each.query_id for each in called.chosen] if called else []),
            upkeep=self._upkeep(),
            caps=EvidenceCaps(self._caps.cpus, self._caps.memory_bytes),
            group={name: value - self._group.get(name, 0.0) for name, value in group.items()},
            missing=(
                *self._target.missing,
                *filter(None, [self._statements.reason]),
                *_reset(counters.reset_views(self._snapshot, after, self._views)),
            ),
            clients_cpu_s=clients_cpu_s,
            others=others,
            slots=server_queries.slots(self._session),
        )

    def _upkeep(self) -> VacuumState | None:
        state = vacuum_state_or_none(self._session)
        if state is None:
            return None
        return state.model_copy(update={"holders": with_ages(state.holders, self._rate.per_second())})

    def _beside(self, seconds: float) -> tuple[float, dict[str, float]]:
        """CPU seconds of the server's clients on this machine, and of other processes by name."""
        if self._pid is None:
            return 0.0, {}
        now = other_processes.snapshot()
        used = other_processes.used_between(self._processes, now, self._pid)
        worked = [pid for pid, (_, used_s) in used.items() if used_s > 0]
        clients = other_processes.clients_of(self._pid, other_processes.children_of(self._pid, now), worked)
        others = {pid: used[pid] for pid in used if pid not in clients}
        return sum(used[pid][1] for pid in clients), other_processes.named(others, seconds)


def _reset(views: Sequence[str]) -> list[str]:
    if not views:
        return []
    return [
        f"what was counted in {join(views)} before the statistics were reset, within the interval: rates by "
        "that are too low"
    ]


@dataclass(frozen=True)
class _Course:
    """The interval itself: when it was, in CLOCK_MONOTONIC nanoseconds, and what was read in it."""

    started_at: str
    begin_ns: int
    end_ns: int
    is_interrupted: bool
    samples: list[SessionsSample]
    texts: dict[str, str]
    totals: _Totals
    tool_cpu_s: float


def sample(
    target: OpenServer,
    seconds: float,
    folder: Path,
    progress: OnElapsed = lambda _: None,
    vcpus: float | None = None,
) -> Interval:
    """Sample the server for so many seconds; an interrupt ends it early with what was seen so far.

    folder: where the samplers' files go, in the layout of a trial's folder. progress: gets the seconds
    that have passed. vcpus: the number of the server's processors, where that can't be seen. Raises
    MeasurementError when the server goes away before there is anything to tell.
    """
    is_local = target.local is not None
    with ExitStack() as stack:
        session = stack.enter_context(target.session(APPLICATION))
        row = session.execute(_CONNECTIONS).fetchone()
        connections = int(row[0]) if row else 0
        device = target.local.device if target.local else BlockDevice(None, 0, 0)
        rate_hz = observers.rate_hz(connections, is_local=is_local)
        observed = observers.sources(target, APPLICATION)
        output_s = observers.output_s(connections, is_local=is_local)
        observer = stack.enter_context(Observer(observed, rate_hz, output_s))
        session_pid = session.info.backend_pid
        runner = SamplerRunner(_samplers(target, device, stack), _COUNTERS_S)
        course = _run(target, session, runner, seconds, progress)
    threads, totals = _threads(observer, session_pid), course.totals
    _write(folder, threads.files | runner.files())
    called = totals.statements
    interval = Interval(
        server=_described(target, vcpus),
        folder=folder,
        started_at=course.started_at,
        begin_ns=course.begin_ns,
        end_ns=course.end_ns,
        seconds_asked=seconds,
        interrupted=course.is_interrupted,
        is_hidden=not target.reads_all_stats,
        cost=_cost(course, observer, threads, rate_hz),
        samples=tuple(course.samples),
        has_thread_bytes=threads.has_bytes,
        ceiling=_ceiling(target, device),
        vcpus=vcpus,
        warnings=(*observer.warnings, *runner.warnings, *_unused(vcpus, is_local=is_local)),
        counters=totals.counters,
        settings=totals.settings,
        statements=called.chosen if called else None,
        statements_s=called.total_s if called else 0.0,
        passed_over=called.passed_over if called else (),
        vacuum_state=totals.upkeep,
        caps=totals.caps,
        group=totals.group,
        missing=totals.missing,
        clients_cpu_s=totals.clients_cpu_s,
        others=totals.others,
        slots=totals.slots,
    )
    return with_plans(target, interval, course.texts, totals.texts)


def _cost(course: _Course, observer: Observer, threads: "_Threads", rate_hz: float) -> Cost:
    return Cost(
        tool_cpu_s=course.tool_cpu_s,
        observer_cpu_s=observer.cpu_s,
        sessions_cpu_s=threads.sessions_cpu_s,
        rate_hz=rate_hz,
        samples=threads.samples,
        missed=threads.missed,
    )


def _unused(vcpus: float | None, *, is_local: bool) -> tuple[str, ...]:
    if vcpus is None or not is_local:
        return ()
    return ("--vcpus is not used: the server is on this machine, whose processors are counted",)


def _run(
    target: OpenServer,
    session: psycopg.Connection,
    runner: SamplerRunner,
    seconds: float,
    progress: OnElapsed,
) -> _Course:
    samples: list[SessionsSample] = []
    texts: dict[str, str] = {}
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    began_cpu_s = time.process_time()
    with _server_loss_explained(), runner:
        edges = _Edges(target, session)
        begin_ns = time.monotonic_ns()
        is_interrupted = _sample_until(session, seconds, samples, texts, progress)
        end_ns = time.monotonic_ns()
    with _server_loss_explained():
        totals = edges.close((end_ns - begin_ns) / 1e9)
    tool_cpu_s = time.process_time() - began_cpu_s
    return _Course(started_at, begin_ns, end_ns, is_interrupted, samples, texts, totals, tool_cpu_s)


@dataclass(frozen=True)
class _Threads:
    """What the observer saw, as files and figures; nothing where it could not start."""

    files: dict[str, bytes] = field(default_factory=dict)
    sessions_cpu_s: float | None = None
    has_bytes: bool = False
    samples: int = 0
    missed: int = 0


def _threads(observer: Observer, session_pid: int) -> _Threads:
    if observer.ready is None:
        return _Threads()
    windows = observers.mark_own_and_idle(observer.ready, observer.windows, session_pid)
    return _Threads(
        files=window_files(observer.ready, windows),
        sessions_cpu_s=observers.sessions_cpu_s(observer.ready, windows),
        has_bytes=observer.ready.io,
        samples=sum(window.samples for window in windows),
        missed=sum(window.missed for window in windows),
    )


def _samplers(target: OpenServer, device: BlockDevice, stack: ExitStack) -> list[Sampler]:
    """Those of a trial's that the rules ask for, where their sources are here; without a device what the
    server itself counts of its reads."""
    candidates: list[Sampler] = [DeviceSampler(device), HostCpuSampler()] if target.local else []
    if device.name is None:
        another = stack.enter_context(target.session(APPLICATION))
        candidates.append(ServerReadsSampler(another, target.major))
    return [each for each in candidates if each.available()]


@contextmanager
def _server_loss_explained() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise MeasurementError(
            f"the server went away or refused to answer: {first_line(error)}; see its log"
        ) from None


def _sample_until(
    session: psycopg.Connection,
    seconds: float,
    samples: list[SessionsSample],
    texts: dict[str, str],
    progress: OnElapsed,
) -> bool:
    """Sample sessions until the time is over; whether it was interrupted before."""
    began = time.monotonic()
    due = began
    try:
        while (now := time.monotonic()) < began + seconds:
            samples.append(server_queries.sample_sessions(session, time.monotonic_ns(), texts))
            progress(now - began)
            due = max(due + _SESSIONS_S, time.monotonic())
            time.sleep(max(0.0, min(due, began + seconds) - time.monotonic()))
    except KeyboardInterrupt:
        if not samples:
            raise
        return True
    return False


def _write(folder: Path, files: dict[str, bytes]) -> None:
    observations = folder / layout.OBSERVATIONS_FOLDER
    observations.mkdir(parents=True)
    for name, content in files.items():
        (observations / name).write_bytes(content)


def _described(target: OpenServer, vcpus: float | None) -> DiagnosedServer:
    local = target.local
    return DiagnosedServer(
        vcpus=vcpus,
        connection=target.resolved.server.connection,
        name=target.name,
        version=target.version,
        role=target.role,
        is_local=local is not None,
        is_standby=target.is_standby,
        postmaster_pid=local.postmaster_pid if local else None,
        data_directory=str(local.data_directory) if local and local.data_directory else None,
        device=local.device.name if local else None,
    )


def _ceiling(target: OpenServer, device: BlockDevice) -> ArmCeiling:
    """The lower of what the last probe of the device found and what the server's control groups allow it."""
    if target.local is None or device.name is None:
        return ArmCeiling()
    limit_bytes, limit_iops = caps.read_limits(target.local.postmaster_pid, device)
    probe = last_probe(device)
    measured = probe.ceilings if probe else None
    mb_s = _lowest(
        limit_bytes / MB if limit_bytes else None, measured.sequential_read_mb_s if measured else None
    )
    iops = _lowest(limit_iops, max(measured.random_read_iops.values(), default=None) if measured else None)
    return ArmCeiling(read_mb_s=mb_s[0], read_mb_s_from=mb_s[1], read_iops=iops[0], read_iops_from=iops[1])


def _lowest(limit: float | None, measured: float | None) -> tuple[float | None, str]:
    known = [(value, source) for value, source in ((limit, "limit"), (measured, "probe")) if value]
    return min(known, default=(None, ""))
