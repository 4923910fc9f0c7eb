"""One trial by the protocol, from restoring the data to its record on disk.

The order is that of the rules of a trial: restore and settle, start, assert from inside, plan (which
warms the catalogs), cache state and its proof, canary, measure with samplers on one clock, collect,
verify, write atomically. The trial knows nothing of the experiment around it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pgassay.environment.cgroup import usage
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.linux.device import counters as device_counters
from pgassay.environment.linux.settle import wait_until_settled
from pgassay.environment.server.reads import reads_between
from pgassay.errors import UsageError
from pgassay.model.trial import TrialRecord, TrialSpec, TrialStatus
from pgassay.record import layout
from pgassay.record.write import TrialWriter, to_json
from pgassay.trial import limited
from pgassay.trial.assertions import assert_from_inside
from pgassay.trial.caches import states
from pgassay.trial.caches.keeper import CacheKeeper
from pgassay.trial.caches.prefault import prefault_shared_memory
from pgassay.trial.caches.relations import Relation, user_relations
from pgassay.trial.canary import canary_s
from pgassay.trial.collect import counters, verify
from pgassay.trial.collect.before import Before, counters_before, steal_s
from pgassay.trial.collect.clocks import clock_offset_ns
from pgassay.trial.collect.server_statements import (
    ServerStatements,
    counted_before,
    counted_files,
    own_sessions_uncounted,
)
from pgassay.trial.collect.vacuum_state import upkeep_or_none
from pgassay.trial.host import Host
from pgassay.trial.measure import load, maintenance
from pgassay.trial.measure.statements import StatementTimer, explain_all
from pgassay.trial.observation import Observation
from pgassay.trial.observe.registry import samplers
from pgassay.trial.observe.runner import SamplerRunner
from pgassay.trial.observe.server_observer import ServerObserver, rate_hz
from pgassay.trial.running import RunningServer
from pgassay.trial.state import Progress, TrialState, attempt

LOG_BYTES_MAX = 4 * 1024 * 1024


class _Trial(TrialState):
    """A trial on a server of this machine; what each stage took is a fact of its record."""

    def __init__(self, spec: TrialSpec, host: Host, progress: Progress) -> None:
        super().__init__(spec, progress)
        self.host = host
        self.log_offset = host.log.stat().st_size if host.log.exists() else 0
        self.server_statements: ServerStatements | None = None
        self._stage = ""
        self._stage_began = self.started
        self.stage_s: dict[str, float] = {}

    def stage(self, name: str) -> None:
        """The trial comes to its next stage; what the one before took is kept, to show the overhead."""
        now = time.monotonic()
        if self._stage:
            took = self.stage_s.get(self._stage, 0.0) + now - self._stage_began
            self.stage_s[self._stage] = round(took, 4)
        self._stage, self._stage_began = name, now
        if name:
            self.progress(name)

    def record(self, status: TrialStatus, reason: str) -> TrialRecord:
        """What is known of the trial so far, as its record."""
        self.facts["stage_s"] = self.stage_s
        return super().record(status, reason)


def run_trial(
    spec: TrialSpec, host: Host, folder: Path, progress: Progress = lambda _: None
) -> tuple[Path, TrialRecord]:
    """Run one trial and write its folder below `folder`; returns the folder and the record.

    `progress` gets what the trial is at, in words; it returns at once, and is called from any thread.
    A trial that fails, or breaks a rule, is recorded with its reason and returned like any other;
    one that is interrupted is recorded, and the interruption goes on. Raises UsageError for what
    only the user can mend, and MeasurementError when the record itself can't be written.
    """
    trial = _Trial(spec, host, progress)
    writer = TrialWriter(folder, spec.number, spec.attempt)
    try:
        status, reason = attempt(lambda: _measure(trial), f": see {layout.SERVER_LOG_FILE}")
        if status != "ok":
            reason += limited.out_of_memory_reason(spec.arm.spec, host.group)
            host.taint()
            host.stop_server()
        record = _write(trial, writer, status, reason)
    except UsageError:
        host.taint()
        raise
    except (KeyboardInterrupt, SystemExit):
        host.taint()
        host.stop_server()
        if not writer.final.exists():  # else it was whole before the interruption came
            _write(trial, writer, "interrupted", "interrupted by the user")
        raise
    finally:
        writer.discard()
    return writer.final, record


def _write(trial: _Trial, writer: TrialWriter, status: TrialStatus, reason: str) -> TrialRecord:
    observation = trial.observation
    if observation.plans:
        writer.add(layout.PLANS_FILE, to_json(observation.plans))
    for name, content in observation.files.items():
        writer.add(name, content)
    writer.add(layout.SERVER_LOG_FILE, _log_since(trial.host.log, trial.log_offset))
    record = trial.record(status, reason)
    writer.finish(record)
    return record


def _log_since(log: Path, offset: int) -> bytes:
    if not log.exists():
        return b""
    with log.open("rb") as file:
        file.seek(offset)
        return file.read(LOG_BYTES_MAX)


def _measure(trial: _Trial) -> None:
    spec, host, arm = trial.spec, trial.host, trial.spec.arm
    cold = spec.protocol.cache in ("cold", "cold-each")
    trial.stage("restoring")
    if cold:
        trial.stage("stopping the last server")
        host.stop_server()
        trial.stage("restoring")
    restored = host.restore(arm)
    trial.stage("settling")
    unsettled = wait_until_settled(spec.protocol.settle_timeout_s)
    trial.warnings += [unsettled] if unsettled else []
    trial.stage("starting")
    server, fresh = host.start_server(arm, fresh=cold)
    if arm.spec.workload.writes:
        host.taint()
    trial.stage("asserting")
    control = server.control
    trial.facts = assert_from_inside(control, arm.spec)
    volume = host.volume(arm)
    trial.facts["storage"] = dict(volume.facts())
    trial.facts["restored"] = restored
    if limited.is_limited(arm.spec):
        trial.facts["limits"] = limited.assert_limits(arm.spec, host.group, server.server.pid)
    trial.facts["started_for_this_trial"] = fresh
    trial.stage("prefaulting")
    if fresh:
        trial.facts["prefaulted_bytes"] = prefault_shared_memory(server.server.pid)
    if arm.spec.workload.is_maintenance:
        trial.stage("running what is untimed")
        maintenance.run_untimed(control, arm.spec.workload.statements[0])
        trial.stage("settling")
        unsettled = wait_until_settled(spec.protocol.settle_timeout_s)
        trial.warnings += [unsettled] if unsettled else []
    trial.stage("planning")
    relations = user_relations(control, server.server.data_directory)
    trial.warnings += states.cliff_warnings(relations, _shared_buffers_bytes(server))
    explained = explain_all(server, arm.spec)
    trial.fields["upkeep_before"] = upkeep_or_none(control)
    keeper = CacheKeeper(server, relations, spec.protocol.cache, arm.spec, host.group)
    trial.stage("caches")
    keeper.prepare_buffers(fresh=fresh)
    with own_sessions_uncounted(server) as statements:
        trial.server_statements = statements
        _run_workload(trial, server, relations, explained, keeper)
    trial.observation.plans = explained
    trial.stage("")


def _run_workload(
    trial: _Trial,
    server: RunningServer,
    relations: list[Relation],
    explained: dict[str, Any],
    keeper: CacheKeeper,
) -> None:
    """Open the measured session, bring the pages into their state, and measure."""
    spec, arm = trial.spec, trial.spec.arm
    if arm.spec.workload.kind == "statements":
        device = trial.host.volume(arm).device
        with StatementTimer(server, arm.spec, spec.protocol, device, relations, trial.progress) as timer:
            keeper.prepare_pages()
            trial.facts["cache"] = keeper.facts
            _observed(trial, server, relations, lambda: timer.run(explained, keeper))
    else:
        keeper.prepare_pages()
        trial.facts["cache"] = keeper.facts
        _observed(trial, server, relations, lambda: _run_load(trial, server))


def _run_load(trial: _Trial, server: RunningServer) -> Observation:
    spec = trial.spec
    seed = spec.number * 1009 + spec.attempt
    return load.run(
        server, spec.arm.spec, seed, lambda second: trial.progress(f"second {second.get('second')}")
    )


def _observed(
    trial: _Trial,
    server: RunningServer,
    relations: list[Relation],
    measure: Callable[[], Observation],
) -> None:
    """Measure with samplers and counters around it, then verify; `relations` are the user's, before it."""
    spec, arm = trial.spec, trial.spec.arm
    size_bytes = sum(relation.size_bytes for relation in relations)
    trial.stage("canary")
    trial.fields["canary_s"] = canary_s()
    trial.stage("measuring")
    device = trial.host.volume(arm).device
    files = [file for relation in relations for file in relation.files]
    watched = samplers(device, trial.host.group, files)
    interval_s = spec.protocol.sample_interval_s
    with ServerObserver(server, rate_hz(arm.spec, spec.protocol), interval_s) as observer:
        before = counters_before(server, device, _capped_group(trial), arm.spec.build.major)
        counted = counted_before(server, trial.server_statements)
        offset_ns = clock_offset_ns()
        with SamplerRunner(watched, interval_s) as runner:
            observation = measure()
        trial.fields["clock_offset_ns"] = (offset_ns, clock_offset_ns())
        server_cpu_s = server.cpu_seconds() - before.cpu_s
    # What the server spent on answering the samples is no work of the workload.
    trial.fields["server_cpu_s"] = server_cpu_s - observer.own_cpu_s
    trial.fields["steal_s"] = steal_s() - before.steal_s
    trial.facts["observer"] = observer.facts
    trial.observation = observation
    statement_files = counted_files(server, trial.server_statements, counted)
    for name, content in (runner.files() | observer.files() | statement_files).items():
        observation.files[f"{layout.OBSERVATIONS_FOLDER}/{name}"] = content
    trial.warnings += runner.warnings + observer.warnings
    trial.stage("verifying")
    _verify(trial, server, before, size_bytes)


def _capped_group(trial: _Trial) -> Cgroup | None:
    return trial.host.group if limited.is_limited(trial.spec.arm.spec) else None


def _verify(trial: _Trial, server: RunningServer, before: Before, size_bytes: int) -> None:
    """Record how the counters moved, and hold them against the rules; `size_bytes`: of the relations."""
    arm, observation = trial.spec.arm, trial.observation
    device, capped = trial.host.volume(arm).device, _capped_group(trial)
    wal_bytes = verify.wal_position(server.control) - before.wal
    after = counters.snapshot(server.control, arm.spec.build.major)
    moved = counters.difference(before.views, after)
    trial.fields["upkeep_after"] = upkeep_or_none(server.control)
    read = verify.BytesRead(
        postgres=counters.database_blocks(before.views, after)[0],
        device=device_counters(device).read_bytes - before.device_bytes if device.name else None,
        server=reads_between(before.reads, server.device_reads()),
    )
    trial.fields["counters"] = moved
    if capped:
        trial.fields["counters"]["control_group"] = [usage.difference(before.group, usage.counters(capped))]
        trial.facts["limits"] |= usage.peaks(capped)
    trial.fields["verification"] = {
        "wal_bytes": wal_bytes,
        "postgres_read_bytes": read.postgres,
        "device_read_bytes": read.device,
        "server_device_read_bytes": read.server,
    }
    verify.assert_nothing_written(arm.spec, wal_bytes)
    trial.warnings += verify.write_regime(arm.spec, _checkpoints(moved))
    if observation.load is not None:
        if not arm.spec.workload.writes:
            verify.assert_load_stayed_warm(trial.spec.protocol.cache, read, size_bytes)
        trial.warnings += verify.load_warnings(observation.load)


def _checkpoints(moved: dict[str, list[dict[str, Any]]]) -> float:
    names = ("num_timed", "num_requested", "checkpoints_timed", "checkpoints_req")
    rows = [*moved.get("pg_stat_checkpointer", []), *moved.get("pg_stat_bgwriter", [])]
    return sum(float(row.get(name, 0)) for row in rows for name in names)


def _shared_buffers_bytes(server: RunningServer) -> int:
    row = server.control.execute(
        "SELECT setting::int8 * 8192 FROM pg_settings WHERE name = 'shared_buffers'"
    ).fetchone()
    return int(row[0]) if row else 0
