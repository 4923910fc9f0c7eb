"""One planted defect in a real server: made, executed, read, and what the finders say of it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.server.initdb import make_cluster
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import Candidate, Symptom, TunedStatement
from pgassay.tune.facts.read import read_facts
from pgassay.tune.finders.registry import find
from tune_plants.base import Drawn, Plant

SETTINGS = {
    "shared_buffers": "512MB",
    "max_connections": "20",
    "fsync": "off",
    # On, as the finders expect, and never there.
    "autovacuum_naptime": "2000000",
    "max_parallel_workers_per_gather": "0",
    "track_io_timing": "on",
    "jit": "off",
    "random_page_cost": "1.1",
    "max_wal_size": "4GB",
    "work_mem": "16MB",
}
DATABASE = "plant"
# The planner's cost of a statement with the candidate, over that without: below this it is worth a trial.
COST_RATIO_MAX = 0.9
REPETITIONS = 12


@dataclass(frozen=True)
class Outcome:
    """What the finders offered; `screened` are those of them that the planner's cost speaks against."""

    offered: tuple[Candidate, ...]
    screened: frozenset[str]
    fix: Candidate | None
    symptom: Symptom

    @property
    def left(self) -> tuple[Candidate, ...]:
        """What would be told or go into trials."""
        return tuple(each for each in self.offered if each.id not in self.screened)


class Laboratory:
    """A data directory of one version, and a server on it with the settings that a plant wants."""

    def __init__(self, build: Build, folder: Path) -> None:
        self._build = build
        self._data = folder / f"data-{build.major}"
        make_cluster(self._build, self._data, DatasetSpec())
        self._server: Server | None = None

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def parameters(self) -> dict[str, object]:
        """How a client reaches the database of the plant that was made last."""
        assert self._server is not None
        place = self._server.socket_directory
        return {"host": place, "port": 5432, "user": "postgres", "dbname": DATABASE}

    def run(self, plant: Plant, seed: int, *, decoy: bool) -> Outcome:
        """Make the plant (or its decoy) and ask the finders."""
        drawn = plant.drawn(seed, decoy=decoy)
        server = self._with(SETTINGS | drawn.settings)
        with control(server) as session:
            session.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
            session.execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0")
        with control(server, DATABASE) as session:
            for sql in drawn.setup:
                session.execute(sql)
                # Else a session's counts arrive up to a second later, after those of a VACUUM.
                session.execute("SELECT pg_stat_force_next_flush()")
        with control(server, DATABASE) as session:
            facts = read_facts(session)
        with control(server, DATABASE) as session:
            plans = {each.name: _plans(session, each, drawn.executions) for each in drawn.statements}
            times = {
                each.name: each.weight * sum(plan.execution_ms or 0 for plan in plans[each.name])
                for each in drawn.statements
            }
            total = sum(times.values()) or 1.0
            symptom = Symptom(
                statements=drawn.statements,
                plans=plans,
                facts=facts,
                share={name: time / total for name, time in times.items()},
                machine=drawn.machine,
            )
            offered = find(symptom)
            screened = {each.id for each in offered if _costs_no_less(session, each, drawn)}
        return Outcome(
            offered,
            frozenset(screened),
            next((each for each in offered if each.id not in screened and drawn.fix(each)), None),
            symptom,
        )

    def _with(self, settings: dict[str, str]) -> Server:
        if self._server is not None and self._server.settings == settings:
            return self._server
        self.close()
        self._server = Server(self._build, self._data, settings)
        self._server.start()
        return self._server

    def measured(self, outcome: Outcome, candidate: Candidate) -> dict[str, float]:
        """New time over old of each statement with the candidate applied, as a session measures them."""
        assert self._server is not None
        names = {each.name for each in outcome.symptom.statements} & candidate.predicted.keys()
        statements = [each for each in outcome.symptom.statements if each.name in names]
        settings = dict(self._server.settings)
        with control(self._server, DATABASE) as session:
            before = {each.name: _duration(session, each) for each in statements}
            for sql in candidate.sql:
                session.execute(sql)
        server = self._with(settings | candidate.settings)
        with control(server, DATABASE) as session:
            after = {each.name: _duration(session, each) for each in statements}
        return {name: after[name] / before[name] for name in before}


@contextmanager
def laboratory(build: Build, folder: Path) -> Iterator[Laboratory]:
    """A laboratory in a folder that the servers' account can reach; its server is stopped afterwards."""
    made = Laboratory(build, folder)
    try:
        yield made
    finally:
        made.close()


def _plans(session: ControlSession, statement: TunedStatement, executions: int) -> tuple[ExplainedPlan, ...]:
    """A plan for each set of parameters, of the shortest execution but the first; rolled back.

    The first warms the caches; what else the machine did meanwhile is in the others' time.
    """
    made = []
    for values in statement.parameters or ((),):
        seen = []
        for _ in range(executions):
            with session.transaction(force_rollback=True):
                sql, arguments = _with_values(session, statement, values)
                row = session.execute(
                    f"EXPLAIN (ANALYZE, BUFFERS, VERBOSE, WAL, SETTINGS, FORMAT JSON) {sql}{arguments}"
                ).fetchone()
                assert row is not None
                seen.append(read_plans(json.dumps(row[0]), statement.name)[0])
        made.append(min(seen[1:] or seen, key=lambda plan: plan.execution_ms or 0.0))
    return tuple(made)


def _duration(session: ControlSession, statement: TunedStatement) -> float:
    """The least of several executions in seconds, the first left out; rolled back.

    As the plan's time that predictions are made from: what else the machine did is in the others.
    """
    times = []
    for _ in range(REPETITIONS):
        with session.transaction(force_rollback=True):
            sql, arguments = _with_values(session, statement, (statement.parameters or ((),))[0])
            start = time.perf_counter()
            session.execute(sql + arguments)
            times.append(time.perf_counter() - start)
    return min(times[1:])


def _with_values(
    session: ControlSession, statement: TunedStatement, values: tuple[str | None, ...]
) -> tuple[str, str]:
    """The statement as EXPLAIN takes it: one with parameters prepared, and executed with literals."""
    if not values:
        return statement.sql, ""
    session.execute("DEALLOCATE ALL")
    session.execute("SET LOCAL plan_cache_mode = force_custom_plan")
    session.execute(f"PREPARE tuned AS {statement.sql}")
    literals = ", ".join("NULL" if each is None else "'" + each.replace("'", "''") + "'" for each in values)
    return "EXECUTE tuned", f"({literals})"


def _costs_no_less(session: ControlSession, candidate: Candidate, drawn: Drawn) -> bool:
    """Whether the planner's cost speaks against an index: built in a transaction that is rolled back."""
    if not any(sql.startswith("CREATE INDEX") for sql in candidate.sql):
        return False
    touched = [each for each in drawn.statements if each.name in candidate.predicted and not each.writes]
    before = {each.name: _cost(session, each) for each in touched}
    with session.transaction(force_rollback=True):
        for sql in candidate.sql:
            session.execute(sql)
        after = {each.name: _cost(session, each) for each in touched}
    return bool(touched) and all(after[name] > COST_RATIO_MAX * before[name] for name in before)


def _cost(session: ControlSession, statement: TunedStatement) -> float:
    with session.transaction(force_rollback=True):
        values = statement.parameters[0] if statement.parameters else ()
        sql, arguments = _with_values(session, statement, values)
        row = session.execute(f"EXPLAIN (FORMAT JSON) {sql}{arguments}").fetchone()
        assert row is not None
        return float(row[0][0]["Plan"]["Total Cost"])
