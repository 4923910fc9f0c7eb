"""Rewrites by facts alone: what is offered, as which text, and what refuses it."""

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.schema import (
    ColumnFacts,
    ConstraintFacts,
    FunctionFacts,
    IndexKey,
    SchemaFacts,
    TableFacts,
)
from pgassay.tune.rewrites.registry import KINDS, Rewritten, rewrites
from pgassay.tune.rewrites.tree import RefusedError, meaning, read, write
from rewrites.made_facts import CUSTOMER, FACTS, ORDERS, with_key, with_table
from rewrites.random_queries import Drawn

NOT_IN = "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders)"
GROUPED = "SELECT c.id, sum(o.amount) FROM customer c JOIN orders o ON o.customer_id = c.id GROUP BY c.id"


def rewritten(sql: str, facts: SchemaFacts = FACTS) -> Rewritten:
    return rewrites(TunedStatement(name="q", sql=sql), facts)


def offered(sql: str, kind: str, facts: SchemaFacts = FACTS) -> str | None:
    """The text that a rewrite offers."""
    return next((one.sql for one in rewritten(sql, facts).found if one.kind == kind), None)


def refusal(sql: str, kind: str, facts: SchemaFacts = FACTS) -> str:
    """Why a rewrite is refused; fails when it is offered after all."""
    made = rewritten(sql, facts)
    assert kind not in {one.kind for one in made.found}
    return next(one.reason for one in made.refused if one.kind == kind)


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        (
            "not-in",
            NOT_IN,
            "SELECT id FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE customer_id = customer.id)",
        ),
        (
            "count-exists",
            "SELECT id FROM customer c WHERE 0 = (SELECT count(*) FROM orders WHERE customer_id = c.id)",
            "SELECT id FROM customer AS c WHERE NOT EXISTS (SELECT 1 FROM orders WHERE customer_id = c.id)",
        ),
        (
            "or-union",
            "SELECT id FROM orders WHERE status = 'a' OR customer_id = 3 ORDER BY id LIMIT 2",
            "SELECT id FROM orders WHERE status = 'a' UNION ALL SELECT id FROM orders WHERE customer_id = 3 "
            "AND status = 'a' IS NOT TRUE ORDER BY 1 LIMIT 2",
        ),
        (
            "distinct-exists",
            "SELECT DISTINCT c.id FROM customer c, orders o WHERE o.customer_id = c.id AND c.region_id = 1",
            "SELECT c.id FROM customer AS c WHERE c.region_id = 1 AND EXISTS (SELECT 1 FROM orders AS o "
            "WHERE o.customer_id = c.id)",
        ),
        (
            "union-all",
            "SELECT id, 1 FROM customer UNION SELECT id, 2 FROM orders",
            "SELECT id, 1 FROM customer UNION ALL SELECT id, 2 FROM orders",
        ),
        (
            "function-range",
            "SELECT id FROM orders WHERE date_trunc('quarter', placed) = '2024-10-01'",
            "SELECT id FROM orders WHERE placed >= '2024-10-01 00:00:00'::timestamp AND "
            "placed < '2025-01-01 00:00:00'::timestamp",
        ),
        ("implicit-cast", "SELECT 1 FROM orders WHERE id <= -2.5", "SELECT 1 FROM orders WHERE id <= -3"),
        (
            "cte-materialized",
            "WITH x AS MATERIALIZED (SELECT id FROM orders) SELECT id FROM x WHERE id = 1",
            "WITH x AS NOT MATERIALIZED (SELECT id FROM orders) SELECT id FROM x WHERE id = 1",
        ),
        (
            "aggregate-before-join",
            GROUPED,
            "SELECT c.id, summed_1.summed_1_value_1 AS sum FROM customer AS c INNER JOIN (SELECT "
            "o.customer_id "
            "AS summed_1_key_1, sum(o.amount) AS summed_1_value_1 FROM orders AS o GROUP BY "
            "o.customer_id) AS "
            "summed_1 ON summed_1.summed_1_key_1 = c.id",
        ),
        (
            "lateral",
            "SELECT c.id, (SELECT min(o.id) FROM orders o WHERE o.customer_id > c.id) AS first, (SELECT "
            "count(*) FROM orders o WHERE o.customer_id > c.id) FROM customer c",
            "SELECT c.id, looked_up_1_1.looked_up_1_1_value_1 AS first, looked_up_1_1.looked_up_1_1_value_2 "
            "AS count FROM customer AS c LEFT JOIN LATERAL (SELECT min(o.id) AS looked_up_1_1_value_1, "
            "count(*) AS looked_up_1_1_value_2 FROM orders AS o WHERE o.customer_id > c.id) AS looked_up_1_1 "
            "ON TRUE",
        ),
        (
            "scalar-subquery",
            "SELECT o.id, (SELECT c.name FROM customer c WHERE c.id = o.customer_id) FROM orders o",
            "SELECT o.id, looked_up_1_1.looked_up_1_1_value_1 AS name FROM orders AS o LEFT JOIN "
            "(SELECT c.id "
            "AS looked_up_1_1_key_1, c.name AS looked_up_1_1_value_1 FROM customer AS c) AS looked_up_1_1 "
            "ON looked_up_1_1.looked_up_1_1_key_1 = o.customer_id",
        ),
    ],
)
def test_each_rewrite_is_written(kind: str, sql: str, expected: str) -> None:
    assert offered(sql, kind) == expected


def test_every_kind_has_its_case_and_its_row_in_the_guide() -> None:
    guide = Path(__file__).resolve().parents[3] / "docs" / "tune-rewrites.md"
    section = guide.read_text("utf-8").split("\n## ")[1]
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(KINDS)
    marks = test_each_rewrite_is_written.pytestmark  # type: ignore[attr-defined]  # pytest puts it there
    assert {case[0] for case in marks[0].args[1]} == set(KINDS)


NO_KEY = {
    "not valid": with_key(valid=False),
    "checked late": with_key(immediate=False),
    "partial": with_key(predicate="region_id = 1"),
    "not unique": with_key(unique=False),
    "of an expression": with_key(keys=(IndexKey(column=None, expression="abs(id)"),)),
    "of another operator class": with_key(keys=(IndexKey(column="id", default_opclass=False),)),
    "of another collation": with_key(keys=(IndexKey(column="id", collation="C"),)),
    "of two columns": with_key(keys=(IndexKey(column="id"), IndexKey(column="name"))),
    "of a constraint that is not enforced": with_table(
        CUSTOMER.model_copy(
            update={
                "constraints": (
                    ConstraintFacts(name="customer_id", kind="unique", columns=("id",), enforced=False),
                )
            }
        )
    ),
    "of a column that may be NULL": with_table(
        CUSTOMER.model_copy(
            update={
                "columns": (CUSTOMER.columns[0].model_copy(update={"not_null": False}), *CUSTOMER.columns[1:])
            }
        )
    ),
    "of a column whose NOT NULL is not validated": with_table(
        CUSTOMER.model_copy(
            update={
                "constraints": (ConstraintFacts(name="n", kind="not null", columns=("id",), valid=False),)
            }
        )
    ),
}


@pytest.mark.parametrize("facts", NO_KEY.values(), ids=NO_KEY)
def test_a_key_counts_only_when_it_holds(facts: SchemaFacts) -> None:
    assert offered(GROUPED, "aggregate-before-join") is not None
    assert "GROUP BY has no key" in refusal(GROUPED, "aggregate-before-join", facts)


def test_nulls_not_distinct_makes_a_nullable_key_a_key() -> None:
    columns = (CUSTOMER.columns[0].model_copy(update={"not_null": False}), *CUSTOMER.columns[1:])
    index = CUSTOMER.indexes[0].model_copy(update={"nulls_not_distinct": True})
    facts = with_table(CUSTOMER.model_copy(update={"columns": columns, "indexes": (index,)}))
    assert offered(GROUPED, "aggregate-before-join", facts) is not None


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (ORDERS.model_copy(update={"row_security": True}), "orders has row security"),
        (ORDERS.model_copy(update={"has_rules": True}), "orders has rules"),
        (ORDERS.model_copy(update={"inherited": True}), "orders has tables that inherit from it"),
        (ORDERS.model_copy(update={"kind": "view"}), "orders is a view"),
        (ORDERS.model_copy(update={"kind": "foreign"}), "orders is a foreign table"),
    ],
)
def test_tables_whose_facts_prove_nothing(table: TableFacts, reason: str) -> None:
    assert refusal(NOT_IN, "not-in", with_table(table)) == reason


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"{NOT_IN} LIMIT 3", "LIMIT or OFFSET without an order that is total"),
        (f"{NOT_IN} ORDER BY name FETCH FIRST 3 ROWS WITH TIES", "without an order that is total"),
        (f"{NOT_IN} FOR UPDATE", "locks rows"),
        (f"{NOT_IN} AND joined < now()", "another value at each run"),
        (f"{NOT_IN} AND joined < current_timestamp", "time or the user"),
        (f"{NOT_IN} AND joined < 'today'", "means the time of its run"),
        (f"{NOT_IN} AND mine(id) = 1", "not known to be immutable"),
        (f"{NOT_IN} AND id OPERATOR(mine.=) 3", "operator mine.="),
        (f"{NOT_IN} AND id ### 3", "operator ###"),
        (f"{NOT_IN} AND ctid IS NOT NULL", "system column"),
        (NOT_IN.replace("FROM orders", "FROM orders TABLESAMPLE system (10)"), "by chance"),
        ("WITH d AS (DELETE FROM region RETURNING id) " + NOT_IN, "changes data"),
        (NOT_IN.replace("SELECT id", "SELECT row_number() OVER (ORDER BY name), id"), "row_number()"),
        (NOT_IN.replace("SELECT id", "SELECT array_agg(id)"), "array_agg() without an order"),
        (NOT_IN.replace("SELECT id", "SELECT any_value(id)"), "any_value()"),
        (NOT_IN.replace("SELECT id", "SELECT DISTINCT ON (name) id"), "DISTINCT ON"),
    ],
)
def test_statements_that_the_data_do_not_decide(sql: str, reason: str) -> None:
    assert reason in refusal(sql, "not-in")


def test_functions_of_the_user_are_judged_by_their_volatility() -> None:
    sql = f"{NOT_IN} AND mine(id) = 1"
    for volatility, expected in (("i", True), ("s", True), ("v", False)):
        function = FunctionFacts(schema_="public", name="mine", arguments="integer", volatility=volatility)
        facts = FACTS.model_copy(update={"functions": (function,)})
        assert (offered(sql, "not-in", facts) is not None) == expected
    # One that has the name of a function of PostgreSQL's may be the one that is called.
    shadow = FunctionFacts(schema_="public", name="abs", arguments="integer", volatility="v")
    facts = FACTS.model_copy(update={"functions": (shadow,)})
    assert refusal(f"{NOT_IN} AND abs(id) = 1", "not-in", facts) == "abs() is volatile"
    assert offered(f"{NOT_IN} AND pg_catalog.abs(id) = 1", "not-in", facts) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.id FROM region o WHERE o.id NOT IN (SELECT o.customer_id FROM orders o)",
        "SELECT id FROM customer WHERE (SELECT 1) NOT IN (SELECT customer_id FROM orders)",
        "SELECT c.id FROM customer c NATURAL JOIN region r WHERE id NOT IN (SELECT customer_id FROM orders)",
        "SELECT c.id FROM customer c (id, b) WHERE id NOT IN (SELECT customer_id FROM orders)",
        "SELECT 1 FROM generate_series(1, 3) g (id) WHERE id NOT IN (SELECT customer_id FROM orders)",
        "SELECT 1 FROM elsewhere.customer WHERE id NOT IN (SELECT customer_id FROM orders)",
        "SELECT 1 FROM pg_class WHERE oid NOT IN (SELECT customer_id FROM orders)",
    ],
)
def test_names_that_are_in_doubt_or_mean_something_else(sql: str) -> None:
    assert offered(sql, "not-in") is None


def test_a_cte_hides_the_table_of_its_name() -> None:
    sql = offered("WITH orders AS (SELECT region_id AS customer_id FROM customer) " + NOT_IN, "not-in")
    assert sql is not None and "customer_id IS NULL" in sql


def test_nulls_are_written_out_in_where_alone() -> None:
    sql = "SELECT id FROM customer WHERE region_id NOT IN (SELECT region_id FROM customer)"
    assert (
        offered(sql.replace("(SELECT", "(SELECT i.").replace("FROM customer)", "FROM customer i)"), "not-in")
    ) == (
        "SELECT id FROM customer WHERE NOT EXISTS (SELECT 1 FROM customer AS i "
        "WHERE i.region_id = customer.region_id) AND NOT EXISTS (SELECT 1 FROM customer AS i "
        "WHERE i.region_id IS NULL) AND (region_id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM customer AS i))"
    )
    output = "SELECT region_id NOT IN (SELECT id FROM region) FROM customer"
    assert refusal(output, "not-in").startswith("customer.region_id may be NULL")


def test_a_parameter_in_several_places_keeps_its_place() -> None:
    sql = GROUPED.replace(" GROUP", " WHERE c.region_id = $1 AND o.amount > $1 GROUP")
    assert "$1 stands in several places" in refusal(sql, "aggregate-before-join")
    assert offered(sql.replace("o.amount > $1", "o.amount > $2"), "aggregate-before-join") is not None


def test_conditions_that_may_fail_are_not_moved() -> None:
    having = f"{GROUPED} HAVING 10 / (count(*) - 2) > 1"
    assert "HAVING can raise an error" in refusal(having, "aggregate-before-join")
    scalar = (
        "SELECT c.id FROM customer c WHERE 1 / (SELECT sum(o.amount) FROM orders o "
        "WHERE o.customer_id = c.id) > 1"
    )
    assert "can raise an error" in refusal(scalar, "scalar-subquery")
    divided = GROUPED.replace("sum(o.amount)", "sum(1 / o.amount)")
    assert "can raise an error" in refusal(divided, "aggregate-before-join")


def test_recursion_is_left_alone() -> None:
    sql = "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT DISTINCT 2 FROM r) SELECT n FROM r"
    assert "WITH RECURSIVE" in refusal(sql, "union-all")


def test_a_column_of_using_is_the_left_one_s() -> None:
    sql = "SELECT id FROM customer JOIN region USING (id) WHERE id NOT IN (SELECT customer_id FROM orders)"
    assert "customer_id = customer.id" in (offered(sql, "not-in") or "")
    assert offered(sql.replace("JOIN", "FULL JOIN"), "not-in") is None


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC", True), ("Etc/UTC", True), ("Europe/Berlin", False), ("America/Havana", False)],
)
def test_the_day_of_a_moment_is_a_range_in_utc_only(zone: str, expected: bool) -> None:
    facts = FACTS.model_copy(update={"time_zone": zone})
    sql = "SELECT id FROM customer WHERE seen::date = '2024-05-05'"
    assert (offered(sql, "function-range", facts) is not None) == expected
    plain = sql.replace("seen", "joined")
    assert offered(plain, "function-range", facts) is not None
    utc = sql.replace("seen::date", "(seen AT TIME ZONE 'UTC')::date")
    assert "+00" in (offered(utc, "function-range", facts) or "")


def test_a_blind_collation_is_refused() -> None:
    blind = ColumnFacts(name="name", type="text", not_null=True, collation="blind", deterministic=False)
    columns = tuple(blind if one.name == "name" else one for one in CUSTOMER.columns)
    facts = with_table(CUSTOMER.model_copy(update={"columns": columns}))
    sql = "SELECT DISTINCT c.name FROM customer c JOIN orders o ON o.customer_id = c.id"
    assert offered(sql, "distinct-exists") is not None
    assert "equal texts of name" in refusal(sql, "distinct-exists", facts)


def test_what_the_client_sees_keeps_its_names() -> None:
    sql = "SELECT (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) > 0 FROM customer c"
    assert 'AS "?column?"' in (offered(sql, "count-exists") or "")
    cast = "SELECT (SELECT c.name FROM customer c WHERE c.id = o.customer_id)::text FROM orders o"
    assert "AS name" in (offered(cast, "scalar-subquery") or "")


def test_a_deep_offset_is_described_and_never_done() -> None:
    made = rewritten("SELECT id FROM orders ORDER BY placed DESC, id LIMIT 10 OFFSET 5000")
    assert not made.found
    assert [one.kind for one in made.described] == ["keyset"]
    assert "placed, id" in made.described[0].text
    assert not rewritten("SELECT id FROM orders ORDER BY id LIMIT 10 OFFSET 10").described


def test_what_is_no_select_has_no_rewrite() -> None:
    for sql in ("", "SELECT", "SELECT 1; SELECT 2", "UPDATE orders SET id = 1", "(" * 500):
        assert not rewritten(sql).found


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_random_queries_are_read_and_written_without_loss(chance: Random) -> None:
    sql = Drawn(chance).query()
    assert meaning(read(write(read(sql)))) == meaning(read(sql))
    for one in rewritten(sql).found:
        assert meaning(read(one.sql)) != meaning(read(sql))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.integers(0, 300), st.text(max_size=8))
def test_text_of_any_kind_is_read_or_refused(chance: Random, place: int, inserted: str) -> None:
    sql = Drawn(chance).query()
    cut = sql[:place] + inserted + sql[place + chance.randrange(10) :]
    made = rewritten(cut)
    for one in made.found:
        try:
            read(one.sql)
        except RefusedError as error:
            pytest.fail(f"{one.sql} can't be read: {error}")
