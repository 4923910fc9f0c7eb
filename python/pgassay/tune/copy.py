"""A copy of the data with a server on it, to try candidates on: built for real, measured, taken back.

What is measured here steers the search and proves nothing: one copy, no blocks, no twin. Its server listens
on a Unix socket alone, and what it runs sees nothing of the machine (`environment/server/enclosure.py`).
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psycopg

from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.datasets import OnStage, snapshots
from pgassay.environment.linux import pagecache
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.server_caps import server_limits
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.environment.server.validation import settings_known
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.running.result_bag import Bag, read_bag
from pgassay.model.arm import ArmSpec
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession
from pgassay.plans.explain_output.find_plans import FoundPlan
from pgassay.plans.explain_plan import explained
from pgassay.storage.base import Volume
from pgassay.storage.registry import provide
from pgassay.tune.candidate import Candidate
from pgassay.tune.statement_errors import QUERY_CANCELED, TooLongError, apply_within, refused
from pgassay.tune.switchable import READS_ALL, SHOWN_BYTES, HiddenIndexes
from pgassay.tune.timeouts.time_limits import StatementTimeout
from pgassay.tune.tuned_statements import MeasuredStatement

# Runs of a statement: so many, and no further one once they took so long together; one where its noise is
# small beside it, and none beside the first, which fills the caches, where that took longer still.
RUNS_MIN, RUNS_MAX, RUNS_S = 3, 7, 0.3
RUNS_MIN_LONG, LONG_S, ONE_RUN_S = 1, 0.3, 5.0
# In a run a statement that only reads is executed until it took so long, where the caches stay the same.
RUN_S = 0.01
# A statement that a candidate makes slower than that is stopped: it is known to be worse.
SLOWER_TIMES_MAX, TIMEOUT_MIN_S = 3.0, 2.0
# Beside the data and as much again for what is built on them; so much of it may be what is hidden.
WORKING_ROOM_BYTES, HIDDEN_SHARE_MAX = 256 * 1024**2, 0.5
_COLD = ("cold", "cold-each")
_ALIKE_AGAIN = ("warm-buffers", "as-is")
_WAL_BYTES = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_EVICTS = "SELECT to_regproc('pg_buffercache_evict_all') IS NOT NULL"
_HAS_WRITTEN = "SELECT 1 WHERE pg_current_xact_id_if_assigned() IS NOT NULL"
_COMMITS = "SELECT pg_logical_emit_message(true, 'pgassay', '')"
_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, WAL, VERBOSE, SETTINGS, FORMAT JSON) "
_ESTIMATE = "EXPLAIN (VERBOSE, SETTINGS, FORMAT JSON) "


class TrialCopy:
    """A working copy of an arm's data, and the server on it; both go away with the `with` block.

    Its working copy is number 0 of the snapshot, which the proof's trials use afterwards.
    """

    def __init__(self, spec: ArmSpec, *, cache: str, statement_timeout_s: float, on_stage: OnStage) -> None:
        self.spec = spec
        self._cache = cache
        self.timeout_s = statement_timeout_s
        # By the name of a measured statement that did not end as it is, how long it is waited for.
        self.endless: dict[str, StatementTimeout] = {}
        self._on_stage = on_stage
        # What the server runs on now: a candidate may want another version, or another volume.
        self._on: ArmSpec | None = None
        self._volume: Volume | None = None
        self._settings = dict(spec.settings)
        self._applied: list[Candidate] = []
        self._hidden = HiddenIndexes()
        self.ground: tuple[Candidate, ...] = ()  # stays applied below whatever is asked for
        self._server: Server | None = None
        self._group: Cgroup | None = None
        self._session: SqlSession | None = None
        self._control: ControlSession | None = None
        self.opened_s = 0.0  # how long the first start took, with its copy of the data

    def __enter__(self) -> Self:
        try:
            self._open(self.spec)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _open(self, spec: ArmSpec) -> None:
        """Have the arm's data on its storage, and start the server of its build on them."""
        self.snapshot = snapshots.ensure(spec.build, spec.dataset, spec.prepare, self._on_stage)
        begun = time.monotonic()
        volume = provide(spec.storage, 2 * self.snapshot.bytes + WORKING_ROOM_BYTES)
        self._volume, self._on = volume, spec
        self._on_stage("copying the data", None)
        self._working: Path = volume.clone(self.snapshot.path, self.snapshot.key, 0)
        if not volume.is_clean(self._working):
            volume.reset(self._working, self.snapshot.path)
        self._start()
        self.opened_s = self.opened_s or time.monotonic() - begun

    def _close(self) -> None:
        """Stop the server and give the storage back; its files stay."""
        try:
            self._stop()
        finally:
            volume, self._volume, self._on = self._volume, None, None
            if volume is not None:
                volume.remove()

    def __exit__(self, *details: object) -> None:
        self._close()

    @property
    def session(self) -> ControlSession:
        """A session of the copy's server for looking and for applying; it commits each statement."""
        if self._control is None or self._control.closed:
            self._control = control(self.server, self.snapshot.database)
        return self._control

    @property
    def server(self) -> Server:
        """The server on the copy."""
        assert self._server is not None, "enter the copy before it is used"
        return self._server

    def drop_hidden(self) -> None:
        """Drop the indexes that were tried and taken back."""
        self.apply(self._hidden.all_dropped(self.session))

    def give_away(self) -> Path:
        """Stop the server, and leave its data directory to the caller: nothing is tried here any more."""
        self._stop()
        return self._working

    @property
    def _storage(self) -> Volume:
        if self._volume is None:
            raise AssertionError("the copy is entered before it is used")
        return self._volume

    def _start(self) -> None:
        assert self._on is not None
        self._storage.activate()
        self._storage.mark(self._working, clean=False)
        limits = {**self._storage.limits_cgroup(), **server_limits(self.spec)}
        self._group = Cgroup.create("server", limits) if limits else None
        settings = settings_known(self._on.build, self.spec.build, self._settings)
        self._server = Server(self._on.build, self._working, settings, self._group)
        self._server.start()
        self._session = SqlSession()
        self._connect()

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._group is not None:
            self._group.remove()
            self._group = None

    def _connect(self) -> None:
        assert self._session is not None and self._server is not None
        self._session.connect(self._server.connection_parameters(dbname=self.snapshot.database))

    def apply(self, statements: Sequence[str], limit_s: float = math.inf) -> float:
        """Run these statements, each on its own; the seconds that they took together.

        Raises UsageError with the server's words, TooLongError after `limit_s` seconds for all of them.
        """
        return apply_within(self.session, statements, limit_s)

    def bytes(self) -> int:
        """The size of the database, without what is hidden."""
        return self._number(SHOWN_BYTES)

    def wal_bytes(self) -> int:
        """How much WAL the server has written in its life."""
        return self._number(_WAL_BYTES)

    def _number(self, sql: str) -> int:
        row = self.session.execute(sql.encode()).fetchone()
        return int(row[0]) if row else 0

    def estimate(self, sql: str, name: str) -> ExplainedPlan:
        """The plan with its cost, not executed."""
        return self._plan(_ESTIMATE + sql, name)

    def executed(self, sql: str, name: str, *, writes: bool) -> ExplainedPlan:
        """The executed plan, in the trials' cache state; what it wrote is rolled back."""
        mode = "READ WRITE" if writes else "READ ONLY"
        self._prepare_caches(writes=writes)
        with self._storage.measured(), self.session.transaction(force_rollback=True):
            self.session.execute(f"SET TRANSACTION {mode}".encode())
            self.session.execute(f"SET LOCAL statement_timeout = '{self.timeout_s:.0f}s'".encode())
            return self._plan(_EXPLAIN + sql, name)

    def rows(self, sql: str) -> Bag:
        """What a query returns, as a bag of rows; raises psycopg.Error."""
        with self.session.transaction(force_rollback=True):
            self.session.execute("SET TRANSACTION READ ONLY")
            self.session.execute(f"SET LOCAL statement_timeout = '{self.timeout_s:.0f}s'".encode())
            return read_bag(self.session, sql)

    def _plan(self, sql: str, name: str) -> ExplainedPlan:
        try:
            row = self.session.execute(sql.encode(), prepare=False).fetchone()
        except psycopg.Error as error:
            if error.sqlstate == QUERY_CANCELED:
                raise TooLongError(f"statement {name} takes longer than {self.timeout_s:.0f} s") from error
            raise refused(name, error.diag.message_primary or first_line(error), error.sqlstate) from error
        document = row[0][0] if row else {}
        return explained(FoundPlan(document, "json"), 1, f"the plan of {name}")

    def seconds(
        self,
        statement: MeasuredStatement,
        sql: str,
        *,
        usual_s: float | None = None,
        limit_s: float = math.inf,
        once: bool = False,
    ) -> float:
        """The least of a few runs, by the clock of the trials and in their cache state.

        Infinite where it was stopped as much slower, or after `limit_s`; of one that did not end as it is
        (`endless`), and was waited for as long as then, that time. It is not executed at all, and takes as
        long, where its plan promises too little.
        Before each run a new session, its catalogs warmed by EXPLAIN, as a trial has. `usual_s`: what it took
        before, which bounds what is waited for. `once`: the first run on these data counts, as what writes is
        executed in a trial: the next ones find the room and the split pages that it has left.
        """
        timeout_s, waiting = self.timeout_s, self.endless.get(statement.name)
        if waiting is not None:
            if not waiting.may_end(self.estimate(sql, statement.name), self._applied):
                return waiting.limit_s
            timeout_s = waiting.limit_s
        if usual_s is not None and math.isfinite(usual_s):
            timeout_s = min(timeout_s, max(TIMEOUT_MIN_S, SLOWER_TIMES_MAX * usual_s))
        timeout_s = min(timeout_s, limit_s)
        found: list[float] = []
        try:
            first = 0.0
            if once and self._cache == "warm-buffers":
                self.apply([READS_ALL])
            elif not once and self._cache not in _COLD:
                first = self._run(statement, sql, timeout_s)  # what it reads is in memory from now on
                if first >= ONE_RUN_S:
                    return first
            runs_min = RUNS_MIN_LONG if once or first >= LONG_S else RUNS_MIN
            runs_max = RUNS_MIN_LONG if once else RUNS_MAX
            while len(found) < runs_max and (len(found) < runs_min or math.fsum(found) < RUNS_S):
                self._prepare_caches(writes=statement.of.writes)
                found.append(self._run(statement, sql, timeout_s))
        except StatementError as error:
            if error.sqlstate == QUERY_CANCELED:
                return timeout_s if waiting is not None and timeout_s == waiting.limit_s else math.inf
            raise refused(statement.name, first_line(error), error.sqlstate) from error
        except psycopg.Error as error:  # between its runs, as a checkpoint that finds no room
            raise UsageError(f"the copy's server failed at {statement.name}: {first_line(error)}") from error
        return min(found)

    def _run(self, statement: MeasuredStatement, sql: str, timeout_s: float) -> float:
        session = self._session
        assert session is not None
        self._connect()
        session.execute("timeout", f"SET statement_timeout = '{timeout_s * 1000:.0f}ms'")
        if not statement.of.writes:
            # What a function that it calls would change would stay for all that is measured after it.
            session.execute("read only", "SET default_transaction_read_only = on")
        session.execute("warm the catalogs", f"EXPLAIN {sql}")
        # An imitated volume is slow only while something is measured, as in a trial.
        with self._storage.measured():
            if not statement.of.writes:
                return self._least(session, statement.name, sql)
            session.execute("begin", "BEGIN")
            try:
                return session.execute(statement.name, sql).elapsed_s + self._committing_s(session)
            finally:
                session.execute("rollback", "ROLLBACK")

    def _committing_s(self, session: SqlSession) -> float:
        """What a commit would take there: deferred checks, and the flush of what was written to the log."""
        checks_s = session.execute("deferred", "SET CONSTRAINTS ALL IMMEDIATE").elapsed_s
        if not session.execute("written", _HAS_WRITTEN).rows:
            return checks_s
        begun = time.perf_counter()
        self.session.execute(_COMMITS)  # another session's, which flushes all that was written before
        return checks_s + time.perf_counter() - begun

    def _least(self, session: SqlSession, name: str, sql: str) -> float:
        """The least of the executions of one run; of one where a second would find other caches."""
        found = [session.execute(name, sql).elapsed_s]
        while self._cache in _ALIKE_AGAIN and math.fsum(found) < RUN_S:
            found.append(session.execute(name, sql).elapsed_s)
        return min(found)

    def _prepare_caches(self, *, writes: bool) -> None:
        """Empty shared buffers where a trial's state wants that; cold: the page cache as well."""
        if writes:  # as in a trial: the log gets each page whole that is changed
            self.session.execute("CHECKPOINT")
        if self._cache in _COLD:
            self._stop()
            pagecache.evict([*pagecache.relation_files(self._working)])
            self._start()
        elif self._cache == "warm-pages":
            known = self.session.execute(_EVICTS).fetchone()
            if known and known[0]:
                self.session.execute("SELECT pg_buffercache_evict_all()")
            else:
                self._stop()
                self._start()

    def push(self, candidate: Candidate, limit_s: float = math.inf) -> float:
        """Apply a candidate on top of those that are applied; the seconds that its SQL took.

        Raises as `apply` does; the copy is then as it was before.
        """
        self._applied.append(candidate)
        try:
            if candidate.build is not None or candidate.storage is not None:
                self._again()
                return 0.0
            self._restart_with_settings()
            if self._hidden.show(self.session, candidate):
                return 0.0
            dropping = self._hidden.to_be_dropped(self.session, candidate)
            return self.apply([*dropping, *candidate.sql], limit_s)
        except (UsageError, MeasurementError):
            self._applied.pop()
            self._again()
            raise

    def align(self, wanted: Sequence[Candidate], *, anew: bool = False) -> None:
        """Have exactly these applied, in this order, on top of `ground`; `anew`: to the data as they were."""
        wanted = [*self.ground, *wanted]
        if anew:
            self._applied = list(wanted)
            self._again()
            return
        while [each.id for each in self._applied] != [each.id for each in wanted[: len(self._applied)]]:
            self.pop()
        for candidate in wanted[len(self._applied) :]:
            self.push(candidate)

    def pop(self) -> None:
        """Take the last one back: by its own SQL, or by putting all data back and applying the rest again."""
        candidate = self._applied.pop()
        is_elsewhere = candidate.build is not None or candidate.storage is not None
        if is_elsewhere or (candidate.sql and not candidate.is_restored_by_undo):
            self._again()
            return
        try:
            if not self._hidden.hide(self.session, candidate, HIDDEN_SHARE_MAX * self.snapshot.bytes):
                self.apply(candidate.undo)
            self._restart_with_settings()
        except (UsageError, MeasurementError):
            self._again()

    def _again(self) -> None:
        """The data as they were, on the server and the storage that is wanted now, and all applied again."""
        wanted = self.spec
        self._hidden.clear()
        for candidate in self._applied:
            build, storage = candidate.build or wanted.build, candidate.storage or wanted.storage
            wanted = wanted.model_copy(update={"build": build, "storage": storage})
        self._settings = {**self.spec.settings, **self._settings_of_applied()}
        if self._on is not None and (self._on.build, self._on.storage) == (wanted.build, wanted.storage):
            self._stop()
            self._storage.reset(self._working, self.snapshot.path)
            self._start()
        else:
            self._close()
            self._open(wanted)
        for candidate in self._applied:
            self.apply(candidate.sql)

    def _settings_of_applied(self) -> dict[str, str]:
        return {name: value for each in self._applied for name, value in each.settings.items()}

    def _restart_with_settings(self) -> None:
        wanted = {**self.spec.settings, **self._settings_of_applied()}
        if wanted != self._settings:
            self._stop()
            self._settings = wanted
            self._start()
