"""Findings that people have published of plans, on real servers: what one plan and two of them say."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.plan_comparison import beside
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SETTINGS = TINY_SETTINGS | {"max_parallel_workers_per_gather": "0", "fsync": "off", "autovacuum": "off"}
TABLES = (
    "CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
    "INSERT INTO accounts SELECT i, 1 + i % 20, (i::bigint * 7919) % 10007 - 5000, '' FROM "
    "generate_series(1, 60000) AS i",
    "CREATE INDEX accounts_bid ON accounts (bid, abalance)",
    "CREATE TABLE parts (aid int, bid int) PARTITION BY LIST (bid)",
    *(f"CREATE TABLE parts_{bid} PARTITION OF parts FOR VALUES IN ({bid})" for bid in range(1, 21)),
    "INSERT INTO parts SELECT aid, bid FROM accounts",
    "VACUUM (ANALYZE) accounts",
    "VACUUM (ANALYZE) parts",
)
SELF_JOIN = "SELECT sum(a.abalance) FROM accounts a JOIN accounts b ON a.aid = b.aid WHERE b.bid = 1"
SKIP = "SELECT aid FROM accounts WHERE abalance > 4980"


@contextmanager
def server_of(build: Build) -> "Iterator[psycopg.Connection[Any]]":
    with own_home() as home:
        server = Server(build, empty_cluster(build, Path(home) / "data" / "explain"), SETTINGS)
        server.start()
        try:
            with control(server) as connection:
                connection.autocommit = True
                for statement in TABLES:
                    connection.execute(statement)
                yield connection
        finally:
            server.stop()


@pytest.fixture(scope="module")
def servers() -> "Iterator[dict[str, psycopg.Connection[Any]]]":
    """Sessions with the same tables on 17 and 18."""
    try:
        # Before a home of their own hides those of the machine.
        builds = {version: resolve(version) for version in ("17", "18")}
    except UsageError as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        yield {version: stack.enter_context(server_of(build)) for version, build in builds.items()}


def explain(connection: "psycopg.Connection[Any]", query: str) -> ExplainedPlan:
    row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, SETTINGS, FORMAT JSON) {query}").fetchone()
    assert row is not None
    return read_plans(json.dumps(row[0]), "a server")[0]


def node(plan: ExplainedPlan, kind: str) -> PlanNode:
    return next(each for each in plan.nodes if each.type == kind)


def blocks(plan: ExplainedPlan) -> int:
    return (plan.nodes[0].buffers_hit or 0) + (plan.nodes[0].buffers_read or 0)


def test_18_does_without_the_self_join(servers: "dict[str, psycopg.Connection[Any]]") -> None:
    old, new = (explain(servers[version], SELF_JOIN) for version in ("17", "18"))
    sentences = " ".join(beside(old, new).sentences)
    assert "B drops 1 scan and 1 join" in sentences
    assert (old.major_max, new.major_min) == (17, 18)
    assert sum(each.relation == "accounts" for each in old.nodes) == 2
    assert sum(each.relation == "accounts" for each in new.nodes) == 1


def test_18_skips_through_an_index(servers: "dict[str, psycopg.Connection[Any]]") -> None:
    for connection in servers.values():
        connection.execute("SET enable_seqscan = off")
    try:
        old, new = (explain(servers[version], SKIP) for version in ("17", "18"))
    finally:
        for connection in servers.values():
            connection.execute("RESET enable_seqscan")
    searches = [each.index_searches or 0 for each in new.nodes]
    assert max(searches) > 20
    assert blocks(new) < blocks(old)
    made = beside(old, new)
    assert "descends its index" in " ".join(made.sentences)
    assert "Index Searches" in " ".join(made.notes)
    assert any(finding.kind == "index-searches" for finding in new.findings)


def test_heap_fetches_before_and_after_vacuum(servers: "dict[str, psycopg.Connection[Any]]") -> None:
    connection = servers["18"]
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET enable_bitmapscan = off")
    count = "SELECT count(abalance) FROM accounts WHERE bid = 3"
    try:
        connection.execute("UPDATE accounts SET filler = 'x' WHERE bid = 3")
        before = explain(connection, count)
        connection.execute("VACUUM accounts")
        after = explain(connection, count)
    finally:
        connection.execute("RESET enable_seqscan")
        connection.execute("RESET enable_bitmapscan")
    assert (node(before, "Index Only Scan").heap_fetches or 0) >= 3000
    assert node(after, "Index Only Scan").heap_fetches == 0
    assert any(
        "Heap fetches" in sentence and sentence.endswith("→ 0.")
        for sentence in beside(before, after).sentences
    )


def test_a_sort_fits_in_memory(servers: "dict[str, psycopg.Connection[Any]]") -> None:
    plans = []
    for work_mem in ("64kB", "64MB"):
        servers["18"].execute(f"SET work_mem = '{work_mem}'")
        plans.append(explain(servers["18"], "SELECT * FROM accounts ORDER BY filler, abalance"))
    servers["18"].execute("RESET work_mem")
    assert [node(plan, "Sort").disk for plan in plans] == [True, False]
    sentences = beside(*plans).sentences
    assert any("fits in memory in B: external merge" in sentence for sentence in sentences)
    assert "work_mem is 64kB in A and 64MB in B." in sentences


def test_partitions_with_and_without_the_key(servers: "dict[str, psycopg.Connection[Any]]") -> None:
    whole = explain(servers["18"], "SELECT count(*) FROM parts WHERE aid % 20 = 0")
    one = explain(servers["18"], "SELECT count(*) FROM parts WHERE bid = 1 AND aid % 20 = 0")
    assert sum(each.type == "Seq Scan" for each in whole.nodes) == 20
    assert sum(each.type == "Seq Scan" for each in one.nodes) == 1
    assert any("B drops 19 scans" in sentence for sentence in beside(whole, one).sentences)
    prepared = "SELECT count(*) FROM parts WHERE bid = (SELECT 1 + count(*) FROM accounts WHERE aid < 0)"
    at_run_time = explain(servers["18"], prepared)
    assert sum(each.never_executed for each in at_run_time.nodes) == 19


def test_an_index_in_place_of_rows_thrown_away(servers: "dict[str, psycopg.Connection[Any]]") -> None:
    servers["17"].execute("SET enable_indexscan = off")
    servers["17"].execute("SET enable_bitmapscan = off")
    query = "SELECT * FROM accounts WHERE bid = 1 ORDER BY abalance DESC LIMIT 50"
    without = explain(servers["17"], query)
    servers["17"].execute("RESET ALL")
    with_index = explain(servers["17"], query)
    scan = node(without, "Seq Scan")
    assert scan.rows_removed == 57000
    assert any(finding.kind == "rows-removed" for finding in without.findings)
    assert "accounts is read differently" in " ".join(beside(without, with_index).sentences)
