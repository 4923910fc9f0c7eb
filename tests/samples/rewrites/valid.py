"""Rewrites that are right, each by the condition that its name says."""

from rewrites.schema import Case

_NOT_IN = (
    ("both keys", "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders)"),
    ("inner not null by a condition",
     "SELECT id FROM region WHERE id NOT IN (SELECT referrer_id FROM orders WHERE referrer_id IS NOT NULL)"),
    ("inner not null by a comparison",
     "SELECT id FROM region WHERE id NOT IN (SELECT referrer_id FROM orders WHERE referrer_id > 2)"),
    ("outer not null by a condition",
     "SELECT id FROM orders WHERE referrer_id IS NOT NULL AND referrer_id NOT IN (SELECT id FROM region)"),
    ("correlated", "SELECT c.id FROM customer c WHERE c.id NOT IN (SELECT o.customer_id FROM orders o "
     "WHERE o.qty > c.id)"),
    ("in the output", "SELECT r.id, r.id NOT IN (SELECT customer_id FROM orders) AS missing FROM region r"),
    ("below OR", "SELECT id FROM customer WHERE name = 'a' OR id NOT IN (SELECT customer_id FROM orders)"),
    ("several tables inside", "SELECT id FROM region WHERE id NOT IN (SELECT c.id FROM customer c JOIN "
    "orders o "
     "ON o.customer_id = c.id WHERE o.qty > 3)"),
    ("NULLs inside written out", "SELECT id FROM region WHERE id NOT IN (SELECT referrer_id FROM orders)"),
    ("NULLs on both sides written out",
     "SELECT id FROM orders WHERE referrer_id NOT IN (SELECT parent_id FROM region) AND qty < 9"),
    ("beside an array", "SELECT ARRAY[id, 2] AS ids FROM customer WHERE id NOT IN (SELECT customer_id FROM "
     "orders)"),
    ("texts", "SELECT id FROM customer WHERE name NOT IN (SELECT name FROM region)"),
)  # fmt: skip
_COUNT = (
    ("above none", "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM orders o WHERE "
    "o.customer_id = c.id) > 0"),
    ("at least one", "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM orders o WHERE "
    "o.customer_id = c.id) >= 1"),
    ("none", "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM orders o WHERE o.customer_id = "
    "c.id) = 0"),
    ("turned round", "SELECT c.id FROM customer c WHERE 0 < (SELECT count(*) FROM orders o WHERE o.qty "
    "= c.id)"),
    ("of a column that is never null",
     "SELECT c.id FROM customer c WHERE (SELECT count(o.qty) FROM orders o WHERE o.customer_id = c.id) > 0"),
    ("in the output", "SELECT c.id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) > 0 FROM "
    "customer c"),
    ("of a join", "SELECT r.id FROM region r WHERE (SELECT count(*) FROM customer c JOIN orders o "
     "ON o.customer_id = c.id WHERE c.region_id = r.id) > 0"),
)  # fmt: skip
_OR = (
    ("two columns, one nullable", "SELECT id FROM orders WHERE status = 'paid' OR referrer_id = 3"),
    ("with more conditions", "SELECT id, qty FROM orders WHERE (status = 'paid' OR referrer_id = 3) AND "
    "qty > 1"),
    ("three parts", "SELECT id FROM orders WHERE status = 'paid' OR referrer_id = 3 OR qty = 5"),
    ("sorted", "SELECT id, qty FROM orders WHERE status = 'paid' OR referrer_id = 3 ORDER BY qty DESC, id"),
    ("limited by a key", "SELECT id, qty FROM orders WHERE status = 'paid' OR referrer_id = 3 ORDER BY "
    "id LIMIT 3"),
    ("over a join", "SELECT o.id, c.name FROM orders o JOIN customer c ON c.id = o.customer_id "
     "WHERE o.qty = 3 OR c.name = 'a'"),
    ("with EXISTS", "SELECT c.id FROM customer c WHERE c.region_id = 2 OR EXISTS "
     "(SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.qty > 2)"),
    ("copies in the output", "SELECT status FROM orders WHERE status = 'paid' OR referrer_id = 3"),
)  # fmt: skip
_DISTINCT = (
    ("key in the output", "SELECT DISTINCT c.id, c.name FROM customer c JOIN orders o ON o.customer_id "
    "= c.id"),
    ("sorted", "SELECT DISTINCT c.id, c.name FROM customer c, orders o WHERE o.customer_id = c.id AND "
    "o.qty > 2 "
     "ORDER BY c.name, c.id"),
    ("without a key DISTINCT stays", "SELECT DISTINCT c.name FROM customer c JOIN orders o ON "
    "o.customer_id = c.id"),
    ("three tables", "SELECT DISTINCT r.id FROM region r JOIN customer c ON c.region_id = r.id "
     "JOIN orders o ON o.customer_id = c.id WHERE o.qty > 1"),
    ("key of two columns", "SELECT DISTINCT e.id, e.day FROM event e JOIN orders o ON o.qty = e.id"),
    ("key whose NULLs are one", "SELECT DISTINCT k.id FROM null_key k JOIN orders o ON o.qty = k.v"),
    ("all columns", "SELECT DISTINCT c.* FROM customer c JOIN orders o ON o.customer_id = c.id"),
)  # fmt: skip
_AGGREGATE = (
    ("sum and count", "SELECT c.id, sum(o.amount), count(*) FROM customer c JOIN orders o ON "
    "o.customer_id = c.id "
     "GROUP BY c.id"),
    ("more columns of the key's row", "SELECT c.id, c.name, max(o.placed) FROM customer c JOIN orders o "
     "ON o.customer_id = c.id GROUP BY c.id, c.name"),
    ("having", "SELECT c.id FROM customer c JOIN orders o ON o.customer_id = c.id GROUP BY c.id "
     "HAVING count(*) > 1 AND min(o.qty) < 4"),
    ("conditions on both sides", "SELECT c.id, avg(o.amount) FROM customer c JOIN orders o ON "
    "o.customer_id = c.id "
     "WHERE o.status = 'paid' AND c.region_id = 2 GROUP BY c.id"),
    ("left join", "SELECT c.id, sum(o.amount), count(o.id) AS n FROM customer c LEFT JOIN orders o "
     "ON o.customer_id = c.id GROUP BY c.id"),
    ("left join that counts rows", "SELECT c.id, count(*) FROM customer c LEFT JOIN orders o "
     "ON o.customer_id = c.id AND o.qty > 2 GROUP BY c.id"),
    ("another table by its key", "SELECT c.id, r.name, sum(o.qty) FROM customer c JOIN region r ON r.id "
    "= c.region_id "
     "JOIN orders o ON o.customer_id = c.id GROUP BY c.id, r.name"),
    ("sorted by the sum", "SELECT c.id, sum(o.amount) AS total FROM customer c JOIN orders o ON "
    "o.customer_id = c.id "
     "GROUP BY c.id ORDER BY total DESC NULLS LAST, c.id"),
    ("distinct values", "SELECT c.id, count(DISTINCT o.status) FROM customer c JOIN orders o ON "
    "o.customer_id = c.id "
     "GROUP BY c.id"),
)  # fmt: skip
_SCALAR = (
    ("sum in the output", "SELECT c.id, (SELECT sum(o.amount) FROM orders o WHERE o.customer_id = c.id) "
    "FROM customer c"),
    ("count of none", "SELECT c.id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS n "
    "FROM customer c"),
    ("compared in WHERE", "SELECT o.id FROM orders o WHERE o.amount > (SELECT avg(i.amount) FROM orders i "
     "WHERE i.customer_id = o.customer_id)"),
    ("two of one table", "SELECT c.id, (SELECT min(o.qty) FROM orders o WHERE o.customer_id = c.id) AS a, "
     "(SELECT max(o.qty) FROM orders o WHERE o.customer_id = c.id) AS b FROM customer c"),
    ("looked up by a key", "SELECT o.id, (SELECT c.name FROM customer c WHERE c.id = o.customer_id) "
    "FROM orders o"),
    ("looked up by a nullable key", "SELECT o.id, (SELECT k.v FROM loose_key k WHERE k.id = "
    "o.referrer_id) FROM orders o"),
    ("with conditions of its own", "SELECT c.id, (SELECT coalesce(sum(o.amount), 0) FROM orders o "
     "WHERE o.customer_id = c.id AND o.status = 'paid') AS total FROM customer c"),
    ("grouped around it", "SELECT o.status, count(*) FROM orders o WHERE o.qty = (SELECT max(i.qty) "
    "FROM orders i "
     "WHERE i.customer_id = o.customer_id) GROUP BY o.status"),
    ("limited around it", "SELECT c.id, (SELECT sum(o.qty) FROM orders o WHERE o.customer_id = c.id) "
     "FROM customer c ORDER BY c.id LIMIT 3"),
    ("two keys", "SELECT o.id, (SELECT e.v FROM event e WHERE e.id = o.qty AND e.day = o.day) FROM orders o"),
)  # fmt: skip
_LATERAL = (
    ("aggregates of a range", "SELECT c.id, (SELECT min(o.qty) FROM orders o WHERE o.qty > c.id) AS least, "
     "(SELECT max(o.qty) FROM orders o WHERE o.qty > c.id) FROM customer c"),
    ("a count beside a sum", "SELECT c.id, (SELECT count(*) FROM orders o WHERE o.referrer_id = c.id), "
     "(SELECT coalesce(sum(o.qty), 0) FROM orders o WHERE o.referrer_id = c.id) AS total FROM customer c"),
    ("the newest order", "SELECT c.id, (SELECT o.status FROM orders o WHERE o.customer_id = c.id "
     "ORDER BY o.placed DESC, o.id LIMIT 1), (SELECT o.amount FROM orders o WHERE o.customer_id = c.id "
     "ORDER BY o.placed DESC, o.id LIMIT 1) AS paid FROM customer c WHERE c.region_id = 2"),
    ("ordered by an output column", "SELECT c.id, (SELECT o.id FROM orders o WHERE o.customer_id = c.id "
     "ORDER BY 1 LIMIT 1), (SELECT o.status FROM orders o WHERE o.customer_id = c.id ORDER BY o.id LIMIT 1) "
     "FROM customer c"),
    ("of a join", "SELECT r.id, (SELECT min(o.qty) FROM customer c JOIN orders o ON o.customer_id = c.id "
     "WHERE c.region_id = r.id), (SELECT max(o.qty) FROM customer c JOIN orders o ON o.customer_id = c.id "
     "WHERE c.region_id = r.id) FROM region r"),
    ("around two tables", "SELECT c.id, r.id, (SELECT min(o.qty) FROM orders o WHERE o.qty >= c.id + r.id), "
     "(SELECT count(o.discount) FROM orders o WHERE o.qty >= c.id + r.id) FROM customer c, region r"),
    ("limited around it", "SELECT c.id, (SELECT min(o.qty) FROM orders o WHERE o.qty > c.id), "
     "(SELECT max(o.qty) FROM orders o WHERE o.qty > c.id) FROM customer c ORDER BY c.id LIMIT 3"),
)  # fmt: skip
_RANGE = (
    ("a day", "SELECT id FROM orders WHERE placed::date = '2024-02-06'"),
    ("a month", "SELECT id FROM orders WHERE date_trunc('month', placed) = '2024-03-01'"),
    ("a year", "SELECT id FROM orders WHERE extract(year FROM placed) = 2024"),
    ("a year of a date", "SELECT id FROM orders WHERE date_part('year', day) >= 2024"),
    ("from a day to a day", "SELECT id FROM orders WHERE placed::date BETWEEN '2024-02-06' AND '2024-03-05'"),
    ("after a day", "SELECT id FROM orders WHERE placed::date > '2024-02-06'"),
    ("until a month", "SELECT id FROM orders WHERE date_trunc('month', placed) <= date '2024-03-01'"),
    ("a day in UTC", "SELECT id FROM orders WHERE (shipped AT TIME ZONE 'UTC')::date = '2024-02-06'"),
    ("a day of a server in UTC", "SELECT id FROM orders WHERE shipped::date <= '2024-02-06'"),
    ("a quarter", "SELECT id FROM orders WHERE date_trunc('quarter', placed) = timestamp '2024-04-01'"),
    ("a week", "SELECT id FROM orders WHERE date_trunc('week', placed) = '2024-02-05'"),
)  # fmt: skip
_CAST = (
    ("a whole number with a point", "SELECT id FROM orders WHERE qty = 3.0"),
    ("a fraction as a bound", "SELECT id FROM orders WHERE qty > 2.5 AND qty < 10.5"),
    ("a negative fraction", "SELECT id FROM orders WHERE qty >= -1.5"),
    ("a cast to numeric", "SELECT id FROM orders WHERE qty = 3::numeric"),
    ("as text", "SELECT id FROM orders WHERE qty::text = '3'"),
    ("not as text", "SELECT id FROM orders WHERE '3' <> qty::text"),
    ("a uuid as text", "SELECT id FROM customer WHERE uid::text = '00000000-0000-0000-0000-000000000001'"),
)  # fmt: skip
_UNION = (
    ("told apart by a literal", "SELECT id, 'customer' AS kind FROM customer UNION SELECT id, 'order' "
    "FROM orders"),
    ("told apart by ranges", "SELECT id, qty FROM orders WHERE id < 10 UNION SELECT id, qty FROM orders "
    "WHERE id >= 10"),
    ("told apart by a column's value", "SELECT id, status FROM orders WHERE status = 'paid' UNION "
     "SELECT id, status FROM orders WHERE status = 'open' ORDER BY id"),
    ("groups", "SELECT status, 1 AS n, count(*) FROM orders GROUP BY status UNION SELECT name, 2, count(*) "
     "FROM customer GROUP BY name"),
    ("three branches", "SELECT id, 1 AS n FROM orders UNION SELECT id, 2 FROM customer UNION SELECT id, "
    "3 FROM region"),
)  # fmt: skip
_CTE = (
    ("once and inlined", "WITH x AS (SELECT * FROM orders WHERE qty > 2) SELECT id FROM x WHERE status "
    "= 'paid'"),
    ("materialised", "WITH x AS MATERIALIZED (SELECT id, qty FROM orders) SELECT id FROM x WHERE qty = 3"),
    ("twice", "WITH x AS (SELECT customer_id, sum(amount) AS s FROM orders GROUP BY customer_id) "
     "SELECT a.customer_id FROM x a JOIN x b ON a.s < b.s"),
)  # fmt: skip
_BY_KIND = tuple(
    Case(f"{kind}: {name}", kind, original)
    for kind, cases in (
        ("not-in", _NOT_IN), ("count-exists", _COUNT), ("or-union", _OR), ("distinct-exists", _DISTINCT),
        ("aggregate-before-join", _AGGREGATE), ("scalar-subquery", _SCALAR), ("lateral", _LATERAL),
        ("function-range", _RANGE),
        ("implicit-cast", _CAST), ("union-all", _UNION), ("cte-materialized", _CTE),
    )
    for name, original in cases
)  # fmt: skip
VALID = (
    *_BY_KIND,
    Case(
        "function-range: a day that a parameter says", "function-range",
        "SELECT id FROM orders WHERE placed::date = $1", parameters=(("2024-02-06",), ("2024-03-04",)),
    ),
    Case(
        "or-union: parameters", "or-union", "SELECT id FROM orders WHERE status = $1 OR referrer_id = $2",
        parameters=(("paid", "3"),),
    ),
    Case(
        "scalar-subquery: a parameter", "scalar-subquery",
        "SELECT c.id, (SELECT sum(o.qty) FROM orders o WHERE o.customer_id = c.id AND o.status = $1) "
        "FROM customer c",
        parameters=(("paid",), ("open",)),
    ),
)  # fmt: skip
