"""The steps of a trial from restoring the data to verifying; a start of a server may share the first ones.

In the order of the rules of a trial (`trial.run`). A step fills in what it learns in the trial's state.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pgassay.environment.cgroup import usage
from pgassay.environment.linux.settle import wait_until_settled
from pgassay.environment.server.validation import assert_from_inside
from pgassay.model.trial import CounterRow, figure
from pgassay.native.load import LoadProgress
from pgassay.native.replay_commands import ReplayProgress
from pgassay.trial import trial_caps
from pgassay.trial.caches import states
from pgassay.trial.caches.keeper import CacheKeeper, prefault_shared_memory
from pgassay.trial.caches.relations import Relation, user_relations
from pgassay.trial.measure import maintenance_effects, mix, replayed_load, timed_load
from pgassay.trial.measure.timed_statements import StatementTimer, explain_all
from pgassay.trial.observe.trial_observers import machine_sampled, threads_observed
from pgassay.trial.profile.perf_sampling import profiled
from pgassay.trial.snapshots import machine_speed, readings, verify
from pgassay.trial.snapshots.server_statements import (
    ServerStatements,
    counted_before,
    counted_files,
    own_sessions_uncounted,
)
from pgassay.trial.snapshots.vacuum_state import vacuum_state_or_none
from pgassay.trial.target import LocalTrialServer, ServerSession, TrialMachine
from pgassay.trial.trial_state import Observation, Plan, TrialState
from pgassay.words import figure as in_digits

_OTHER_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND application_name NOT LIKE 'pgassay%'"""

# How long a server that was restarted under a load may take until it answers again.
_BACK_WITHIN_S = 30.0
_COUNTERS_LOST = (
    "the server ended its sessions during the trial, as a restart does: the figures of the load count, and "
    "what the server counted meanwhile is not reported"
)
# A queue is counted so far.
_QUEUE_COUNTED_MAX = 100_000


@dataclass(frozen=True)
class Prepared:
    """A server that is what its arm says, ready to be measured.

    `local`: what only a server on this machine allows; `relations` are the user's there, [] elsewhere.
    """

    server: ServerSession
    local: LocalTrialServer | None
    relations: list[Relation]
    explained: dict[str, Plan]
    keeper: CacheKeeper | None


def restore(trial: TrialState, machine: TrialMachine, *, settles: bool = True) -> bool:
    """The arm's data as they were at first, on a server that is stopped where the trial is cold.

    settles: wait until all is written even where nothing was restored.
    """
    trial.stage("restoring")
    if _is_cold(trial):
        trial.stage("stopping the last server")
        machine.stop_server()
        trial.stage("restoring")
    was_restored = machine.restore(trial.spec.arm)
    if settles or was_restored:
        _settle(trial)
    return was_restored


def read_speeds(trial: TrialState, machine: TrialMachine) -> None:
    """The machine's speed before the arm's server starts; what this reads is in no cache of the trial's."""
    wanted = trial.spec.protocol.readings
    if wanted:
        trial.stage("reading the machine's speed")
    if "memory" in wanted:
        trial.fields["memory_s"] = machine_speed.memory_s()
    if "disk" in wanted:
        trial.fields["disk_s"] = machine_speed.disk_s(machine.data_folder(trial.spec.arm))


def start(trial: TrialState, machine: TrialMachine) -> LocalTrialServer:
    """A running server for the arm: a new one where the trial is cold."""
    trial.stage("starting")
    local = machine.start_server(trial.spec.arm, fresh=_is_cold(trial))
    if trial.arm.leaves_data_changed:
        machine.taint()
    return local


def _is_cold(trial: TrialState) -> bool:
    return trial.spec.protocol.cache in ("cold", "cold-each")


def _settle(trial: TrialState) -> None:
    """Wait until all is written: a dirty page can't be evicted."""
    trial.stage("settling")
    unsettled = wait_until_settled(trial.spec.protocol.settle_timeout_s)
    trial.warnings += [unsettled] if unsettled else []


def assert_arm(trial: TrialState, server: ServerSession) -> None:
    """The server is what the arm says: its version, checksums and settings."""
    trial.stage("asserting")
    trial.facts = assert_from_inside(server.control, trial.arm)
    if trial.arm.server is not None:
        trial.server_facts["name"] = trial.arm.server.name
        trial.facts["server"] = trial.server_facts


def assert_machine(trial: TrialState, machine: TrialMachine, local: LocalTrialServer) -> None:
    """The server's caps are in force, and its storage is recorded as it is."""
    trial.facts["storage"] = dict(machine.storage_facts(trial.spec.arm))
    if trial_caps.is_limited(trial.arm):
        trial.limit_facts |= trial_caps.assert_limits(trial.arm, local.group, local.running.server.pid)
    trial.limit_facts |= trial_caps.inherited_facts(local.inherited)
    if trial.limit_facts:
        trial.facts["limits"] = trial.limit_facts
    trial.facts["started_for_this_trial"] = local.is_fresh


def prepare_server(trial: TrialState, local: LocalTrialServer) -> None:
    """Touch the shared memory of a new server; run what a maintenance command has untimed before it."""
    trial.stage("prefaulting")
    if local.is_fresh:
        trial.facts["prefaulted_bytes"] = prefault_shared_memory(local.running.server.pid)
    if trial.arm.workload.is_maintenance:
        trial.stage("running untimed statements")
        maintenance_effects.run_untimed(local.running.control, trial.arm.workload.statements[0])
        _settle(trial)


def plan_statements(trial: TrialState, server: ServerSession, local: LocalTrialServer | None) -> Prepared:
    """EXPLAIN every statement, which warms the catalogs; then the first half of the cache state."""
    control = server.control
    trial.stage("planning")
    relations = user_relations(control, local.running.server.data_directory) if local else []
    if local:
        trial.warnings += states.cliff_warnings(relations, states.shared_buffers_bytes(control))
    explained = explain_all(server, trial.arm, as_prepared=trial.spec.protocol.plans_as_prepared)
    trial.fields["upkeep_before"] = vacuum_state_or_none(control)
    if local is None:
        others = control.execute(_OTHER_SESSIONS).fetchone()
        trial.server_facts["other_active_sessions"] = int(others[0]) if others else 0
        return Prepared(server, None, relations, explained, None)
    keeper = CacheKeeper(local.running, relations, trial.spec.protocol.cache, trial.arm, local.group)
    trial.stage("caches")
    keeper.prepare_buffers(fresh=local.is_fresh)
    return Prepared(server, local, relations, explained, keeper)


def counted_statements(prepared: Prepared) -> AbstractContextManager[ServerStatements | None]:
    """The server's own counts of statements; of a server on this machine without pgassay's own."""
    if prepared.local is not None:
        return own_sessions_uncounted(prepared.local.running)
    return nullcontext(ServerStatements.of(prepared.server.control))


def measured_session(trial: TrialState, prepared: Prepared) -> AbstractContextManager[StatementTimer | None]:
    """The session whose statements are timed.

    A load, or sessions that execute statements at once, need it only to time the way to a remote server.
    """
    workload = trial.arm.workload
    if (workload.kind != "statements" or workload.is_mix) and prepared.local is not None:
        return nullcontext(None)
    return StatementTimer(
        prepared.server,
        trial.arm,
        trial.spec.protocol,
        prepared.local,
        prepared.relations,
        trial.on_step,
    )


def finish_caches(trial: TrialState, prepared: Prepared) -> None:
    """The pages come last, when nothing but the measured statements will touch them any more."""
    if prepared.keeper is None:
        was_restarted = bool(trial.before_facts.get("restarted"))
        trial.facts["cache"] = {"state": "restarted" if was_restarted else "as-is"}
        return
    prepared.keeper.prepare_pages()
    trial.facts["cache"] = prepared.keeper.facts


def measure_between_readings(
    trial: TrialState, prepared: Prepared, counted: ServerStatements | None, timer: StatementTimer | None
) -> readings.Readings | None:
    """Measure with samplers and counters around it; returns what the counters were before.

    None where a load outlived a restart of its server (`reconnect=yes`), which resets them.
    """
    server, local = prepared.server, prepared.local
    trial.stage("measuring")
    with profiled(trial, local), threads_observed(trial, server, local):
        before = readings.readings(server, local, trial.arm.build.major)
        counts = counted_before(server, counted)
        with machine_sampled(trial, local, prepared.relations):
            trial.observation = _run_workload(trial, prepared, timer)
        if local and before.local:
            trial.fields["server_cpu_s"] = local.running.cpu_seconds() - before.local.cpu_s
    trial.fields["steal_s"] = readings.steal_s() - before.steal_s
    if _outlived_a_restart(trial, prepared):
        trial.warnings.append(_COUNTERS_LOST)
        return None
    trial.observations |= counted_files(server, counted, counts)
    return before


def _outlived_a_restart(trial: TrialState, prepared: Prepared) -> bool:
    """Whether the server ended the sessions of a load that opened others, and pgassay's own with them."""
    load = trial.observation.load
    if prepared.local is not None or load is None or load.connections is None or not load.connections.lost:
        return False
    return prepared.server.reopen_control(_BACK_WITHIN_S)


def _run_workload(trial: TrialState, prepared: Prepared, timer: StatementTimer | None) -> Observation:
    if trial.arm.workload.is_mix:
        return mix.run(prepared.server, trial.arm, trial.spec.protocol, trial.spec.block, prepared.explained)
    if timer is not None and trial.arm.workload.kind == "statements":
        return timer.run(prepared.explained, prepared.keeper)
    if trial.arm.workload.is_replay:
        return replayed_load.run(prepared.server, trial.arm, lambda told: trial.on_step(_progress(told)))
    seed = trial.spec.number * 1009 + trial.spec.attempt
    return timed_load.run(prepared.server, trial.arm, seed, lambda told: trial.on_step(_second(told)))


def _second(told: LoadProgress) -> str:
    """What the last second of a load had, in words for whoever looks."""
    parts = [f"second {told['second']}", f"{told['transactions']:,} transactions"]
    if told["p50_ms"] is not None and told["p99_ms"] is not None:
        parts.append(f"p50 {in_digits(told['p50_ms'])} ms")
        parts.append(f"p99 {in_digits(told['p99_ms'])} ms")
    if told["errors"]:
        parts.append(f"{told['errors']:,} failed")
    if told["queue"]:
        least = " or more" if told["queue"] >= _QUEUE_COUNTED_MAX else ""
        parts.append(f"{told['queue']:,}{least} wait")
    return ", ".join(parts)


def _progress(told: ReplayProgress) -> str:
    return f"second {told['elapsed_s']:.0f}, {told['replayed']:,} statements, {told['open']:,} sessions open"


def verify_trial(trial: TrialState, prepared: Prepared, before: readings.Readings | None) -> None:
    """Record how the counters moved, where they are known, and hold them against the rules."""
    if before is not None:
        _verify_counters(trial, prepared, before)
    observed = trial.observation.load
    if observed is not None:
        replayed_load.assert_same_work(trial.arm.workload, observed)
        trial.warnings += verify.load_warnings(
            observed, None if trial.arm.workload.is_replay else trial.arm.workload.load
        )


def _verify_counters(trial: TrialState, prepared: Prepared, before: readings.Readings) -> None:
    local, observed = prepared.local, trial.observation.load
    moved = readings.moved_since(before, prepared.server, local, trial.arm.build.major)
    trial.fields["upkeep_after"] = vacuum_state_or_none(prepared.server.control)
    trial.fields["counters"] = moved.counters
    trial.fields["verification"] = {"postgres_read_bytes": moved.read.postgres}
    if local and moved.wal_bytes is not None:
        if local.capped_group:
            trial.limit_facts |= usage.peaks(local.capped_group)
        trial.fields["verification"] = {
            "wal_bytes": moved.wal_bytes,
            "postgres_read_bytes": moved.read.postgres,
            "device_read_bytes": moved.read.device,
            "server_device_read_bytes": moved.read.server,
        }
        verify.assert_nothing_written(trial.arm, moved.wal_bytes)
        trial.warnings += verify.write_regime(trial.arm, _checkpoints(moved.counters))
        if (observed is not None or trial.arm.workload.is_mix) and not trial.arm.workload.writes:
            size_bytes = sum(relation.size_bytes for relation in prepared.relations)
            verify.assert_load_stayed_warm(trial.spec.protocol.cache, moved.read, size_bytes)


def _checkpoints(moved: Mapping[str, Sequence[CounterRow]]) -> float:
    names = ("num_timed", "num_requested", "checkpoints_timed", "checkpoints_req")
    rows = [*moved.get("pg_stat_checkpointer", []), *moved.get("pg_stat_bgwriter", [])]
    return sum(figure(row, name) for row in rows for name in names)
