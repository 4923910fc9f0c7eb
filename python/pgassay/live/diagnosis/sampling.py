"""One interval of looking at a running server: samplers beside, counters at both ends, looks in between."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from pgassay.analysis.causes.evidence import MB, Caps, Ceiling
from pgassay.analysis.diagnosis import interval
from pgassay.analysis.diagnosis.interval import Interval, Look
from pgassay.environment.cgroup import caps
from pgassay.environment.last_probe import last_probe
from pgassay.environment.storage.base import BlockDevice
from pgassay.errors import MeasurementError
from pgassay.live.diagnosis import processes, totals
from pgassay.live.diagnosis.clients import clients_of
from pgassay.live.diagnosis.looks import look
from pgassay.live.diagnosis.observer import LiveObserver, rate_hz
from pgassay.live.target import Target
from pgassay.model.live.diagnosis import DiagnosedServer
from pgassay.record import layout
from pgassay.trial.collect import counters
from pgassay.trial.collect.vacuum_state import upkeep_or_none
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.host_cpu import HostCpuSampler
from pgassay.trial.observe.runner import SamplerRunner

if TYPE_CHECKING:
    Connection = psycopg.Connection[tuple[Any, ...]]

APPLICATION = "pgassay diagnose"
# Counters of the machine, and sessions with their statements: often enough to see when something changed.
_COUNTERS_S = 1.0
_LOOK_S = 1.0
# Less than this says nothing.
SECONDS_MIN = 1.0
SECONDS_MAX = 3600.0
_BLOCK_BYTES = 8192
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity"

Progress = Callable[[float], None]


class _Edges:
    """Everything that is read at both ends; `__init__` is the first of them."""

    def __init__(self, target: Target, session: "Connection") -> None:
        self.target = target
        self._session = session
        self._views = totals.views(session)
        self._pid = target.local.postmaster_pid if target.local else None
        self._caps = caps.caps_of(self._pid) if self._pid else caps.Caps()
        self._statements = totals.Statements(session)
        self._processes = processes.snapshot() if self._pid else {}
        self._group = caps.counters(self._caps)
        self._snapshot = counters.snapshot(session, target.major, self._views)

    def close(self, seconds: float) -> dict[str, Any]:
        """The last readings, as what an Interval holds of them; raises psycopg.Error."""
        after = counters.snapshot(self._session, self.target.major, self._views)
        group = caps.counters(self._caps)
        settings = totals.settings(self._session)
        called = self._statements.difference(int(settings.get("block_size", _BLOCK_BYTES)))
        found: dict[str, Any] = {
            "counters": counters.difference(self._snapshot, after, self._views),
            "settings": settings,
            "statements": called,
            "upkeep": upkeep_or_none(self._session),
            "caps": Caps(self._caps.cpus, self._caps.memory_bytes),
            "group": {name: value - self._group.get(name, 0.0) for name, value in group.items()},
            "missing": (*self.target.missing, *filter(None, [self._statements.reason])),
        }
        if self._pid is not None:
            now = processes.snapshot()
            used = processes.used_between(self._processes, now, self._pid)
            worked = [pid for pid, (_, used_s) in used.items() if used_s > 0]
            clients = clients_of(self._pid, processes.children_of(self._pid, now), worked)
            found["clients_cpu_s"] = sum(used[pid][1] for pid in clients)
            found["others"] = processes.named({pid: used[pid] for pid in used if pid not in clients}, seconds)
        return found


def sample(target: Target, seconds: float, folder: Path, progress: Progress = lambda _: None) -> Interval:
    """Look at the server for so many seconds; an interrupt ends it early with what was seen so far.

    folder: where the samplers' files go, in the layout of a trial's folder. progress: is told the seconds
    that have passed. Raises MeasurementError when the server goes away before there is anything to tell.
    """
    with ExitStack() as stack:
        session = stack.enter_context(target.session(APPLICATION))
        row = session.execute(_CONNECTIONS).fetchone()
        connections = int(row[0]) if row else 0
        device = target.local.device if target.local else BlockDevice(None, 0, 0)
        chosen = _samplers(device) if target.local else []
        observer = LiveObserver(target, APPLICATION, connections, session.info.backend_pid)
        stack.enter_context(observer)
        runner = SamplerRunner(chosen, _COUNTERS_S)
        looks: list[Look] = []
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        began_cpu_s = time.process_time()
        with _server_may_go(), runner:
            edges = _Edges(target, session)
            begin_ns = time.monotonic_ns()
            is_interrupted = _look_on(session, seconds, looks, progress)
            end_ns = time.monotonic_ns()
        with _server_may_go():
            read = edges.close((end_ns - begin_ns) / 1e9)
        tool_cpu_s = time.process_time() - began_cpu_s
    files = observer.files() | runner.files()
    _write(folder, files)
    return Interval(
        server=_described(target),
        folder=folder,
        started_at=started_at,
        begin_ns=begin_ns,
        end_ns=end_ns,
        seconds_asked=seconds,
        interrupted=is_interrupted,
        is_hidden=not target.reads_all_stats,
        cost=_cost(observer, tool_cpu_s, rate_hz(connections)),
        looks=tuple(looks),
        has_thread_bytes=bool(observer.facts.get("io")),
        ceiling=_ceiling(target, device),
        warnings=(*observer.warnings, *runner.warnings),
        **read,
    )


def _samplers(device: BlockDevice) -> list[Sampler]:
    """Those of a trial's that the rules ask for, where their sources are here."""
    candidates: list[Sampler] = [DeviceSampler(device), HostCpuSampler()]
    return [each for each in candidates if each.available()]


@contextmanager
def _server_may_go() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        told = str(error).strip().splitlines()[0]
        raise MeasurementError(f"the server went away or refused to answer: {told}; see its log") from None


def _look_on(session: "Connection", seconds: float, looks: list[Look], progress: Progress) -> bool:
    """Look until the time is over; whether it was interrupted before."""
    began = time.monotonic()
    due = began
    try:
        while (now := time.monotonic()) < began + seconds:
            looks.append(look(session, time.monotonic_ns()))
            progress(now - began)
            due = max(due + _LOOK_S, time.monotonic())
            time.sleep(max(0.0, min(due, began + seconds) - time.monotonic()))
    except KeyboardInterrupt:
        if not looks:
            raise
        return True
    return False


def _write(folder: Path, files: dict[str, bytes]) -> None:
    place = folder / layout.OBSERVATIONS_FOLDER
    place.mkdir(parents=True)
    for name, content in files.items():
        (place / name).write_bytes(content)


def _described(target: Target) -> DiagnosedServer:
    local = target.local
    return DiagnosedServer(
        name=target.name,
        version=target.version,
        role=target.role,
        is_local=local is not None,
        is_standby=target.is_standby,
        postmaster_pid=local.postmaster_pid if local else None,
        data_directory=str(local.data_directory) if local and local.data_directory else None,
        device=local.device.name if local else None,
    )


def _cost(observer: LiveObserver, tool_cpu_s: float, rate: float) -> interval.Cost:
    facts = observer.facts
    return interval.Cost(
        tool_cpu_s=tool_cpu_s,
        observer_cpu_s=float(facts.get("observer_cpu_s", 0.0)),
        sessions_cpu_s=observer.sessions_cpu_s,
        rate_hz=rate,
        samples=int(facts.get("samples", 0)),
        missed=int(facts.get("missed", 0)),
    )


def _ceiling(target: Target, device: BlockDevice) -> Ceiling:
    """The lower of what the last probe of the device found and what the server's control groups allow it."""
    if target.local is None or device.name is None:
        return Ceiling()
    limit_bytes, limit_iops = caps.read_limits(target.local.postmaster_pid, device)
    probe = last_probe(device)
    measured = probe.ceilings if probe else None
    mb_s = _lowest(
        limit_bytes / MB if limit_bytes else None, measured.sequential_read_mb_s if measured else None
    )
    iops = _lowest(limit_iops, max(measured.random_read_iops.values(), default=None) if measured else None)
    return Ceiling(mb_s[0], mb_s[1], iops[0], iops[1])


def _lowest(limit: float | None, measured: float | None) -> tuple[float | None, str]:
    known = [(value, source) for value, source in ((limit, "limit"), (measured, "probe")) if value]
    return min(known, default=(None, ""))
