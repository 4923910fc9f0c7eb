"""Tempting rewrites that are wrong: order, errors, names, what the data do not decide."""

from rewrites.schema import Case

WRONG_DECISIONS = (
    Case(
        "order that is lost", "",
        "SELECT id, qty FROM orders WHERE qty > 1 ORDER BY qty DESC, id",
        "SELECT id, qty FROM orders WHERE qty > 1",
    ),
    Case(
        "order turned by a union", "",
        "SELECT id, status FROM orders WHERE status = 'paid' OR qty = 3 ORDER BY id",
        "(SELECT id, status FROM orders WHERE status = 'paid' ORDER BY id) UNION ALL "
        "(SELECT id, status FROM orders WHERE qty = 3 AND (status = 'paid') IS NOT TRUE ORDER BY id)",
    ),
    Case(
        "nulls at the other end", "",
        "SELECT referrer_id FROM orders ORDER BY referrer_id DESC",
        "SELECT referrer_id FROM orders ORDER BY referrer_id DESC NULLS LAST",
    ),
    Case(
        "limit of ties", "or-union",
        "SELECT id FROM orders WHERE qty > 3 OR amount > 50 ORDER BY day LIMIT 5",
        "SELECT id FROM (SELECT id, day FROM orders WHERE qty > 3 UNION ALL SELECT id, day FROM orders "
        "WHERE amount > 50 AND (qty > 3) IS NOT TRUE) s ORDER BY day LIMIT 5",
    ),
    Case(
        "limit without an order", "not-in",
        "SELECT id FROM region WHERE id NOT IN (SELECT customer_id FROM orders) LIMIT 1",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = r.id) "
        "LIMIT 1",
    ),
    Case(
        "dice thrown once or twice", "cte-materialized",
        "WITH d AS MATERIALIZED (SELECT id, dice(id) AS v FROM orders) SELECT a.id FROM d a JOIN d b ON "
        "a.v = b.v",
        "WITH d AS NOT MATERIALIZED (SELECT id, dice(id) AS v FROM orders) SELECT a.id FROM d a JOIN d "
        "b ON a.v = b.v",
    ),
    Case(
        "random rows", "not-in",
        "SELECT id FROM region WHERE id NOT IN (SELECT customer_id FROM orders WHERE random() < 2)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE random() < 2 AND "
        "o.customer_id = r.id)",
    ),
    Case(
        "rows of today", "function-range",
        "SELECT id FROM orders WHERE placed::date = current_date",
        "SELECT id FROM orders WHERE placed >= current_date AND placed < current_date + 1",
    ),
    Case(
        "locked rows", "not-in",
        "SELECT id FROM customer WHERE id NOT IN (SELECT customer_id FROM orders) FOR UPDATE",
        "SELECT id FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "a list in no order", "scalar-subquery",
        "SELECT c.id, (SELECT array_agg(o.id) FROM orders o WHERE o.customer_id = c.id) FROM customer c",
        "SELECT c.id, s.a AS array_agg FROM customer c LEFT JOIN (SELECT customer_id, array_agg(id "
        "ORDER BY id) AS a "
        "FROM orders GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "a sum of floats put together", "aggregate-before-join",
        "SELECT c.id, sum(o.weight) FROM customer c JOIN orders o ON o.customer_id = c.id GROUP BY c.id",
        "SELECT c.id, s.sum::float8 FROM customer c JOIN (SELECT customer_id, "
        "sum(weight::numeric(12,0)) FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "a division that is asked of all", "scalar-subquery",
        "SELECT c.id, (SELECT sum(1 / o.qty) FROM orders o WHERE o.customer_id = c.id) FROM customer c",
        "SELECT c.id, s.sum FROM customer c LEFT JOIN (SELECT customer_id, sum(1 / qty) FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "a division before its guard", "or-union",
        "SELECT id FROM orders WHERE qty = 0 OR 100 / qty > 60 AND amount > 0",
        "SELECT id FROM orders WHERE 100 / qty > 60 AND amount > 0 UNION ALL SELECT id FROM orders "
        "WHERE qty = 0 "
        "AND (100 / qty > 60 AND amount > 0) IS NOT TRUE",
    ),
    Case(
        "first rows of two orders", "lateral",
        "SELECT c.id, (SELECT o.qty FROM orders o WHERE o.qty >= c.id ORDER BY o.id LIMIT 1) AS a, "
        "(SELECT o.id FROM orders o WHERE o.qty >= c.id ORDER BY o.id DESC LIMIT 1) AS b FROM customer c",
        "SELECT c.id, s.qty AS a, s.id AS b FROM customer c "
        "LEFT JOIN LATERAL (SELECT o.qty, o.id FROM orders o "
        "WHERE o.qty >= c.id ORDER BY o.id LIMIT 1) s ON TRUE",
    ),
    Case(
        "first rows of an order with ties", "lateral",
        "SELECT c.id, (SELECT o.id FROM orders o WHERE o.qty >= c.id ORDER BY o.status LIMIT 1) AS a, "
        "(SELECT o.qty FROM orders o WHERE o.qty >= c.id ORDER BY o.status LIMIT 1) AS b FROM customer c",
        "SELECT c.id, s.id AS a, s.qty AS b FROM customer c "
        "LEFT JOIN LATERAL (SELECT o.id, o.qty FROM orders o "
        "WHERE o.qty >= c.id ORDER BY o.status, o.id LIMIT 1) s ON TRUE",
    ),
    Case(
        "an order by what is returned", "lateral",
        "SELECT c.id, (SELECT o.id AS x FROM orders o WHERE o.qty >= c.id ORDER BY x LIMIT 1) AS a, "
        "(SELECT -o.id AS x FROM orders o WHERE o.qty >= c.id ORDER BY x LIMIT 1) AS b FROM customer c",
        "SELECT c.id, s.x AS a, s.y AS b FROM customer c "
        "LEFT JOIN LATERAL (SELECT o.id AS x, -o.id AS y FROM "
        "orders o WHERE o.qty >= c.id ORDER BY x LIMIT 1) s ON TRUE",
    ),
    Case(
        "rows without a partner are lost", "",
        "SELECT c.id, (SELECT o.qty FROM orders o WHERE o.referrer_id = c.id ORDER BY o.id LIMIT 1) AS a, "
        "(SELECT o.id FROM orders o WHERE o.referrer_id = c.id ORDER BY o.id LIMIT 1) AS b FROM customer c",
        "SELECT c.id, s.qty AS a, s.id AS b FROM customer c "
        "CROSS JOIN LATERAL (SELECT o.qty, o.id FROM orders o "
        "WHERE o.referrer_id = c.id ORDER BY o.id LIMIT 1) s",
    ),
    Case(
        "two conditions for one", "lateral",
        "SELECT c.id, (SELECT min(o.qty) FROM orders o WHERE o.qty > c.id) AS a, "
        "(SELECT max(o.qty) FROM orders o WHERE o.qty >= c.id) AS b FROM customer c",
        "SELECT c.id, s.a, s.b FROM customer c "
        "LEFT JOIN LATERAL (SELECT min(o.qty) AS a, max(o.qty) AS b FROM "
        "orders o WHERE o.qty > c.id) s ON TRUE",
    ),
    Case(
        "a division that a filter around it guarded", "lateral",
        "SELECT c.id, (SELECT sum(100 / o.qty) FROM orders o WHERE o.qty < c.id) AS a, "
        "(SELECT count(*) FROM orders o WHERE o.qty < c.id) AS b FROM customer c WHERE c.score > 1000",
        "SELECT c.id, s.a, s.b FROM customer c "
        "LEFT JOIN LATERAL (SELECT sum(100 / o.qty) AS a, count(*) AS b FROM "
        "orders o WHERE o.qty < c.id OFFSET 0) s ON TRUE WHERE c.score + coalesce(s.a, 0) * 0 > 1000",
    ),
    Case(
        "a division by a count that CASE guarded", "lateral",
        "SELECT c.id, CASE WHEN c.id < 5 THEN (SELECT 100 / count(*) FROM orders o WHERE o.id > c.id) END "
        "AS a, (SELECT count(*) FROM orders o WHERE o.id > c.id) AS b FROM customer c",
        "SELECT c.id, CASE WHEN c.id < 5 THEN s.a END AS a, s.b FROM customer c LEFT JOIN LATERAL "
        "(SELECT 100 / count(*) AS a, count(*) AS b FROM orders o WHERE o.id > c.id) s ON TRUE",
    ),
    Case(
        "a division that EXISTS does not come to", "count-exists",
        "SELECT id FROM region WHERE (SELECT count(*) FROM orders WHERE 10 / (qty - 24) < 100) > 0",
        "SELECT id FROM region WHERE EXISTS (SELECT 1 FROM orders WHERE 10 / (qty - 24) < 100)",
    ),
    Case(
        "a window over the rows around it", "scalar-subquery",
        "SELECT c.id, (SELECT sum(count(*)) OVER () FROM orders o WHERE o.customer_id = c.id) AS n FROM "
        "customer c",
        "SELECT c.id, sum(coalesce(s.n, 0)) OVER () AS n FROM customer c LEFT JOIN (SELECT customer_id, "
        "count(*) AS n FROM orders GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "a set that is empty for no rows", "scalar-subquery",
        "SELECT c.id, (SELECT generate_series(1, count(*)) FROM orders o WHERE o.customer_id = c.id "
        "AND o.qty <> 3) AS n FROM customer c",
        "SELECT c.id, generate_series(1, coalesce(s.n, 0)) AS n FROM customer c LEFT JOIN "
        "(SELECT customer_id, count(*) AS n FROM orders WHERE qty <> 3 GROUP BY customer_id) s "
        "ON s.customer_id = c.id",
    ),
    Case(
        "two rows that must fail, limited", "lateral",
        "SELECT c.id, (SELECT p.amount "
        "FROM payment p WHERE p.order_id > c.id - 1 AND p.order_id <= c.id) AS a, "
        "(SELECT p.id "
        "FROM payment p WHERE p.order_id > c.id - 1 AND p.order_id <= c.id) AS b FROM customer c",
        "SELECT c.id, s.amount AS a, s.id AS b FROM customer c "
        "LEFT JOIN LATERAL (SELECT p.amount, p.id FROM payment "
        "p WHERE p.order_id > c.id - 1 AND p.order_id <= c.id ORDER BY p.id LIMIT 1) s ON TRUE",
    ),
    Case(
        "two rows must fail", "scalar-subquery",
        "SELECT id FROM orders o WHERE amount = (SELECT p.amount FROM payment p WHERE p.order_id = o.id)",
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.id "
        "AND p.amount = o.amount)",
    ),
    Case(
        "guarded by row security", "not-in",
        "SELECT id FROM region WHERE id NOT IN (SELECT id FROM guarded)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM guarded g WHERE g.v = r.id)",
    ),
    Case(
        "a view that may change", "not-in",
        "SELECT id FROM region WHERE id NOT IN (SELECT customer_id FROM looked)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM looked l WHERE l.customer_id = r.id)",
    ),
    Case(
        "a name that means another table", "not-in",
        "SELECT o.id FROM region o WHERE o.id NOT IN (SELECT o.customer_id FROM orders o)",
        "SELECT o.id FROM region o WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = o.id)",
    ),
    Case(
        "a column of the statement around", "not-in",
        "SELECT id FROM region WHERE id NOT IN (SELECT parent_id FROM tag)",
        "SELECT id FROM region WHERE NOT EXISTS (SELECT 1 FROM tag WHERE order_id = id)",
    ),
    Case(
        "a window over half of the rows", "or-union",
        "SELECT id, count(*) OVER () FROM orders WHERE status = 'paid' OR qty = 3",
        "SELECT id, count(*) OVER () FROM orders WHERE status = 'paid' UNION ALL SELECT id, count(*) OVER () "
        "FROM orders WHERE qty = 3 AND (status = 'paid') IS NOT TRUE",
    ),
    Case(
        "groups of half of the rows", "or-union",
        "SELECT status, count(*) FROM orders WHERE qty = 3 OR id = 5 GROUP BY status",
        "SELECT status, count(*) FROM orders WHERE qty = 3 GROUP BY status UNION ALL SELECT status, count(*) "
        "FROM orders WHERE id = 5 AND (qty = 3) IS NOT TRUE GROUP BY status",
    ),
    Case(
        "other names for the client", "",
        "SELECT c.id, (SELECT sum(o.amount) FROM orders o WHERE o.customer_id = c.id) FROM customer c",
        "SELECT c.id, s.total FROM customer c LEFT JOIN (SELECT customer_id, sum(amount) AS total FROM "
        "orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "other types for the client", "",
        "SELECT c.id, (SELECT sum(o.qty) FROM orders o WHERE o.customer_id = c.id) FROM customer c",
        "SELECT c.id, s.sum FROM customer c LEFT JOIN (SELECT customer_id, sum(qty::bigint) FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "a parameter that is NULL", "",
        "SELECT id FROM orders WHERE ($1::int IS NULL OR customer_id = $1)",
        "SELECT id FROM orders WHERE customer_id = $1",
        parameters=(("3",), ("5",)),
    ),
    Case(
        "an aggregate by the name of a window function", "or-union",
        "SELECT rank(5) WITHIN GROUP (ORDER BY qty) FROM orders WHERE status = 'paid' OR qty = 3",
        "SELECT rank(5) WITHIN GROUP (ORDER BY qty) FROM orders WHERE status = 'paid' UNION ALL "
        "SELECT rank(5) WITHIN GROUP (ORDER BY qty) FROM orders WHERE qty = 3 "
        "AND (status = 'paid') IS NOT TRUE",
    ),
    Case(
        "an aggregate of the statement around", "or-union",
        "SELECT (SELECT sum(o.amount)) FROM orders o WHERE o.status = 'paid' OR o.qty = 3",
        "SELECT (SELECT sum(o.amount)) FROM orders o WHERE o.status = 'paid' UNION ALL "
        "SELECT (SELECT sum(o.amount)) FROM orders o WHERE o.qty = 3 AND (o.status = 'paid') IS NOT TRUE",
    ),
    Case(
        "an array in the order of a scan", "or-union",
        "SELECT ARRAY(SELECT id FROM orders WHERE status = 'paid' OR qty = 3)",
        "SELECT ARRAY(SELECT id FROM orders WHERE status = 'paid' UNION ALL SELECT id FROM orders "
        "WHERE qty = 3 AND (status = 'paid') IS NOT TRUE)",
    ),
    Case(
        "a column that is grouped by its day", "function-range",
        "SELECT placed::date, count(*) FROM orders GROUP BY placed::date HAVING placed::date = '2024-02-06'",
        "SELECT placed::date, count(*) FROM orders GROUP BY placed::date HAVING placed >= '2024-02-06' AND "
        "placed < '2024-02-07'",
    ),
    Case(
        "the total of each branch", "union-all",
        "SELECT DISTINCT id, 0 AS n FROM orders WHERE id < 10 GROUP BY ROLLUP (id) UNION "
        "SELECT DISTINCT id, 0 FROM orders WHERE id >= 10 GROUP BY ROLLUP (id)",
        "SELECT DISTINCT id, 0 AS n FROM orders WHERE id < 10 GROUP BY ROLLUP (id) UNION ALL "
        "SELECT DISTINCT id, 0 FROM orders WHERE id >= 10 GROUP BY ROLLUP (id)",
    ),
    Case(
        "several rows for one", "union-all",
        "SELECT id, 'a' AS k, generate_series(1, 2) * 0 AS n FROM region UNION "
        "SELECT id, 'b', 0 FROM customer",
        "SELECT id, 'a' AS k, generate_series(1, 2) * 0 AS n FROM region UNION ALL "
        "SELECT id, 'b', 0 FROM customer",
    ),
    Case(
        "a division that nobody asked for", "cte-materialized",
        "WITH x AS (SELECT id, 10 / qty AS r FROM orders) SELECT id FROM x",
        "WITH x AS MATERIALIZED (SELECT id, 10 / qty AS r FROM orders) SELECT id FROM x",
    ),
    Case(
        "recursion is not a border", "cte-materialized",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "SELECT n FROM generate_series(1, 6) n WHERE n < 7",
    ),
)  # fmt: skip
