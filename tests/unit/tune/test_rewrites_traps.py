"""Statements that look as if a rewrite were right for them: each shows one way in which it would not be."""

import pytest

from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.schema import FunctionFacts, SchemaFacts
from pgassay.tune.rewrites.registry import rewrites
from rewrites.made_facts import FACTS, ORDERS, REGION, table, with_table

MEASURED = table("measured", "id bigint!, share double precision!, price numeric, order_id integer", "id")
WIDE = FACTS.model_copy(update={"tables": (*FACTS.tables, MEASURED)})
AROUND = "aggregates columns of the statement around"
OF_ORDERS = "FROM orders o WHERE o.customer_id = c.id"
AFTER = "FROM orders o WHERE o.id > c.id"


def offers(sql: str, kind: str, facts: SchemaFacts = WIDE) -> list[tuple[str, str]]:
    """The texts that a rewrite offers, each with its proof."""
    made = rewrites(TunedStatement(name="q", sql=sql), facts)
    return [(one.sql, one.proof) for one in made.found if one.kind == kind]


def refused(sql: str, kind: str, facts: SchemaFacts = WIDE) -> str:
    """Why a rewrite is refused; fails when it is offered after all."""
    assert not offers(sql, kind, facts)
    made = rewrites(TunedStatement(name="q", sql=sql), facts)
    return "; ".join(one.reason for one in made.refused if one.kind == kind)


@pytest.mark.parametrize(
    ("kind", "sql", "reason"),
    [
        # ROLLUP puts NULL where the column is declared NOT NULL.
        (
            "not-in",
            "SELECT id, id NOT IN (SELECT customer_id FROM orders) FROM customer GROUP BY ROLLUP (id)",
            "customer.id may be NULL",
        ),
        (
            "not-in",
            "SELECT region_id FROM customer WHERE region_id IS NOT NULL GROUP BY CUBE (region_id) "
            "HAVING region_id NOT IN (SELECT id FROM region)",
            "customer.region_id may be NULL",
        ),
        # An aggregate of columns around its subquery makes the statement around it one group.
        (
            "count-exists",
            "SELECT (SELECT count(c.id) FROM orders o) > 0 FROM customer c",
            AROUND,
        ),
        (
            "scalar-subquery",
            f"SELECT (SELECT (SELECT sum(r.id) {OF_ORDERS}) FROM customer c WHERE c.id = 1) FROM region r",
            AROUND,
        ),
        (
            "aggregate-before-join",
            "SELECT (SELECT count(r.id) FROM customer c LEFT JOIN orders o ON o.customer_id = c.id "
            "WHERE c.id = 1 GROUP BY c.id) FROM region r",
            AROUND,
        ),
        (
            "or-union",
            "SELECT (SELECT count(c.id) FROM region r WHERE r.id = 1) FROM customer c WHERE c.id = 1 OR "
            "c.region_id = 2",
            AROUND,
        ),
        # A window and a set look at, or make, rows of the SELECT that they come to stand in.
        (
            "scalar-subquery",
            f"SELECT c.id, (SELECT sum(count(*)) OVER () {OF_ORDERS}) FROM customer c",
            "looks at the rows",
        ),
        (
            "scalar-subquery",
            f"SELECT c.id, (SELECT generate_series(1, count(*)) {OF_ORDERS}) FROM customer c",
            "returns a set",
        ),
        (
            "lateral",
            f"SELECT (SELECT generate_series(1, count(*)) {AFTER}), (SELECT count(*) {AFTER}) "
            "FROM customer c",
            "returns a set",
        ),
        # Errors for rows that nobody asked for, or none for rows that somebody did.
        (
            "lateral",
            f"SELECT CASE WHEN c.id < 5 THEN (SELECT 100 / count(*) {AFTER}) END, (SELECT count(*) {AFTER}) "
            "FROM customer c",
            "can raise an error",
        ),
        (
            "scalar-subquery",
            "SELECT c.id FROM customer c JOIN region r ON r.id = c.region_id "
            f"WHERE r.id > (SELECT 100 / count(*) {OF_ORDERS})",
            "can raise an error",
        ),
        (
            "count-exists",
            f"SELECT c.id FROM customer c WHERE (SELECT count(*) {OF_ORDERS} AND 1 / o.id > 0) > 0",
            "can raise an error",
        ),
        (
            "count-exists",
            "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM (SELECT customer_id FROM orders "
            "WHERE 1 / id > 0) o WHERE o.customer_id = c.id) > 0",
            "can raise an error",
        ),
        (
            "count-exists",
            f"SELECT c.id FROM customer c WHERE (SELECT count(o.id ORDER BY 1 / o.id) {OF_ORDERS}) > 0",
            "order of its own",
        ),
        (
            "not-in",
            "SELECT id FROM customer c WHERE id NOT IN (SELECT o.customer_id FROM orders o "
            "WHERE 1 / (o.id - c.id) > 0)",
            "can raise an error",
        ),
        (
            "not-in",
            "WITH x AS (SELECT customer_id FROM orders WHERE 1 / id > 0) SELECT id FROM customer "
            "WHERE id NOT IN (SELECT customer_id FROM x)",
            "can raise an error",
        ),
        (
            "scalar-subquery",
            f"SELECT (SELECT max(o.id ORDER BY 1 / o.id) {OF_ORDERS}) FROM customer c",
            "can raise an error",
        ),
        # Not every numeric fits in a float.
        (
            "distinct-exists",
            "SELECT DISTINCT c.id FROM customer c JOIN orders o ON o.customer_id = c.id "
            "AND o.amount < o.weight",
            "can raise an error",
        ),
        # A float is equal to several big integers, so it fixes none; and USING merges the two in a float.
        (
            "aggregate-before-join",
            "SELECT m.id, count(o.id) FROM measured m JOIN measured n ON n.id = m.share JOIN orders o "
            "ON o.customer_id = m.order_id GROUP BY m.id",
            "no key",
        ),
        (
            "not-in",
            "SELECT m.id FROM measured m JOIN (SELECT share AS id FROM measured) n USING (id) "
            "WHERE id NOT IN (SELECT k.id FROM measured k)",
            "merged column",
        ),
        # Which of 1.0 and 1.00 is the least depends on the order of the rows.
        (
            "aggregate-before-join",
            "SELECT c.id, min(o.amount) FROM customer c JOIN orders o ON o.customer_id = c.id GROUP BY c.id",
            "several scales",
        ),
        (
            "scalar-subquery",
            "SELECT c.id, (SELECT max(m.price) FROM measured m WHERE m.order_id = c.id) FROM customer c",
            "several scales",
        ),
        (
            "not-in",
            "SELECT DISTINCT price FROM measured WHERE id NOT IN (SELECT id FROM region)",
            "left open",
        ),
        # A row is compared with a subquery by columns; COLLATE counts for more than a column's collation.
        (
            "scalar-subquery",
            f"SELECT ROW(c.id) = (SELECT max(o.id) {OF_ORDERS}) FROM customer c",
            "a row is compared",
        ),
        (
            "scalar-subquery",
            f'SELECT (SELECT max(o.status COLLATE "C") {OF_ORDERS}) < c.name FROM customer c',
            "COLLATE",
        ),
        # A function in FROM has its own name there.
        (
            "not-in",
            "SELECT generate_series.id FROM customer generate_series WHERE generate_series.id NOT IN "
            "(SELECT o.customer_id FROM orders o, generate_series(1, 3))",
            "means something else",
        ),
        (
            "or-union",
            "SELECT rank(3) WITHIN GROUP (ORDER BY id) FROM orders WHERE status = 'a' OR id = 2",
            "grouped",
        ),
    ],
)
def test_traps_are_seen(kind: str, sql: str, reason: str) -> None:
    assert reason in refused(sql, kind)


@pytest.mark.parametrize(
    "sql",
    [
        # In x, customer is the table: the CTE of its name stands behind it.
        "WITH x AS (SELECT region_id FROM customer), customer AS (SELECT id AS region_id FROM orders) "
        "SELECT id FROM region WHERE id NOT IN (SELECT region_id FROM x)",
        # The inner orders reads the outer one, and not the table.
        "WITH orders AS (SELECT region_id FROM customer) SELECT id FROM region WHERE id IN (WITH orders AS "
        "(SELECT region_id FROM orders) SELECT r.id FROM region r WHERE r.id NOT IN (SELECT region_id FROM "
        "orders))",
        "SELECT id FROM region WHERE id NOT IN (SELECT x.id FROM (SELECT c.* FROM customer c GROUP BY ROLLUP "
        "(c.id, c.name, c.region_id, c.joined, c.seen)) x)",
    ],
)
def test_nulls_of_a_hidden_name_or_of_rollup_are_written_out(sql: str) -> None:
    ((made, _),) = offers(sql, "not-in")
    assert "IS NULL" in made


@pytest.mark.parametrize("kind", ["lateral", "scalar-subquery"])
def test_one_expression_stays_one_under_distinct(kind: str) -> None:
    value = f"(SELECT max(o.id) {OF_ORDERS})"
    ((made, _),) = offers(f"SELECT DISTINCT {value} AS a FROM customer c ORDER BY {value}", kind)
    assert "value_1 AS a" in made and made.endswith("value_1") and "value_2" not in made


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (
            "aggregate-before-join",
            "SELECT c.id FROM customer c JOIN orders o ON o.customer_id = c.id GROUP BY c.id "
            "HAVING sum(o.id) + 1 > 0",
        ),
        ("scalar-subquery", f"SELECT c.id FROM customer c WHERE c.id > (SELECT max(o.id) + 1 {OF_ORDERS})"),
        (
            "count-exists",
            f"SELECT c.id FROM customer c WHERE (SELECT count(*) {OF_ORDERS} AND o.id + 1 > 0) > 0",
        ),
        (
            "not-in",
            "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders WHERE id + 1 > 0)",
        ),
    ],
)
def test_what_can_only_overflow_is_left_to_the_test(kind: str, sql: str) -> None:
    assert [proof for _, proof in offers(sql, kind)] == ["by test"]


def test_safe_casts_and_rounding_raise_no_error() -> None:
    not_in = (
        "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders WHERE placed::date = $1)"
    )
    assert [proof for _, proof in offers(not_in, "not-in")] == ["proven"]
    assert not offers(not_in.replace("placed::date = $1", "status::int = $1"), "not-in")
    rounded = f"SELECT (SELECT round(avg(o.id), 2) {AFTER}), (SELECT count(*) {AFTER}) FROM customer c"
    assert offers(rounded, "lateral")


def test_a_number_of_one_scale_has_no_twin() -> None:
    columns = tuple(
        one.model_copy(update={"type": "numeric(10,2)"}) if one.name == "amount" else one
        for one in ORDERS.columns
    )
    facts = with_table(ORDERS.model_copy(update={"columns": columns}))
    least = f"SELECT c.id, (SELECT min(o.amount * 2) {OF_ORDERS}) FROM customer c"
    assert offers(least, "scalar-subquery", facts)
    assert "several scales" in refused(
        least.replace("o.amount * 2", "coalesce(o.amount, 0)"), "scalar-subquery", facts
    )
    by_key = "SELECT id, price, count(*) FROM measured WHERE id NOT IN (SELECT id FROM region) GROUP BY 1, 2"
    assert offers(by_key, "not-in")


def test_what_users_made_is_not_taken_for_what_is_postgresql_s_own() -> None:
    def knowing(*functions: FunctionFacts) -> SchemaFacts:
        return WIDE.model_copy(update={"functions": functions})

    def made(name: str, arguments: str, **fields: object) -> FunctionFacts:
        known = {"schema_": "public", "name": name, "arguments": arguments, "volatility": "i"}
        return FunctionFacts.model_validate(known | fields)

    counted = f"SELECT c.id FROM customer c WHERE (SELECT count(o.id) {OF_ORDERS}) > 0"
    own = knowing(made("count", "integer", kind="a"))
    assert "another than PostgreSQL's own" in refused(counted, "count-exists", own)
    elsewhere = knowing(made("count", "integer", kind="a", schema_="mine"))
    assert offers(counted, "count-exists", elsewhere)
    assert not offers(counted.replace("count(", "mine.count("), "count-exists", elsewhere)
    # An extension's, for a type of its own, is not meant by a column of another type.
    assert offers(counted, "count-exists", knowing(made("count", "citext", kind="a")))
    summed = "SELECT total(id) FROM orders WHERE status = 'a' OR id = 3"
    assert "aggregate" in refused(summed, "or-union", knowing(made("total", "integer", kind="a")))
    rows = f"SELECT (SELECT rows_of(count(*)) {OF_ORDERS}) FROM customer c"
    several = knowing(made("rows_of", "bigint", returns_set=True))
    assert "returns a set" in refused(rows, "scalar-subquery", several)
    assert offers(rows, "scalar-subquery", knowing(made("rows_of", "bigint")))


def test_a_foreign_partition_keeps_no_promise() -> None:
    sql = "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders)"
    parted = with_table(ORDERS.model_copy(update={"kind": "partitioned"}))
    assert offers(sql, "not-in", parted)
    middle = ORDERS.model_copy(update={"name": "orders_old", "kind": "partitioned", "parent": "orders"})
    far = ORDERS.model_copy(update={"name": "orders_far", "kind": "foreign", "parent": "orders_old"})
    facts = parted.model_copy(update={"tables": (*parted.tables, middle, far)})
    assert "has a foreign partition" in refused(sql, "not-in", facts)


def test_a_column_that_is_computed_when_read_may_fail() -> None:
    computed = REGION.columns[0].model_copy(update={"name": "share", "generated": True, "computed": True})
    facts = with_table(REGION.model_copy(update={"columns": (*REGION.columns, computed)}))
    looked_up = "SELECT (SELECT r.share FROM region r WHERE r.id = c.region_id) FROM customer c"
    assert "can raise an error" in refused(looked_up, "scalar-subquery", facts)
    assert offers(looked_up.replace("r.share", "r.name"), "scalar-subquery", facts)


NOT_IN = "c.id NOT IN (SELECT customer_id FROM orders)"
NEWEST = "LATERAL (SELECT max(o.id) AS m FROM orders o WHERE o.id > c.id) s"
GROUPS = "(SELECT status AS k FROM orders GROUP BY status) s ON s.k <> c.name"


@pytest.mark.parametrize(
    ("read", "order", "decided"),
    [
        (f"CROSS JOIN {NEWEST}", "c.id", True),
        (f"LEFT JOIN {NEWEST} ON true", "c.id", True),
        ("CROSS JOIN LATERAL (SELECT o.id FROM orders o ORDER BY o.id LIMIT 1) s", "c.id", True),
        ("CROSS JOIN LATERAL (SELECT c.id + 1 AS n) s", "c.id", True),
        ("CROSS JOIN (SELECT max(id) AS m FROM orders) s", "c.id", True),
        (f"JOIN {GROUPS}", "c.id, k", True),
        ("LEFT JOIN (SELECT id AS k FROM orders GROUP BY id) s ON s.k = c.region_id", "c.id", True),
        (f"JOIN {GROUPS}", "c.id", False),
        # One row for each customer, and a group of each customer's.
        (f"CROSS JOIN {NEWEST}", "m", False),
        ("CROSS JOIN LATERAL (SELECT o.id AS k FROM orders o WHERE o.id > c.id GROUP BY 1) s", "k", False),
        ("CROSS JOIN LATERAL (SELECT o.id AS k FROM orders o WHERE o.id > c.id GROUP BY id) s", "k", False),
        ("CROSS JOIN LATERAL (SELECT id AS k FROM orders WHERE id > c.id GROUP BY id) s", "k", False),
        # The number is a place, and no output; two rows for one.
        ("CROSS JOIN (SELECT status, 1 AS k FROM orders GROUP BY 1) s", "c.id, k", False),
        ("CROSS JOIN (SELECT generate_series(1, max(id)) AS k FROM orders) s", "c.id", False),
        ("CROSS JOIN (SELECT id FROM orders LIMIT 2) s", "c.id", False),
        # Beside a customer of no match it is empty.
        ("FULL JOIN (SELECT max(id) AS m FROM orders) s ON s.m = c.id", "c.region_id", False),
    ],
)
def test_an_order_is_total_beside_a_subquery_of_one_row_or_of_groups(
    read: str, order: str, decided: bool
) -> None:
    sql = f"SELECT c.id FROM customer c {read} WHERE {NOT_IN} ORDER BY {order} LIMIT 3"
    if decided:
        assert offers(sql, "not-in")
    else:
        assert "an order that is total" in refused(sql, "not-in")


def test_an_array_is_written_wherever_it_stands() -> None:
    ((made, _),) = offers(f"SELECT ARRAY[c.id, 2] FROM customer c WHERE {NOT_IN}", "not-in")
    assert "ARRAY[c.id, 2]" in made


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("aggregate-before-join", "sum(DISTINCT {}.price)"),
        ("scalar-subquery", "avg(DISTINCT {}.price)"),
        ("lateral", "sum(DISTINCT {}.price)"),
        ("lateral", "array_agg({0}.price ORDER BY {0}.price)"),
    ],
)
def test_an_aggregate_that_keeps_one_of_several_equal_values_is_not_moved(kind: str, call: str) -> None:
    """Of 1.0 and 1.00 the first that comes is kept, and the sum has its digits."""
    sql = {
        "aggregate-before-join": "SELECT c.id, {} FROM customer c JOIN measured m ON m.order_id = c.id "
        "GROUP BY c.id",
        "scalar-subquery": "SELECT c.id, (SELECT {} FROM measured m WHERE m.order_id = c.id) FROM customer c",
        "lateral": "SELECT (SELECT {} FROM measured m WHERE m.id > c.id), (SELECT count(*) FROM measured m "
        "WHERE m.id > c.id) FROM customer c",
    }[kind].format(call.format("m"))
    assert "depends on the order of its rows" in refused(sql, kind)
    # Whole numbers have one spelling.
    assert offers(sql.replace("price", "order_id"), kind)
    assert kind == "lateral" or offers(sql.replace("DISTINCT ", ""), kind)


def test_distinct_on_names_what_order_by_names() -> None:
    """PostgreSQL refuses DISTINCT ON of other expressions than those that ORDER BY begins with."""
    newest = "(SELECT max(o.id) FROM orders o WHERE o.customer_id = c.id)"
    sql = f"SELECT DISTINCT ON ({newest}) c.id FROM customer c ORDER BY {newest}, c.id"
    ((made, _),) = offers(sql, "scalar-subquery")
    assert "DISTINCT ON (looked_up_1_1.looked_up_1_1_value_1)" in made
    most, least = (f"(SELECT {name}(o.id) {AFTER})" for name in ("max", "min"))
    sql = f"SELECT DISTINCT ON ({most}) {least} FROM customer c ORDER BY {most}, c.id"
    ((made, _),) = offers(sql, "lateral")
    assert made.count("max(") == 1 and "DISTINCT ON (looked_up_1_1.looked_up_1_1_value_" in made
