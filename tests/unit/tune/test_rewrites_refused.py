"""Statements for which a rewrite looks right and is not: by types, errors, sets, groups and open choices."""

import pytest

from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.schema import FunctionFacts, SchemaFacts
from pgassay.tune.rewrites.registry import rewrites
from rewrites.made_facts import FACTS, ORDERS, table, with_table

GAUGE = table(
    "gauge",
    "big bigint!, exact numeric!, level integer, share real, ratio double precision, at time without time "
    "zone, day date",
    "big",
    "exact",
)
_PLAIN = table("person", "id integer!, name text!", "id")
PERSON = _PLAIN.model_copy(
    update={
        "columns": tuple(
            one.model_copy(update={"collation": "blind", "deterministic": False})
            if one.name == "name"
            else one
            for one in _PLAIN.columns
        )
    }
)
MORE = FACTS.model_copy(
    update={
        "tables": (*FACTS.tables, GAUGE, PERSON),
        "functions": (
            FunctionFacts(schema_="public", name="mine", arguments="integer", volatility="s"),
            FunctionFacts(schema_="public", name="tally", arguments="integer", volatility="i", kind="a"),
            FunctionFacts(
                schema_="public", name="many", arguments="integer", volatility="i", returns_set=True
            ),
            FunctionFacts(schema_="mine", name="lower", arguments="text", volatility="i"),
            FunctionFacts(schema_="mine", name="timezone", arguments="text", volatility="i"),
        ),
    }
)
OR = "FROM orders o WHERE o.status = 'a' OR o.customer_id = 3"
GAUGE_OR = "SELECT g.level FROM gauge g WHERE g.level = 3 OR"


def judged(sql: str, kind: str, facts: SchemaFacts = MORE) -> tuple[str | None, str]:
    """How a rewrite is offered (its proof), and why it is refused."""
    made = rewrites(TunedStatement(name="q", sql=sql), facts)
    proofs = [one.proof for one in made.found if one.kind == kind]
    reasons = [one.reason for one in made.refused if one.kind == kind]
    return (proofs[0] if proofs else None, "; ".join(reasons))


def check_refused(sql: str, kind: str, reason: str, facts: SchemaFacts = MORE) -> None:
    proof, said = judged(sql, kind, facts)
    assert proof is None
    assert reason in said


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT rank(5) WITHIN GROUP (ORDER BY o.amount) {OR}", "grouped"),
        (f"SELECT tally(o.id) {OR}", "an aggregate or a window function of your own"),
        (f"SELECT (SELECT sum(o.amount)) {OR}", "aggregates columns of the statement around"),
        (f"SELECT json_arrayagg(o.id) {OR}", "JSON_ARRAYAGG"),
    ],
)
def test_an_aggregate_by_another_name_is_one(sql: str, reason: str) -> None:
    """Two branches would make two rows of one."""
    check_refused(sql, "or-union", reason)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT c.id, ARRAY(SELECT o.id {OR}) FROM customer c", "ARRAY(SELECT …)"),
        (f"SELECT o.id, generate_series(1, 2) {OR} ORDER BY o.id LIMIT 1", "an order that is total"),
        (f"SELECT o.id, many(o.id) {OR} ORDER BY o.id LIMIT 1", "an order that is total"),
        (f"SELECT DISTINCT s.amount FROM (SELECT o.amount {OR}) s", "equal values of amount"),
        (f"SELECT s.amount FROM (SELECT o.amount {OR}) s UNION SELECT 1", "equal values of amount"),
        (f"SELECT o.id {OR} OR o.placed > 'today 12:00'", "the time of its run"),
        (f"SELECT o.id {OR} OR mine.lower(o.status) = 'b'", "another than PostgreSQL's own"),
        (f"SELECT o.id {OR} OR o.id OPERATOR(mine.=) ANY (SELECT id FROM region)", "operator mine.="),
        (f"SELECT o.id {OR} OR o.id OPERATOR(mine.=) ANY ('{{1}}')", "operator mine.="),
        (f"SELECT o.id {OR} ORDER BY o.id USING OPERATOR(mine.<)", "operator mine.<"),
        (
            "SELECT DISTINCT s.name FROM (SELECT p.name FROM person p WHERE p.id = 3 OR p.name = 'a') s",
            "equal texts of name",
        ),
    ],
)
def test_what_the_data_leave_open_is_not_moved(sql: str, reason: str) -> None:
    check_refused(sql, "or-union", reason)


def test_groups_of_two_branches_have_ties() -> None:
    branch = "SELECT status, count(*) FROM orders WHERE"
    both = (
        f"{branch} id < 5 GROUP BY status UNION ALL {branch} id >= 5 AND (id < 5) IS NOT TRUE GROUP BY status"
    )
    sql = f"WITH x AS MATERIALIZED (SELECT id FROM orders) {both} ORDER BY status LIMIT 1"
    check_refused(sql.replace("FROM orders WHERE", "FROM x AS orders WHERE"), "cte-materialized", "order")
    check_refused(sql.replace("LIMIT 1", "LIMIT (SELECT 1 FROM x)"), "cte-materialized", "order")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.id FROM orders o JOIN customer c ON c.id = 10 / o.customer_id WHERE o.status = 'a' OR "
        "c.region_id = 3",
        "SELECT s.id FROM (SELECT id, customer_id FROM orders WHERE 10 / customer_id > 1) s "
        "WHERE s.id = 1 OR s.customer_id = 2",
        f"SELECT s.id FROM (SELECT o.id, o.customer_id {OR}) s WHERE 10 / s.customer_id > 1",
        "WITH x AS (SELECT id, 10 / customer_id AS r FROM orders) SELECT o.id FROM orders o "
        "WHERE o.status = 'a' OR EXISTS (SELECT 1 FROM x WHERE x.id = o.id)",
        f"SELECT o.id {OR} OR o.status ~ ANY (SELECT name FROM region)",
        f"SELECT o.id {OR} OR o.id = mine(3)",
        f"SELECT o.id {OR} OR o.id = 10 / $1",
        f"SELECT o.id {OR} OR length(o.status, 'UTF8') = 3",
        "SELECT p.id FROM person p WHERE p.id = 3 OR p.name LIKE 'a%'",
        f"{GAUGE_OR} extract(year FROM g.at) = 3",
        f"{GAUGE_OR} date_part('year', g.day) = 2024",
        f"{GAUGE_OR} date_trunc('year', g.day) = '2024-01-01'",
        f"{GAUGE_OR} g.exact = g.ratio",
        f"{GAUGE_OR} g.ratio IN (SELECT exact FROM gauge)",
    ],
)
def test_what_can_fail_is_asked_of_no_other_rows(sql: str) -> None:
    check_refused(sql, "or-union", "can raise an error")


def test_outputs_that_can_fail_are_asked_of_the_same_rows() -> None:
    failing = f"SELECT o.id, 10 / o.customer_id {OR}"
    check_refused(f"{failing} ORDER BY o.id LIMIT 2", "or-union", "an output can raise an error")
    check_refused(f"SELECT 1 WHERE EXISTS ({failing})", "or-union", "an output can raise an error")
    assert judged(failing, "or-union")[0] == "proven"
    assert judged(f"SELECT o.id, o.placed::date {OR} ORDER BY o.id LIMIT 2", "or-union")[0] == "proven"


def test_a_column_that_is_computed_when_it_is_read_can_fail() -> None:
    def knowing(**fields: object) -> SchemaFacts:
        columns = tuple(
            one.model_copy(update=fields) if one.name == "status" else one for one in ORDERS.columns
        )
        return with_table(ORDERS.model_copy(update={"columns": columns}))

    computed = knowing(generated=True, computed=True)
    check_refused(f"SELECT o.id {OR}", "or-union", "can raise an error", computed)
    through = (
        "SELECT s.id FROM (SELECT id, customer_id, status AS said FROM orders) s WHERE s.customer_id = 3 OR"
    )
    check_refused(f"{through} s.said = 'a'", "or-union", "can raise an error", computed)
    asked = f"SELECT 1 WHERE EXISTS ({through.replace('SELECT s.id', 'SELECT s.said')} s.id = 1)"
    check_refused(asked, "or-union", "can raise an error", computed)
    assert judged(asked, "or-union")[0] == "proven"
    assert judged(f"SELECT o.id {OR}", "or-union", knowing(generated=True))[0] == "proven"


def test_a_parameter_gets_its_type_where_it_got_it_before() -> None:
    sql = "SELECT id FROM orders WHERE (status = 'a' OR customer_id = $1) AND amount > "
    check_refused(f"{sql} $1", "or-union", "$1 would get its type in another place")
    assert judged(f"{sql} $2", "or-union")[0] == "proven"
    assert judged("SELECT id FROM region WHERE name = $1 OR id = 3 OR name > $1", "or-union")[0] == "proven"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT placed::date, count(*) FROM orders GROUP BY placed::date HAVING placed::date = '2024-02-06'",
        "SELECT placed::date = '2024-02-06', count(*) FROM orders GROUP BY placed::date",
        "SELECT o.placed::date, (SELECT count(*) FROM region WHERE o.placed::date = '2024-02-06') "
        "FROM orders o GROUP BY o.placed::date",
    ],
)
def test_a_grouped_expression_is_no_column(sql: str) -> None:
    check_refused(sql, "function-range", "grouped by something else")
    cast = sql.replace("placed::date", "id::text").replace("2024-02-06", "3")
    check_refused(cast, "implicit-cast", "grouped by something else")


def test_a_grouped_statement_still_has_ranges_where_it_groups_nothing() -> None:
    for sql in (
        "SELECT status, count(*) FILTER (WHERE placed::date = '2024-02-06') FROM orders GROUP BY status",
        "SELECT placed::date FROM orders WHERE placed::date = '2024-02-06' GROUP BY placed::date",
        "SELECT placed, count(*) FROM orders GROUP BY placed HAVING placed::date = '2024-02-06'",
    ):
        assert judged(sql, "function-range")[0] == "proven"


def test_types_and_functions_of_other_schemas_are_others() -> None:
    for sql in (
        "SELECT id FROM orders WHERE placed::mine.date = '2024-02-06'",
        "SELECT id FROM customer WHERE mine.timezone('UTC', seen)::date = '2024-02-06'",
        "SELECT id FROM orders WHERE placed::date = '2024-02-06'::mine.date",
    ):
        assert judged(sql, "function-range")[0] is None


def test_a_function_that_fails_at_the_ends_of_a_range_is_not_proven() -> None:
    proofs = {
        "date_trunc('month', placed) = '2024-02-01'": "by test",
        "date_trunc('day', placed) = '2024-02-01'": "proven",
        "extract(year FROM placed) = 2024": "proven",
    }
    for condition, proof in proofs.items():
        assert judged(f"SELECT id FROM orders WHERE {condition}", "function-range")[0] == proof
    sql = "SELECT level FROM gauge WHERE date_part('year', day) = 2024"
    assert judged(sql, "function-range")[0] == "by test"


def test_a_merged_column_of_two_types_has_neither() -> None:
    sql = (
        "SELECT 1 FROM gauge JOIN (SELECT ratio AS level FROM gauge) g USING (level) WHERE level::text = '3'"
    )
    assert judged(sql, "implicit-cast")[0] is None
    same = sql.replace("ratio AS level", "level")
    assert judged(same, "implicit-cast")[0] == "proven"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        # 16777216 and 16777217 are one real.
        ("SELECT id, 1, 0 FROM orders UNION SELECT share, 2, big FROM gauge", "no key of orders"),
        ("SELECT big, 1, 0 FROM gauge UNION SELECT ratio, 2, big FROM gauge", "no key of gauge"),
        (
            "SELECT DISTINCT level, 1 FROM gauge UNION SELECT DISTINCT share, 2 FROM gauge",
            "distinct in types",
        ),
        (
            "SELECT id, 'a', 16777216 FROM orders UNION SELECT id, 'a', 16777217 FROM orders UNION "
            "SELECT big, 'b', share FROM gauge",
            "nothing proves",
        ),
        (
            'SELECT name, 1, 0 FROM region UNION SELECT name COLLATE "blind", 2, id FROM customer',
            "no key of region",
        ),
        (
            "SELECT id, 'a', generate_series(1, 2) * 0 FROM orders UNION SELECT id, 'b', 0 FROM customer",
            "several rows for one",
        ),
        ("SELECT generate_series(1, 3) * 0, 'a' UNION SELECT id, 'b' FROM region", "several rows for one"),
        (
            "SELECT id, 'a', many(id) FROM orders UNION SELECT id, 'b', 0 FROM customer",
            "several rows for one",
        ),
        # Both have a row for all ids, with NULL for the id.
        (
            "SELECT DISTINCT id, count(*) FROM orders WHERE id < 10 GROUP BY ROLLUP (id) UNION "
            "SELECT DISTINCT id, count(*) FROM orders WHERE id >= 10 GROUP BY ROLLUP (id)",
            "nothing proves",
        ),
        # Two bigints and two numerics equal one float.
        (
            "SELECT o.id, 1 FROM orders o JOIN gauge g ON g.big = o.weight UNION SELECT id, 2 FROM region",
            "no key of g ",
        ),
        (
            "SELECT o.id, 1 FROM orders o JOIN gauge g ON g.exact = o.weight UNION SELECT id, 2 FROM region",
            "no key of g ",
        ),
    ],
)
def test_rows_that_the_union_makes_equal(sql: str, reason: str) -> None:
    check_refused(sql, "union-all", reason)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, NULL, 'a' FROM orders UNION SELECT big, name, 'b' FROM gauge, region WHERE region.id = 1",
        "SELECT id, 1.5, 'a' FROM orders UNION SELECT level, exact, 'b' FROM gauge",
        "SELECT date_trunc('month', placed), 'a' FROM orders GROUP BY 1 UNION "
        "SELECT date_trunc('month', joined), 'b' FROM customer GROUP BY 1",
        "SELECT id, (SELECT max(level) FROM gauge), 1 FROM orders UNION SELECT id, 0, 2 FROM customer",
    ],
)
def test_rows_that_the_union_keeps_apart(sql: str) -> None:
    proof, reason = judged(sql, "union-all")
    assert proof == "proven", reason


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("WITH x AS (SELECT id, 10 / customer_id AS r FROM orders) SELECT id FROM x", "may raise an error"),
        (
            "WITH x AS MATERIALIZED (SELECT customer_id FROM orders GROUP BY customer_id HAVING "
            "10 / (count(*) - 2) > 1) SELECT customer_id FROM x WHERE customer_id = 3",
            "may raise an error",
        ),
        (
            "WITH x AS (SELECT id FROM orders ORDER BY 10 / customer_id) SELECT id FROM x",
            "may raise an error",
        ),
        (
            "WITH x AS (SELECT customer_id AS k, sum(weight) AS s FROM orders GROUP BY 1) "
            "SELECT a.s - b.s FROM x a JOIN x b ON a.k = b.k",
            "rounded in two ways",
        ),
        ("WITH x AS (SELECT a FROM customer c (a)) SELECT q.b FROM x q (b)", "names"),
    ],
)
def test_a_cte_computes_what_it_computed(sql: str, reason: str) -> None:
    check_refused(sql, "cte-materialized", reason)


def test_a_cte_that_may_overflow_is_not_proven() -> None:
    sql = (
        "WITH x AS (SELECT id, customer_id + 1 AS n, count(*) OVER (PARTITION BY status) FROM orders) "
        "SELECT id FROM x"
    )
    assert judged(sql, "cte-materialized")[0] == "by test"
    assert judged(sql.replace("customer_id + 1", "status || '!'"), "cte-materialized")[0] == "proven"


def test_a_foreign_partition_enforces_nothing() -> None:
    partitioned = ORDERS.model_copy(update={"kind": "partitioned"})
    facts = with_table(partitioned)
    foreign = ORDERS.model_copy(update={"name": "far", "kind": "foreign", "parent": "orders"})
    sql = "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders)"
    assert judged(sql, "not-in", facts)[0] == "proven"
    facts = facts.model_copy(update={"tables": (*facts.tables, foreign)})
    check_refused(sql, "not-in", "has a foreign partition", facts)


def test_what_a_subquery_reads_can_fail_as_its_conditions_can() -> None:
    computed = "WITH x AS (SELECT customer_id, 10 / id AS r FROM orders) SELECT id FROM customer c WHERE"
    counted = "(SELECT count(*) FROM x WHERE x.customer_id = c.id) > 0"
    check_refused(f"{computed} {counted}", "count-exists", "can raise an error")
    assert judged(f"{computed.replace('10 / id', 'status')} {counted}", "count-exists")[0] == "proven"
    for read in (
        "(SELECT id FROM orders UNION ALL SELECT 10 / id FROM orders) s",
        "(VALUES (1), (2)) s (id)",
        "orders o CROSS JOIN LATERAL (VALUES (10 / o.id)) s (id)",
        "generate_series(1, 3) s (id)",
        "orders o, generate_series(1, o.id) s (id)",
    ):
        sql = f"SELECT id FROM customer c WHERE (SELECT count(*) FROM {read} WHERE c.region_id = 1) > 0"
        proof, reason = judged(sql, "count-exists")
        assert (proof is None and "can raise an error" in reason) == ("o.id" in read or "/ id" in read), read


def test_a_condition_may_look_into_joins_and_subqueries_that_do_not_fail() -> None:
    sql = "SELECT c.id FROM customer c WHERE c.region_id = 1 OR EXISTS (SELECT 1 FROM {} WHERE s.id = c.id)"
    joined = "orders o JOIN region s ON s.id = o.customer_id"
    assert judged(sql.format(joined), "or-union")[0] == "proven"
    assert judged(sql.format("(SELECT id FROM region) s"), "or-union")[0] == "proven"
    check_refused(sql.format(joined.replace("= o.", "= 10 / o.")), "or-union", "can raise an error")
    check_refused(sql.format("(SELECT 10 / id AS id FROM region) s"), "or-union", "can raise an error")


def test_a_condition_of_the_other_tables_can_raise_an_error_as_well() -> None:
    """The join with the aggregated table kept it from rows that have no partner."""
    sql = (
        "SELECT c.id, r.id, sum(o.customer_id) FROM customer c, region r, orders o "
        "WHERE o.customer_id = c.id AND {} > 1 GROUP BY c.id, r.id"
    )
    kind = "aggregate-before-join"
    check_refused(sql.format("10 / (c.region_id - r.id)"), kind, "can raise an error")
    assert judged(sql.format("c.region_id + r.id"), kind)[0] == "by test"
    outer = (
        "SELECT c.id, count(o.id) FROM customer c LEFT JOIN orders o ON o.customer_id = c.id "
        "WHERE 10 / c.region_id > 1 GROUP BY c.id"
    )
    # All rows of the left side come out of the join, so that it kept it from none.
    assert judged(outer, kind)[0] == "proven"
