"""Values for the parameters of normalised statements: by what they are compared with, and by statistics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.tune.facts.schema import ColumnFacts, IndexFacts, IndexKey, SchemaFacts, TableFacts
from pgassay.tune.rewrites.tree import read, write
from pgassay.tune.source.gather import out_of_path
from pgassay.tune.source.passed_on import numbers_of
from pgassay.tune.source.uses import merged, uses_of
from pgassay.tune.source.values import Drawn, NoValueError, age_bounds, draw

TENS = tuple(str(number) for number in range(0, 1001, 10))
MONTHS = tuple(f"2024-{month:02d}-01 00:00:00+00" for month in range(1, 13))


def column(name: str, kind: str, **facts: object) -> ColumnFacts:
    return ColumnFacts.model_validate({"name": name, "type": kind, "not_null": False} | facts)


ORDERS = TableFacts(
    schema_="public",
    name="orders",
    kind="table",
    columns=(
        column("id", "integer", histogram=TENS, distinct=-1),
        column("customer", "integer", common=("7", "8"), histogram=TENS),
        column("status", "text", common=("Open", "closed", "odd")),
        column("placed", "timestamp with time zone", histogram=MONTHS),
        column("total", "numeric(10,2)", histogram=TENS),
        column("document", "jsonb"),
        column("needed", "jsonb", not_null=True),
    ),
    indexes=(
        IndexFacts(
            schema_="public", name="orders_pkey", table="orders", method="btree", unique=True,
            keys=(IndexKey(column="id"),),
        ),
    ),
)  # fmt: skip
FACTS = SchemaFacts(version=180000, database="shop", encoding="UTF8", collation="C", tables=(ORDERS,))


def drawn(sql: str, *, rows: float = 3.2, ages: dict[str, str] | None = None, types: str = "text") -> Drawn:
    uses = uses_of(merged(read(sql)), FACTS)
    return draw(uses, dict.fromkeys(uses, types), rows, ages or {})


@pytest.mark.parametrize(
    ("sql", "sets"),
    [
        (
            "SELECT * FROM orders WHERE customer = $1 AND status = $2 ORDER BY placed LIMIT $3 OFFSET $4",
            (("7", "Open", "4", "0"), ("500", "odd", "4", "200")),
        ),
        ("SELECT FROM orders o WHERE $1 = o.id", (("500",), ("490",))),
        ("SELECT FROM orders WHERE id IN ($1, $2, $3)", (("500", "490", "510"), ("490", "510", "480"))),
        ("SELECT FROM orders WHERE id = ANY($1)", (('{"500","490","510"}',), ('{"490","510","480"}',))),
        ("SELECT FROM orders WHERE id > $1", (("900",), ("990",))),
        ("SELECT FROM orders WHERE $1 >= id", (("100",), ("10",))),
        ("SELECT FROM orders WHERE id BETWEEN $1 AND $2", (("450", "550"), ("490", "510"))),
        ("SELECT FROM orders WHERE id >= $1 AND id < $2", (("450", "550"), ("490", "510"))),
        ("SELECT FROM orders WHERE lower(status) = $1", (("open",), ("odd",))),
        ("SELECT FROM orders WHERE status LIKE $1", (("Op%",), ("%odd%",))),
        ("SELECT FROM orders WHERE status LIKE $1 || $2", (("Op%", ""), ("%odd%", ""))),
        (
            "SELECT FROM orders WHERE (customer, status) IN (($1, $2), ($3, $4))",
            (("7", "Open", "8", "closed"), ("500", "odd", "490", "closed")),
        ),
        ("SELECT FROM orders WHERE coalesce(status, $1) = $2", (("Open", "Open"), ("odd", "odd"))),
        ("SELECT FROM orders WHERE customer = coalesce($1, customer)", (("7",), ("500",))),
        ("SELECT FROM orders WHERE status LIKE concat($1, $2)", (("Op%", ""), ("%odd%", ""))),
        ("SELECT FROM orders WHERE status LIKE ($1 || $2)::text", (("Op%", ""), ("%odd%", ""))),
        ("SELECT FROM orders WHERE lower(status) = $1 || $2 || $3", (("open", "", ""), ("odd", "", ""))),
        ("SELECT FROM orders WHERE placed::date = $1::date", ((MONTHS[5],), (MONTHS[6],))),
        ("SELECT FROM orders WHERE (placed, id) < ($1, $2)", ((MONTHS[2], "100"), (MONTHS[1], "10"))),
        ("SELECT coalesce(status, $1), count(*) FROM orders GROUP BY coalesce(status, $2)", (("",),)),
        ("UPDATE orders SET status = $1 WHERE id = $2", (("Open", "500"), ("odd", "490"))),
        (
            "UPDATE orders SET (status, customer) = ($1, $2) WHERE id = $3",
            (("Open", "7", "500"), ("odd", "500", "490")),
        ),
        (
            "UPDATE orders SET status = (CASE WHEN id = $1 THEN $2 WHEN id = $3 THEN $4 ELSE NULL END)::text "
            "WHERE id IN ($5, $6)",
            (("500", "Open", "500", "Open", "500", "490"), ("490", "odd", "490", "odd", "490", "510")),
        ),
        (
            "UPDATE orders SET status = coalesce($1, status), customer = greatest(customer, $2)",
            (("Open", "7"), ("odd", "500")),
        ),
        ("DELETE FROM orders USING orders o WHERE o.customer = $1", (("7",), ("500",))),
        (
            "WITH old AS (DELETE FROM orders WHERE id < $1 RETURNING *) INSERT INTO orders SELECT * FROM old",
            (("100",), ("10",)),
        ),
        (
            "WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a WHERE id > $1 LIMIT $2 FOR UPDATE) "
            "UPDATE orders o SET status = $3 FROM b WHERE b.id = o.id",
            (("900", "20", "Open"), ("990", "20", "odd")),
        ),
        (
            "WITH new AS (UPDATE orders SET status = $1 WHERE customer = $2 RETURNING id) SELECT id FROM new",
            (("Open", "7"), ("odd", "500")),
        ),
        (
            "WITH a AS (SELECT id FROM orders WHERE customer = $1) INSERT INTO orders (id) SELECT id FROM a",
            (("7",), ("500",)),
        ),
        ("INSERT INTO orders (document, status) SELECT $1, $2", ((None, "Open"), (None, "odd"))),
        ("SELECT FROM orders o WHERE EXISTS (SELECT FROM orders WHERE customer = $1)", (("7",), ("500",))),
        ("WITH x AS (SELECT * FROM orders WHERE customer = $1) SELECT FROM x", (("7",), ("500",))),
        ("SELECT FROM orders WHERE customer IN (SELECT id FROM orders LIMIT $1)", (("20",),)),
    ],
)
def test_frequent_and_rare_values_come_from_the_column_that_is_compared(
    sql: str, sets: tuple[tuple[str | None, ...], ...]
) -> None:
    assert drawn(sql).sets == sets


@pytest.mark.parametrize(
    ("condition", "sets"),
    [
        ("id = $1 + $2", (("500", "1"), ("490", "1"))),
        ("placed >= date $1 AND placed < date $2 + $3", ((MONTHS[4], MONTHS[7], "1"),)),
        ("id > $1 - $2 * $3", (("900", "1", "1"), ("990", "1", "1"))),
    ],
)
def test_a_value_that_is_moved_comes_from_the_column_too(
    condition: str, sets: tuple[tuple[str | None, ...], ...]
) -> None:
    """As in `placed < date '2024-03-01' + 7`, which pg_stat_statements shows so."""
    assert drawn(f"SELECT FROM orders WHERE {condition}", types="integer").sets[: len(sets)] == sets


@pytest.mark.parametrize(
    ("sql", "sets"),
    [
        (
            "WITH p AS (SELECT $1::int AS id, $2 AS s) SELECT FROM orders o JOIN p ON o.id = p.id "
            "WHERE o.status = p.s",
            (("500", "Open"), ("490", "odd")),
        ),
        (
            "SELECT FROM orders o, (SELECT $1::int AS low, $2::int AS high) p "
            "WHERE o.id BETWEEN p.low AND p.high",
            (("450", "550"), ("490", "510")),
        ),
        (
            "WITH p(c, s) AS (SELECT $1::int, $2), q AS (SELECT c, s FROM p) SELECT FROM orders o, q "
            "WHERE o.customer = q.c AND o.status = q.s",
            (("7", "Open"), ("500", "odd")),
        ),
        ("SELECT FROM orders WHERE customer = (SELECT $1::int)", (("7",), ("500",))),
        ("WITH p AS (SELECT $1 AS s) DELETE FROM orders USING p WHERE status = p.s", (("Open",), ("odd",))),
        ("SELECT FROM (SELECT * FROM orders) o WHERE o.customer = $1", (("7",), ("500",))),
        # What is only returned decides nothing.
        ("SELECT x.kind, x.id FROM (SELECT $1 AS kind, id FROM orders) x ORDER BY x.kind", (("",),)),
    ],
)
def test_what_a_subquery_passes_on_comes_from_the_column_that_it_is_compared_with(
    sql: str, sets: tuple[tuple[str | None, ...], ...]
) -> None:
    """As reports have their parameters: named once, in a CTE or in a subquery of FROM."""
    assert drawn(sql).sets == sets


def test_a_value_that_a_condition_is_computed_by_is_said_to_be_assumed() -> None:
    sql = "SELECT $1, id FROM orders WHERE total > (SELECT avg(total) * $2 FROM orders)"
    found = drawn(sql, types="numeric")
    assert found.sets == (("1", "1"),)
    assert found.assumed == ("a value of its type was assumed for $2: a condition is computed by it",)


def test_a_pattern_is_of_a_text_that_is_not_empty() -> None:
    """The most common note of an application is none at all, and LIKE '%' would mean all rows."""
    note = column("note", "text", common=("", "paid by card"), histogram=("apple", "zebra"))
    facts = FACTS.model_copy(update={"tables": (ORDERS.model_copy(update={"columns": (note,)}),)})
    uses = uses_of(read("SELECT FROM orders WHERE note LIKE $1"), facts)
    assert draw(uses, {}, 1.0, {}).sets == (("paid%",), ("%pple%",))


def test_what_was_made_up_is_said() -> None:
    assert drawn("SELECT FROM orders WHERE id = 1").assumed == ()
    said = drawn("SELECT FROM orders WHERE status LIKE $1 AND id = ANY($2) OFFSET $3").assumed
    assert [word for sentence in said for word in ("LIKE", "arrays", "OFFSET") if word in sentence] == [
        "OFFSET", "LIKE", "arrays",
    ]  # fmt: skip


def test_what_an_upsert_sets_has_values_too() -> None:
    upsert = (
        "INSERT INTO orders (id, customer) VALUES ($1, $2) ON CONFLICT (id) "
        "DO UPDATE SET status = $3, total = orders.total + $4"
    )
    sets = drawn(upsert, types="numeric").sets
    assert {values[2] for values in sets} == {"Open", "odd"} and {values[3] for values in sets} == {"1"}


def test_new_rows_get_keys_that_no_row_has_and_no_other_set() -> None:
    sets = drawn("INSERT INTO orders (id, customer) VALUES ($1, $2), ($3, $4)").sets
    ids = [values[place] for values in sets for place in (0, 2)]
    assert len(set(ids)) == 4
    assert all(int(each or 0) > 1000 for each in ids)
    assert {values[1] for values in sets} == {"7", "500"}


@pytest.mark.parametrize(
    ("kind", "largest", "expected"),
    [
        ("smallint", 500, {"32766", "32765", "32764", "32763"}),
        ("integer", 2_147_000_000, {"2147483646", "2147483645", "2147483644", "2147483643"}),
        ("bigint", 2_147_000_000, {"2148000001", "2148000002", "2148000003", "2148000004"}),
    ],
)
def test_new_keys_fit_their_type(kind: str, largest: int, expected: set[str]) -> None:
    id_ = column("id", kind, histogram=("1", str(largest)))
    orders = ORDERS.model_copy(update={"columns": (id_, *ORDERS.columns[1:])})
    facts = FACTS.model_copy(update={"tables": (orders,)})
    uses = uses_of(read("INSERT INTO orders (id) VALUES ($1), ($2)"), facts)
    sets = draw(uses, {}, 1.0, {}).sets
    assert {value for values in sets for value in values} == expected


def test_an_interval_before_now_is_as_long_as_the_column_goes_back() -> None:
    sql = "SELECT FROM orders WHERE placed > now() - interval $1"
    ages = {MONTHS[9]: "300 days", MONTHS[10]: "270 days"}
    assert drawn(sql, ages=ages).sets == (("300 days",), ("270 days",))
    with pytest.raises(NoValueError, match=r"\$1: the age of values of placed"):
        drawn(sql)
    cut = "SELECT FROM orders WHERE placed > date_trunc($1, now())::timestamptz - interval $2"
    assert drawn(cut, ages=ages).sets == (("day", "300 days"), ("day", "270 days"))


@pytest.mark.parametrize(
    ("condition", "sets"),
    [
        # Of what is older than an interval a tenth of the rows, and a hundredth, not nine tenths.
        ("placed < now() - $1::interval", ((MONTHS[2],), (MONTHS[1],))),
        ("now() - $1::interval > placed", ((MONTHS[2],), (MONTHS[1],))),
        # Between two of them is something.
        (
            "placed BETWEEN now() - $1::interval AND now() - $2::interval",
            ((MONTHS[4], MONTHS[7]), (MONTHS[5], MONTHS[6])),
        ),
        ("placed > now() - $1::interval AND placed < $2", ((MONTHS[4], MONTHS[7]), (MONTHS[5], MONTHS[6]))),
    ],
)
def test_an_interval_bounds_the_side_that_is_asked_for(
    condition: str, sets: tuple[tuple[str | None, ...], ...]
) -> None:
    ages = {month: month for month in MONTHS}
    sql = f"DELETE FROM orders WHERE {condition}"
    assert drawn(sql, ages=ages).sets == sets
    asked = age_bounds(uses_of(merged(read(sql)), FACTS))
    assert {values[0] for values in sets} <= {*asked}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT FROM nothing WHERE x = $1", "the facts have no table nothing"),
        ("SELECT current_setting($1) FROM orders", "word that current_setting asks for"),
        ("INSERT INTO orders (id) VALUES (nextval($1))", "word that nextval asks for"),
        (
            "SELECT FROM orders WHERE document = $1",
            "nor a few rows hold a value of orders.document",
        ),
        ("SELECT FROM orders WHERE mine(status) > $1", "not compared with a column"),
        ("INSERT INTO orders (needed) VALUES ($1)", "orders.needed is NOT NULL"),
        ("MERGE INTO orders USING orders o ON o.id = $1 WHEN MATCHED THEN DELETE", "MERGE"),
        # A value of these decides the rows.
        ("SELECT FROM (SELECT $1::int AS n) p, generate_series(1, p.n)", "not compared with a column"),
        (
            "WITH p AS (SELECT $1::int AS id) SELECT FROM orders JOIN p USING (id)",
            "not compared with a column",
        ),
        ("SELECT FROM orders WHERE id IN (SELECT $1::int)", "not compared with a column"),
    ],
)
def test_a_parameter_without_a_value_is_named_with_the_reason(sql: str, reason: str) -> None:
    with pytest.raises(NoValueError, match=r"^\$1: ") as raised:
        drawn(sql)
    assert reason in str(raised.value)


def test_a_word_that_changes_hardly_the_work_is_assumed() -> None:
    found = drawn("SELECT date_trunc($1, placed) FROM orders GROUP BY date_trunc($2, placed)")
    assert found.sets == (("day",),)
    assert found.assumed == ("'day' was used for the word that date_trunc asks for",)


def test_a_constant_of_the_output_gets_a_value_of_its_type() -> None:
    sql = "SELECT total * $1 FROM orders"
    assert drawn(sql, types="numeric").sets == (("1",),)
    assert drawn(sql, types="interval").sets == (("1 day",),)
    with pytest.raises(NoValueError, match="type point"):
        drawn(sql, types="point")


def test_a_group_and_its_output_have_one_parameter() -> None:
    tree = merged(read("SELECT total + $1, count(*) FROM orders GROUP BY total + $2 ORDER BY total + $3"))
    assert write(tree) == "SELECT total + $1, count(*) FROM orders GROUP BY total + $1 ORDER BY total + $1"


CONDITIONS = (
    "customer = {}",
    "status LIKE {}",
    "id IN ({}, {})",
    "total < {}",
    "placed >= {}",
    "id = ANY({})",
)


@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=5))
def test_every_parameter_of_conditions_on_columns_has_a_value_in_each_set(conditions: list[str]) -> None:
    text, number = " AND ".join(conditions), 0
    while "{}" in text:
        number += 1
        text = text.replace("{}", f"${number}", 1)
    sql = f"SELECT * FROM orders WHERE {text}"
    sets = drawn(sql).sets
    assert 1 <= len(sets) <= 2
    assert all(len(values) == len(numbers_of(read(sql))) and None not in values for values in sets)


def test_a_table_that_only_other_schemas_have_is_told_with_what_to_type() -> None:
    """As where each tenant has a schema, and an application sets the search path."""
    tables = tuple(
        TableFacts(schema_=schema, name="bills", kind="table", columns=())
        for schema in ("Tenant 1", "tenant_2", "tenant_3")
    )
    known = FACTS.model_copy(update={"tables": (*FACTS.tables, *tables)})
    said = out_of_path(read("SELECT * FROM bills WHERE id = $1"), known)
    assert said == (
        "; bills is in Tenant 1, tenant_2 and 1 more, which the search path does not have: name one in the "
        "connection string (options=-csearch_path=SCHEMA)"
    )
    for sql in ("SELECT * FROM orders", "SELECT * FROM tenant_2.bills", "SELECT * FROM nowhere"):
        assert out_of_path(read(sql), known) == ""
    assert out_of_path(read("WITH bills AS (SELECT 1) SELECT * FROM bills"), known) == ""
