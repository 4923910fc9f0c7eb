"""Generated queries on real servers: own times add up, text and JSON of one execution give equal nodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from generated_queries import PECULIAR, SCHEMA, generated
from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
VERSIONS = ("18", *(pytest.param(name, marks=pytest.mark.slow) for name in ("16", "17", "19")))
FEW, MANY = 24, 200
SETTINGS = TINY_SETTINGS | {"max_parallel_workers": "8", "max_worker_processes": "8", "fsync": "off"}
AUTO_EXPLAIN = (
    "log_analyze = on",
    "log_buffers = on",
    "log_settings = on",
    "log_level = 'NOTICE'",
    "log_timing = on",
)


class Session:
    """A session that explains: `notices` holds what auto_explain said of the same executions."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        self.notices: list[str] = []
        connection.add_notice_handler(lambda said: self.notices.append(said.message_primary or ""))
        connection.execute("LOAD 'auto_explain'")

    def explain(
        self, seed: int, *, log: str | None = None, verbose: bool = False
    ) -> tuple[ExplainedPlan, str]:
        """A seed's plan from its JSON; with `log` what auto_explain wrote of it in that format."""
        query = generated(seed)
        for statement in ("RESET ALL", *query.settings):
            self.connection.execute(statement)
        if log:
            for setting in (*AUTO_EXPLAIN, f"log_format = '{log}'", f"log_verbose = {verbose}"):
                self.connection.execute(f"SET auto_explain.{setting}")
            self.connection.execute("SET auto_explain.log_min_duration = 0")
        self.notices.clear()
        words = "ANALYZE, BUFFERS, SETTINGS, FORMAT JSON" + (", VERBOSE" if verbose else "")
        row = self.connection.execute(f"EXPLAIN ({words}) {query.query}").fetchone()
        assert row is not None
        plans = read_plans(json.dumps(row[0]), f"seed {seed}")
        logged = [notice for notice in self.notices if "plan:" in notice and f"({words})" in notice]
        return plans[0], logged[-1] if log else ""


@pytest.fixture(scope="module", params=VERSIONS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """A server of each version with the tables of the generated queries."""
    try:
        build = resolve(request.param)
    except UsageError as error:
        pytest.skip(str(error))
    with own_home() as home:
        server = Server(build, empty_cluster(build, Path(home) / "data" / "explain"), SETTINGS)
        server.start()
        try:
            with control(server) as connection:
                connection.autocommit = True
                for statement in SCHEMA.split(";\n"):
                    if statement.strip():
                        connection.execute(statement)
                yield Session(connection)
        finally:
            server.stop()


def check_times(plans: list[ExplainedPlan]) -> None:
    """Own times add up to the top node's; what is left of all statements is small; few contradict themselves.

    The machine is shared: a leader that loses its processor between two calls of a Gather makes that Gather's
    time shorter than its workers'. So single plans may contradict themselves, and all together may not.
    """
    for plan in plans:
        top = plan.nodes[0].total_ms or 0.0
        own = sum(node.own_ms or 0.0 for node in plan.nodes)
        assert own == pytest.approx(top, rel=1e-6, abs=1e-3)
        assert plan.nodes_ms == pytest.approx(own)
        assert (
            plan.execution_ms is not None
            and plan.unattributed_ms is not None
            and plan.rounding_ms is not None
        )
        assert plan.unattributed_ms == pytest.approx(plan.execution_ms - own, abs=1e-3)
        assert plan.unattributed_ms >= -0.02 * plan.execution_ms - plan.rounding_ms
    execution = sum(plan.execution_ms or 0.0 for plan in plans)
    unattributed = sum(plan.unattributed_ms or 0.0 for plan in plans)
    assert unattributed <= 0.05 * execution
    below = [
        -(node.own_ms or 0.0) - (node.rounding_ms or 0.0)
        for plan in plans
        for node in plan.nodes
        if (node.own_ms or 0.0) + (node.rounding_ms or 0.0) < 0
    ]
    assert sum(below) <= 0.02 * execution
    contradicting = [
        plan
        for plan in plans
        if any(
            (node.own_ms or 0.0) < -0.02 * (plan.execution_ms or 0.0) - (node.rounding_ms or 0.0)
            for node in plan.nodes
        )
    ]
    assert len(contradicting) <= max(1, len(plans) // 20)


def check_shapes(plans: list[ExplainedPlan]) -> None:
    """The queries are what they are meant to be: every kind of node whose time needs a rule was run."""
    nodes = [node for plan in plans for node in plan.nodes if not node.never_executed]
    types = {node.type for node in nodes}
    assert types >= {"Gather", "CTE Scan", "Append", "Nested Loop", "Sort", "Aggregate"}
    subplans = {(node.subplan or "").split(" ")[0] for node in nodes}
    assert subplans >= {"CTE", "InitPlan", "SubPlan"}
    assert any(node.processes > 1 for node in nodes)
    assert any((node.loops or 0) > 100 for node in nodes)
    assert any(node.disk for node in nodes)


def test_own_times_add_up(session: Session) -> None:
    check_times([session.explain(seed)[0] for seed in range(FEW)])


@pytest.mark.slow
def test_own_times_of_many_plans_add_up(session: Session) -> None:
    plans = [session.explain(seed)[0] for seed in range(MANY)]
    check_times(plans)
    check_shapes(plans)


def check_equal(session: Session, seeds: range) -> None:
    for seed in seeds:
        plan, logged = session.explain(seed, log="text", verbose=seed % 3 == 0)
        (text,) = read_plans(logged, f"seed {seed}")
        assert [node.model_dump() for node in text.nodes] == [node.model_dump() for node in plan.nodes]
        assert text.settings == plan.settings
        assert text.statement and text.statement.endswith(generated(seed).query)


def test_text_and_json_of_one_execution_give_equal_nodes(session: Session) -> None:
    """auto_explain writes the text of the execution whose JSON EXPLAIN returns."""
    check_equal(session, range(FEW))
    plan, logged = session.explain(1, log="json")
    (as_json,) = read_plans(logged, "the log")
    assert as_json.nodes == plan.nodes


@pytest.mark.slow
def test_text_and_json_of_many_executions_give_equal_nodes(session: Session) -> None:
    check_equal(session, range(MANY))


@pytest.mark.parametrize("options", ["VERBOSE false", "VERBOSE", "COSTS false", "VERBOSE, COSTS false"])
def test_estimates_in_text_and_json_give_equal_nodes(session: Session, options: str) -> None:
    """Without execution both forms are the same every time: every kind of node, with costs and without."""
    session.connection.execute("RESET ALL")
    queries = [*PECULIAR, *(generated(seed).query for seed in range(FEW))]
    for query in queries:
        rows = session.connection.execute(f"EXPLAIN ({options}, FORMAT TEXT) {query}").fetchall()
        row = session.connection.execute(f"EXPLAIN ({options}, FORMAT JSON) {query}").fetchone()
        assert row is not None
        (text,) = read_plans("\n".join(each[0] for each in rows), query)
        (document,) = read_plans(json.dumps(row[0]), query)
        assert [node.model_dump() for node in text.nodes] == [node.model_dump() for node in document.nodes], (
            query
        )


def test_the_version_is_known_by_the_plan_s_form(session: Session) -> None:
    major = session.connection.info.server_version // 10000
    for seed in range(8):
        plan = session.explain(seed)[0]
        assert plan.major_min is not None and plan.major_max is not None
        assert plan.major_min <= major <= plan.major_max


def test_triggers_serialization_and_jit_of_a_real_server(session: Session) -> None:
    major = session.connection.info.server_version // 10000
    for statement in (
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (id int REFERENCES parent, value int)",
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM slow(1); RETURN "
        "NEW; END'",
        "CREATE TRIGGER before_row BEFORE INSERT ON child FOR EACH ROW EXECUTE FUNCTION touch()",
        "INSERT INTO parent SELECT generate_series(1, 2000)",
        "SET jit_above_cost = 0",
    ):
        session.connection.execute(statement)
    words = "ANALYZE, BUFFERS, WAL, VERBOSE" + (", SERIALIZE, MEMORY" if major >= 17 else "")
    insert = "INSERT INTO child SELECT i, i FROM generate_series(1, 2000) AS i"

    def explained(form: str, query: str) -> ExplainedPlan:
        rows = session.connection.execute(f"EXPLAIN ({words}, FORMAT {form}) {query}").fetchall()
        text = json.dumps(rows[0][0]) if form == "JSON" else "\n".join(row[0] for row in rows)
        return read_plans(text, form)[0]

    try:
        for form in ("TEXT", "JSON"):
            plan = explained(form, insert)
            ran = {trigger.name.split("_c_")[0]: (trigger.ran, trigger.calls) for trigger in plan.triggers}
            assert ran == {"before_row": ("within", 2000), "RI_ConstraintTrigger": ("after", 2000)}
            assert plan.nodes[0].wal_records and plan.nodes[0].wal_records >= 2000
            assert plan.triggers_ms and plan.unattributed_ms is not None
            selected = explained(form, "SELECT repeat('x', i % 100) FROM generate_series(1, 5000) AS i")
            if major >= 17:
                assert selected.serialization_kb and selected.serialization_format == "text"
                assert selected.planning_memory_used_kb
    finally:
        session.connection.execute("DROP TABLE child, parent")
        session.connection.execute("DROP FUNCTION touch")
