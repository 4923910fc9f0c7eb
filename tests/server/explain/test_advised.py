"""Advice on plans of a real server: its SQL can be run, and the plan that called for it is gone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SETTINGS = TINY_SETTINGS | {"work_mem": "64kB", "jit": "off", "fsync": "off"}
DATA = """
CREATE TABLE customers AS SELECT n AS id, 'user' || n AS email FROM generate_series(1, 20000) n;
CREATE TABLE orders AS SELECT n AS id, n % 20000 AS customer, n % 97 AS kind FROM
generate_series(1, 400000) n;
CREATE INDEX ON orders (id);
VACUUM ANALYZE customers; VACUUM ANALYZE orders
"""


@pytest.fixture(scope="module", params=[pytest.param("17", marks=pytest.mark.slow), "18"])
def session(request: pytest.FixtureRequest) -> "Iterator[psycopg.Connection[Any]]":
    """A server of each version with customers and their orders."""
    try:
        build = resolve(request.param)
    except UsageError as error:
        pytest.skip(str(error))
    with own_home() as home:
        server = Server(build, empty_cluster(build, Path(home) / "data" / "advised"), SETTINGS)
        server.start()
        try:
            with control(server) as connection:
                connection.autocommit = True
                for statement in DATA.split(";"):
                    connection.execute(statement)
                yield connection
        finally:
            server.stop()


def plan_of(session: "psycopg.Connection[Any]", query: str, options: str = "") -> ExplainedPlan:
    rows = session.execute(f"EXPLAIN {options} {query}").fetchall()
    (plan,) = read_plans("\n".join(row[0] for row in rows), "a server")
    return plan


def test_what_is_advised_for_an_estimate(session: Any) -> None:
    not_in = plan_of(session, "SELECT * FROM customers WHERE id NOT IN (SELECT customer FROM orders)")
    assert {each.kind for each in not_in.findings} >= {"subplan"}
    assert "NOT EXISTS" in not_in.advice[0].sentence
    deep = plan_of(session, "SELECT * FROM orders ORDER BY id OFFSET 200000 LIMIT 20")
    assert "keyset" in deep.advice[0].sentence
    (finding,) = (each for each in deep.findings if each.kind == "offset")
    rows = int(finding.sentence.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert 190_000 < rows < 210_000


def test_the_index_that_is_advised_takes_the_plan_away(session: Any) -> None:
    query = "SELECT * FROM orders WHERE customer = 4711 AND kind < 50"
    session.execute("DROP INDEX IF EXISTS orders_customer_kind_idx")
    for options in ("", "(ANALYZE)"):
        before = plan_of(session, query, options)
        assert before.advice[0].kind == "index"
        assert before.advice[0].sql == "CREATE INDEX CONCURRENTLY ON orders (customer, kind);"
    session.execute(str(before.advice[0].sql))
    after = plan_of(session, query, "(ANALYZE)")
    assert not any(node.type == "Seq Scan" for node in after.nodes)
    assert [each.kind for each in after.advice] == ["nothing"]
