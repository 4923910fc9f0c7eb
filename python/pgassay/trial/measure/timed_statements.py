"""Times a list of statements, one by one, in one session of the native binary."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from pgassay.environment.linux.device import DeviceCounters, counters
from pgassay.environment.linux.settle import wait_until_settled
from pgassay.environment.server.device_reads import ServerReads, reads_between
from pgassay.errors import MeasurementError, first_line
from pgassay.model.aio import command_reads_asynchronously
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.model.maintenance import MaintenanceObservation
from pgassay.model.trial import StatementObservation
from pgassay.model.workload import Statement
from pgassay.native.process import StatementError
from pgassay.native.sql import Executed, SqlSession
from pgassay.record import layout
from pgassay.trial.caches import states
from pgassay.trial.caches.keeper import CacheKeeper
from pgassay.trial.caches.relations import Relation, user_relations
from pgassay.trial.measure import maintenance_effects, statement_plans
from pgassay.trial.measure.maintenance_progress import FILE, ProgressSampler, SampledProgress
from pgassay.trial.snapshots import verify
from pgassay.trial.snapshots.counters import Snapshot, block_bytes, database_bytes, snapshot
from pgassay.trial.target import LocalTrialServer, ServerSession
from pgassay.trial.trial_state import Observation, Plan
from pgassay.workloads.row_variables import divided, documents

_QUERY_CANCELED = "57014"
# A cold statement's relations may hold this much of the page cache: catalogs' neighbours, no data.
COLD_RESIDENT_FRACTION_MAX = 0.01


@dataclass(frozen=True)
class _Edge:
    """The counters at one edge of a statement."""

    views: Snapshot
    device: DeviceCounters | None
    server_reads: ServerReads | None
    cpu_s: float


class StatementTimer:
    """Runs the statements of one trial on any server; a context manager around its measured session.

    The session plans every statement once when it opens, before the caches are prepared, so that
    loading the catalogs is no part of the first statement's time. What each statement read, and whether it
    was cold, is told of servers on this machine alone.
    """

    def __init__(
        self,
        server: ServerSession,
        spec: ArmSpec,
        protocol: Protocol,
        local: LocalTrialServer | None,
        relations: list[Relation],
        on_step: Callable[[str], None],
        *,
        rolls_back: bool = False,
    ) -> None:
        """`on_step` gets what a maintenance command is at, in words, while it runs; on another thread.

        `rolls_back`: each statement is executed in a transaction of its own that is rolled back, untimed.
        """
        self._server = server
        self._spec = spec
        self._protocol = protocol
        self._local = local
        self._relations = relations
        self._on_step = on_step
        self._rolls_back = rolls_back
        self.session = SqlSession()
        self._progress: ProgressSampler | None = None
        self._done: list[MaintenanceObservation] = []
        self._further_s: dict[str, tuple[float, ...]] = {}
        self._stopped: set[str] = set()

    def __enter__(self) -> Self:
        self.session.__enter__()
        self.connect()
        return self

    def __exit__(self, *details: object) -> None:
        self.session.__exit__(*details)
        if self._progress is not None:
            self._progress.close()

    def connect(self) -> None:
        """Open the measured session (again, after a restart) and warm its catalogs."""
        self.session.connect(self._server.parameters())
        if self._spec.workload.is_maintenance:
            if self._progress is None:
                major, interval_s = self._spec.build.major, self._protocol.sample_interval_s
                self._progress = ProgressSampler(self._server, major, interval_s, self._on_step)
            else:
                self._progress.connect()
        self._warm_catalogs(self._spec.workload.statements)

    def run(self, explained: dict[str, Plan], keeper: CacheKeeper | None) -> Observation:
        """Time every statement once (more), in order; raises MeasurementError when one fails.

        `keeper` empties the caches again before each further statement of `cold-each`; None where nothing
        can be done about them.
        """
        observation = Observation(plans=explained)
        begin_ns = end_ns = 0
        for index, statement in enumerate(self._spec.workload.statements):
            if self._local is not None and keeper is not None and index > 0:
                self._prepare_further(statement, self._local, keeper)
            plan = explained.get(statement.name)
            facts = statement_plans.facts(plan, self._spec.build.major) if plan else None
            one, done = self._time(statement, facts)
            begin_ns, end_ns = begin_ns or done.start_ns, done.end_ns
            further_s = self._further_s.get(statement.name, ())
            is_stopped = statement.name in self._stopped
            observation.statements.append(
                one.model_copy(update={"further_s": further_s, "stopped": is_stopped})
            )
            if is_stopped:
                limit_s = self._protocol.statement_limits[statement.name]
                observation.warnings.append(
                    f"{statement.name} was stopped after {limit_s:g} s, which counts instead "
                    "of its time, which is longer"
                )
        observation.clock_ns = (begin_ns, end_ns)
        observation.maintenance = self._done
        if self._progress is not None:
            observation.warnings += self._progress.warnings
            content = self._progress.content()
            if content is not None:
                observation.files[f"{layout.OBSERVATIONS_FOLDER}/{FILE}"] = content
        return observation

    def repeat(self, keeper: CacheKeeper) -> float:
        """Time all statements once more in the cache state of their first; their seconds together.

        Nothing else is recorded of them, so no counter of the trial's is in between.
        """
        seconds = 0.0
        for statement in self._spec.workload.statements:
            if self._protocol.cache == "cold-each":
                if keeper.empty_buffers():
                    self.connect()
                keeper.prepare_pages()
            seconds += self._run(statement).elapsed_s
        return seconds

    @property
    def stopped(self) -> frozenset[str]:
        """The statements that did not end in the time that the protocol gives them."""
        return frozenset(self._stopped)

    def execute_once(self) -> tuple[float, ...]:
        """Execute all statements once more as they are; the seconds of each, and nothing else of them.

        One that was stopped is not executed again, and takes no time.
        """
        return tuple(
            0.0 if statement.name in self._stopped else self._run(statement).elapsed_s
            for statement in self._spec.workload.statements
        )

    def take_turn(self, repeats: Sequence[int]) -> tuple[float, ...]:
        """One turn: each statement so many times, by its place; the seconds of each, the median of those.

        0: once, and nothing is thrown away. Else one execution goes before those that count. One that was
        stopped counts with the time that it was given: to wait for it once more would tell no more.
        """
        seconds = []
        for statement, often in zip(self._spec.workload.statements, repeats, strict=True):
            if statement.name in self._stopped:
                seconds.append(self._protocol.statement_limits[statement.name])
                continue
            if often:
                self._run(statement)
            seconds.append(statistics.median(self._run(statement).elapsed_s for _ in range(often or 1)))
        return tuple(seconds)

    def execute_further(self, keeper: CacheKeeper | None) -> None:
        """Execute statements that are to be executed several times, but for once; their times are kept.

        Before all that is recorded of a trial, so that its counters are those of one execution of each
        statement, and before anything is written. Where shared buffers are to be empty, they are emptied
        before each, and what planning reads is read, as it is before the one that `run` times.
        """
        emptied = keeper if self._protocol.cache == "warm-pages" else None
        for statement in self._spec.workload.statements:
            seconds = []
            for _ in range(1, self._protocol.executions.get(statement.name, 1)):
                if emptied is not None:
                    self._empty_buffers(emptied, (statement,))
                seconds.append(self._run(statement).elapsed_s)
            self._further_s[statement.name] = tuple(seconds)
        if emptied is not None:
            self._empty_buffers(emptied, self._spec.workload.statements)

    def _empty_buffers(self, keeper: CacheKeeper, statements: tuple[Statement, ...]) -> None:
        if keeper.empty_buffers():
            self.connect()
        else:
            self._warm_catalogs(statements)

    def _warm_catalogs(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            if statement_plans.explainable(statement):
                self.session.execute("warm the catalogs", "EXPLAIN " + statement.sql)
            for part, text in divided(statement):
                if statement_plans.has_plan(part.sql) and len(text) == 1:
                    # What an earlier part makes, such as a table, is not there yet.
                    with suppress(StatementError):
                        self.session.execute("warm the catalogs", "EXPLAIN " + part.sql)

    def _prepare_further(self, statement: Statement, local: LocalTrialServer, keeper: CacheKeeper) -> None:
        """Before a further statement: what a command needs around it, and the cache state of each."""
        if self._spec.workload.is_maintenance:
            maintenance_effects.run_untimed(self._server.control, statement)
            wait_until_settled(self._protocol.settle_timeout_s)
            # The command before may have given the relations other files.
            self._relations = user_relations(self._server.control, local.running.server.data_directory)
            keeper.know(self._relations)
            if self._protocol.cache == "warm-pages":
                keeper.prepare_pages()
        if self._protocol.cache == "cold-each":
            if keeper.empty_buffers():
                self.connect()
            keeper.prepare_pages()

    def _execute(self, statement: Statement) -> tuple[Executed, SampledProgress]:
        """The statement, and its progress."""
        if self._progress is None:
            return self._run(statement), SampledProgress()
        with self._progress.watch(statement.name) as watch:
            done = self._send(statement)
        return done, watch.sampled

    def _run(self, statement: Statement) -> Executed:
        """The statement; one that the protocol stops takes exactly as long as it is given."""
        limit_s = self._protocol.statement_limits.get(statement.name)
        send = self._rolled_back if self._rolls_back else self._send
        if limit_s is None:
            return send(statement)
        self.session.execute("limit", f"SET statement_timeout = '{limit_s * 1000:.0f}ms'")
        start_ns = time.monotonic_ns()
        try:
            done = send(statement)
        except StatementError as error:
            if error.sqlstate != _QUERY_CANCELED:
                raise
            end_ns = time.monotonic_ns()
            done = Executed(statement.name, round(limit_s * 1e9), start_ns, end_ns, rows=0, bytes=0)
            self._stopped.add(statement.name)
        self.session.execute("no limit", "RESET statement_timeout")
        return done

    def _send(self, statement: Statement) -> Executed:
        """The statement as it is; of a transaction one part after the other."""
        if not statement.parts:
            return self.session.execute(statement.name, statement.sql)
        return self.session.execute_transaction(statement.name, documents(statement))

    def _rolled_back(self, statement: Statement) -> Executed:
        self.session.execute("begin", "BEGIN")
        try:
            return self.session.execute(statement.name, statement.sql)
        finally:
            self.session.execute("rollback", "ROLLBACK")

    def _time(
        self, statement: Statement, facts: statement_plans.PlanFacts | None
    ) -> tuple[StatementObservation, Executed]:
        if self._local is None:
            done, _ = self._execute(statement)
            aio = self._reads_asynchronously(facts)
            observed = StatementObservation(
                name=statement.name,
                elapsed_s=done.elapsed_s,
                rows=done.rows,
                cold=False,
                aio=aio,
                parts_s=_parts_s(statement, done),
            )
            return observed, done
        return self._time_local(statement, facts, self._local)

    def _time_local(
        self, statement: Statement, facts: statement_plans.PlanFacts | None, local: LocalTrialServer
    ) -> tuple[StatementObservation, Executed]:
        """Time it between two readings of what the server, the device and the processes have done."""
        cold = self._starts_cold(facts)
        # Before it runs: a command that rewrites a relation leaves nothing at the old path.
        size_bytes = sum(relation.size_bytes for relation in self._relations)
        files = maintenance_effects.relation_files(self._server.control) if self._progress else {}
        before = self._edge(local)
        local.running.mark()
        done, progress = self._execute(statement)
        local.running.mark()
        self.session.execute("flush", "SELECT pg_stat_force_next_flush()")
        after = self._edge(local)
        if self._progress is not None:
            files_after = maintenance_effects.relation_files(self._server.control)
            observed_work = maintenance_effects.observe(
                statement,
                done,
                files=(files, files_after),
                views=(before.views, after.views),
                progress=progress,
            )
            self._done += [observed_work] if observed_work else []
        read, hit = database_bytes(before.views, after.views, block_bytes(self._server.control))
        moved = after.device - before.device if after.device and before.device else None
        observed = StatementObservation(
            name=statement.name,
            clock_ns=(done.start_ns, done.end_ns),
            elapsed_s=done.elapsed_s,
            rows=done.rows,
            cold=cold,
            aio=self._reads_asynchronously(facts),
            postgres_read_bytes=read,
            postgres_hit_bytes=hit,
            device_read_bytes=moved.read_bytes if moved else None,
            device_read_requests=moved.reads if moved else None,
            server_device_read_bytes=reads_between(before.server_reads, after.server_reads),
            server_cpu_s=after.cpu_s - before.cpu_s,
            parts_s=_parts_s(statement, done),
        )
        verify.assert_statement_cache(
            observed, self._protocol, size_bytes, reads_once=not self._spec.workload.is_maintenance
        )
        return observed, done

    def _edge(self, local: LocalTrialServer) -> _Edge:
        return _Edge(
            views=snapshot(self._server.control, self._spec.build.major),
            device=counters(local.device) if local.device.name else None,
            server_reads=local.running.device_reads(),
            cpu_s=local.running.cpu_seconds(),
        )

    def _reads_asynchronously(self, facts: statement_plans.PlanFacts | None) -> bool:
        if self._spec.workload.is_maintenance:
            return command_reads_asynchronously(self._spec.build.major)
        return facts is not None and facts.aio

    def _starts_cold(self, facts: statement_plans.PlanFacts | None) -> bool:
        if self._protocol.cache not in ("cold", "cold-each"):
            return False
        if self._spec.workload.is_maintenance:
            # No plan says what a utility command reads: nothing of any relation may be in memory.
            names = frozenset((relation.schema, relation.name) for relation in self._relations)
        elif facts is None:
            return False
        else:
            names = facts.relations
        fraction = states.resident_fraction(self._relations, names)
        return fraction is not None and fraction <= COLD_RESIDENT_FRACTION_MAX


def _parts_s(statement: Statement, done: Executed) -> dict[str, float]:
    names = [part.name for part in statement.parts]
    return {name: part_ns / 1e9 for name, part_ns in zip(names, done.parts_ns, strict=True)}


def explain_all(server: ServerSession, spec: ArmSpec, *, as_prepared: bool = False) -> dict[str, Plan]:
    """EXPLAIN every statement in a session with the arm's settings; also warms the catalogs.

    `as_prepared`: where a load prepares them, the plans that its sessions come to execute.
    """
    import psycopg

    explained: dict[str, Plan] = {}
    if spec.workload.is_replay:
        found = {
            each.name: statement_plans.explain_captured(server.control, each)
            for each in spec.workload.statements
        }
        return {name: plan for name, plan in found.items() if plan is not None}
    for statement in spec.workload.statements:
        try:
            plan = statement_plans.explain(server.control, statement, spec.workload if as_prepared else None)
        except psycopg.Error as error:
            raise MeasurementError(
                f"statement {statement.name} can't be planned ({first_line(error)}): correct its SQL"
            ) from error
        if plan is not None:
            explained[statement.name] = plan
    return explained
