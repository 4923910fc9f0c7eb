"""Tempting rewrites that are wrong: NULLs, copies, keys that are none. Each returns the same on the "
"data at hand."""

from rewrites.schema import Case

WRONG_NULLS = (
    Case(
        "not in, inner NULL", "",
        "SELECT id FROM customer WHERE id NOT IN (SELECT referrer_id FROM orders)",
        "SELECT id FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.referrer_id = c.id)",
    ),
    Case(
        "not in, outer NULL", "",
        "SELECT id FROM orders WHERE referrer_id NOT IN (SELECT id FROM region)",
        "SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM region r WHERE r.id = o.referrer_id)",
    ),
    Case(
        "not in, NULL by an outer join", "",
        "SELECT c.id FROM customer c LEFT JOIN orders o ON o.id = c.id + 1 WHERE o.customer_id NOT IN "
        "(SELECT id FROM region)",
        "SELECT c.id FROM customer c LEFT JOIN orders o ON o.id = c.id + 1 WHERE NOT EXISTS "
        "(SELECT 1 FROM region r WHERE r.id = o.customer_id)",
    ),
    Case(
        "not in, NULL by an outer join inside", "",
        "SELECT id FROM region WHERE id NOT IN (SELECT o.customer_id FROM customer c LEFT JOIN orders o "
        "ON o.customer_id = c.id WHERE c.id > 4)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM customer c LEFT JOIN orders o "
        "ON o.customer_id = c.id WHERE c.id > 4 AND o.customer_id = r.id)",
    ),
    Case(
        "not in, condition in OR proves nothing", "",
        "SELECT id FROM region WHERE id NOT IN (SELECT referrer_id FROM orders WHERE referrer_id IS NOT NULL "
        "OR qty > 5)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE (o.referrer_id IS NOT NULL "
        "OR o.qty > 5) AND o.referrer_id = r.id)",
    ),
    Case(
        "not in a nullable key", "",
        "SELECT id FROM region WHERE id NOT IN (SELECT id FROM loose_key)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM loose_key k WHERE k.id = r.id)",
    ),
    Case(
        "not in of NULLs in the output", "not-in",
        "SELECT o.id, o.referrer_id NOT IN (SELECT parent_id FROM region) AS missing FROM orders o",
        "SELECT o.id, NOT EXISTS (SELECT 1 FROM region r WHERE r.parent_id = o.referrer_id) AS missing "
        "FROM orders o",
    ),
    Case(
        "not in of NULLs that ROLLUP makes", "not-in",
        "SELECT id, id NOT IN (SELECT customer_id FROM orders) AS missing FROM customer GROUP BY ROLLUP (id)",
        "SELECT id, NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = customer.id) AS missing "
        "FROM customer GROUP BY ROLLUP (id)",
    ),
    Case(
        "not in of NULLs below NOT", "not-in",
        "SELECT o.id FROM orders o WHERE (o.referrer_id NOT IN (SELECT parent_id FROM region)) IS NOT TRUE",
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM region r WHERE r.parent_id = o.referrer_id)",
    ),
    Case(
        "not in as a left join", "",
        "SELECT r.id FROM region r WHERE r.id NOT IN (SELECT referrer_id FROM orders)",
        "SELECT r.id FROM region r LEFT JOIN orders o ON o.referrer_id = r.id WHERE o.id IS NULL",
    ),
    Case(
        "or without NULLs thought of", "",
        "SELECT id FROM orders WHERE status = 'paid' OR referrer_id = 3",
        "SELECT id FROM orders WHERE status = 'paid' UNION ALL SELECT id FROM orders WHERE referrer_id = 3 "
        "AND NOT (status = 'paid')",
    ),
    Case(
        "or with unequal for not", "",
        "SELECT id FROM orders WHERE status = 'paid' OR qty = 3",
        "SELECT id FROM orders WHERE status = 'paid' UNION ALL SELECT id FROM orders WHERE qty = 3 "
        "AND status <> 'paid'",
    ),
    Case(
        "count of a nullable column", "count-exists",
        "SELECT c.id FROM customer c WHERE (SELECT count(o.referrer_id) FROM orders o WHERE "
        "o.customer_id = c.id) > 0",
        "SELECT c.id FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "count of groups", "count-exists",
        "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM orders o WHERE o.customer_id = c.id "
        "GROUP BY o.customer_id) = 0",
        "SELECT c.id FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "count of several groups must fail", "count-exists",
        "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM orders o WHERE o.customer_id = c.id "
        "GROUP BY o.status) > 0",
        "SELECT c.id FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "count with having", "count-exists",
        "SELECT id FROM customer WHERE (SELECT count(*) FROM orders HAVING count(*) > 2) > 0",
        "SELECT id FROM customer WHERE EXISTS (SELECT 1 FROM orders)",
    ),
    Case(
        "count with a filter", "count-exists",
        "SELECT c.id FROM customer c WHERE (SELECT count(*) FILTER (WHERE o.qty > 0) FROM orders o "
        "WHERE o.customer_id = c.id) > 0",
        "SELECT c.id FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "count above one", "count-exists",
        "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) > 1",
        "SELECT c.id FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id "
        "AND o.customer_id IS NULL)",
    ),
    Case(
        "a count that is NULL where nobody is", "",
        "SELECT c.id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS n FROM customer c",
        "SELECT c.id, s.n FROM customer c LEFT JOIN (SELECT customer_id, count(*) AS n FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "an inner join loses rows", "",
        "SELECT c.id, (SELECT sum(o.amount) FROM orders o WHERE o.customer_id = c.id) AS total FROM "
        "customer c",
        "SELECT c.id, s.total FROM customer c JOIN (SELECT customer_id, sum(amount) AS total FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "coalesce where the sum was NULL", "",
        "SELECT c.id, (SELECT sum(o.amount) FROM orders o WHERE o.customer_id = c.id) AS total FROM "
        "customer c",
        "SELECT c.id, coalesce(s.total, 0) AS total FROM customer c LEFT JOIN (SELECT customer_id, "
        "sum(amount) AS "
        "total FROM orders GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "is distinct from and equality", "",
        "SELECT c.id FROM customer c JOIN region r ON c.region_id IS NOT DISTINCT FROM r.parent_id",
        "SELECT c.id FROM customer c JOIN region r ON c.region_id = r.parent_id",
    ),
    Case(
        "coalesce moved to the other side", "",
        "SELECT id FROM orders WHERE coalesce(referrer_id, 0) <> 3",
        "SELECT id FROM orders WHERE referrer_id <> 3",
    ),
)  # fmt: skip

WRONG_KEYS = (
    Case(
        "scalar subquery without a key", "scalar-subquery",
        "SELECT o.id, (SELECT t.label FROM tag t WHERE t.order_id = o.id) AS label FROM orders o",
        "SELECT o.id, t.label FROM orders o LEFT JOIN tag t ON t.order_id = o.id",
    ),
    Case(
        "key that is deferred", "scalar-subquery",
        "SELECT o.id, (SELECT k.v FROM late_key k WHERE k.id = o.qty) AS v FROM orders o",
        "SELECT o.id, k.v FROM orders o LEFT JOIN late_key k ON k.id = o.qty",
    ),
    Case(
        "key that is partial", "scalar-subquery",
        "SELECT o.id, (SELECT k.v FROM part_key k WHERE k.id = o.qty) AS v FROM orders o",
        "SELECT o.id, k.v FROM orders o LEFT JOIN part_key k ON k.id = o.qty",
    ),
    Case(
        "key that is broken", "scalar-subquery",
        "SELECT o.id, (SELECT k.v FROM broken_key k WHERE k.id = o.qty) AS v FROM orders o",
        "SELECT o.id, k.v FROM orders o LEFT JOIN broken_key k ON k.id = o.qty",
    ),
    Case(
        "key of an expression", "scalar-subquery",
        "SELECT o.id, (SELECT k.v FROM lower_key k WHERE k.name = o.status) AS v FROM orders o",
        "SELECT o.id, k.v FROM orders o LEFT JOIN lower_key k ON lower(k.name) = o.status",
    ),
    Case(
        "key of each partition only", "scalar-subquery",
        "SELECT o.id, (SELECT e.v FROM event e WHERE e.id = o.qty) AS v FROM orders o",
        "SELECT o.id, e.v FROM orders o LEFT JOIN event e ON e.id = o.qty",
    ),
    Case(
        "half a key", "aggregate-before-join",
        "SELECT e.id, sum(o.amount) FROM event e JOIN orders o ON o.customer_id = e.id GROUP BY e.id",
        "SELECT e.id, s.sum FROM event e JOIN (SELECT customer_id, sum(amount) FROM orders GROUP BY "
        "customer_id) s "
        "ON s.customer_id = e.id",
    ),
    Case(
        "key of a mother table", "scalar-subquery",
        "SELECT o.id, (SELECT m.v FROM mother m WHERE m.id = o.qty) AS v FROM orders o",
        "SELECT o.id, m.v FROM orders o LEFT JOIN (mother CROSS JOIN (VALUES (1), (2)) w (n)) m ON m.id "
        "= o.qty",
    ),
    Case(
        "distinct without a key", "",
        "SELECT DISTINCT c.name FROM customer c JOIN orders o ON o.customer_id = c.id",
        "SELECT c.name FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "distinct by a nullable key", "",
        "SELECT DISTINCT k.id FROM loose_key k JOIN orders o ON o.qty = k.v",
        "SELECT k.id FROM loose_key k WHERE EXISTS (SELECT 1 FROM orders o WHERE o.qty = k.v)",
    ),
    Case(
        "distinct by a deferred key", "",
        "SELECT DISTINCT k.id, k.v FROM late_key k JOIN orders o ON o.qty = k.v",
        "SELECT k.id, k.v FROM late_key k WHERE EXISTS (SELECT 1 FROM orders o WHERE o.qty = k.v)",
    ),
    Case(
        "distinct returns the other side", "distinct-exists",
        "SELECT DISTINCT c.id, o.status FROM customer c JOIN orders o ON o.customer_id = c.id",
        "SELECT c.id, (SELECT min(o.status) FROM orders o WHERE o.customer_id = c.id) AS status FROM "
        "customer c "
        "WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "distinct with a left join", "distinct-exists",
        "SELECT DISTINCT c.id FROM customer c LEFT JOIN orders o ON o.customer_id = c.id",
        "SELECT c.id FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    Case(
        "distinct left out after a join", "",
        "SELECT DISTINCT c.id FROM customer c JOIN orders o ON o.customer_id = c.id",
        "SELECT c.id FROM customer c JOIN orders o ON o.customer_id = c.id",
    ),
    Case(
        "grouped by a name that is not a key", "aggregate-before-join",
        "SELECT c.name, sum(o.amount) FROM customer c JOIN orders o ON o.customer_id = c.id GROUP BY c.name",
        "SELECT c.name, s.sum FROM customer c JOIN (SELECT customer_id, sum(amount) FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "grouped by a nullable key", "aggregate-before-join",
        "SELECT k.id, count(*) FROM loose_key k JOIN orders o ON o.qty = k.v GROUP BY k.id",
        "SELECT k.id, s.count FROM loose_key k JOIN (SELECT qty, count(*) FROM orders GROUP BY qty) s "
        "ON s.qty = k.v",
    ),
    Case(
        "two joins multiply", "aggregate-before-join",
        "SELECT c.id, sum(o.amount) FROM customer c JOIN orders o ON o.customer_id = c.id "
        "JOIN payment p ON p.order_id = c.id GROUP BY c.id",
        "SELECT c.id, s.sum FROM customer c JOIN (SELECT customer_id, sum(amount) FROM orders GROUP BY "
        "customer_id) s "
        "ON s.customer_id = c.id WHERE EXISTS (SELECT 1 FROM payment p WHERE p.order_id = c.id)",
    ),
    Case(
        "sums of both sides", "aggregate-before-join",
        "SELECT c.id, sum(o.amount) AS a, sum(c.balance) AS b FROM customer c JOIN orders o ON "
        "o.customer_id = c.id "
        "GROUP BY c.id",
        "SELECT c.id, s.a, c.balance AS b FROM customer c JOIN (SELECT customer_id, sum(amount) AS a "
        "FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "count of a left join's row", "",
        "SELECT c.id, count(*) AS n FROM customer c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id",
        "SELECT c.id, coalesce(s.n, 0) AS n FROM customer c LEFT JOIN (SELECT customer_id, count(*) AS "
        "n FROM orders "
        "GROUP BY customer_id) s ON s.customer_id = c.id",
    ),
    Case(
        "union of branches that meet", "union-all",
        "SELECT id FROM orders WHERE qty < 10 UNION SELECT id FROM orders WHERE amount > 95",
        "SELECT id FROM orders WHERE qty < 10 UNION ALL SELECT id FROM orders WHERE amount > 95",
    ),
    Case(
        "union of ranges that touch", "union-all",
        "SELECT id FROM orders WHERE id <= 30 UNION SELECT id FROM orders WHERE id >= 30",
        "SELECT id FROM orders WHERE id <= 30 UNION ALL SELECT id FROM orders WHERE id >= 30",
    ),
    Case(
        "union of copies within a branch", "union-all",
        "SELECT status, 1 AS source FROM orders WHERE qty = 3 UNION SELECT name, 2 FROM customer",
        "SELECT status, 1 AS source FROM orders WHERE qty = 3 UNION ALL SELECT name, 2 FROM customer",
    ),
    Case(
        "union of kinds that are one number", "union-all",
        "SELECT id, '1' AS kind FROM region UNION SELECT id, '01' FROM region UNION SELECT id, "
        "parent_id FROM region",
        "SELECT id, '1' AS kind FROM region UNION ALL SELECT id, '01' FROM region UNION ALL "
        "SELECT id, parent_id FROM region",
    ),
    Case(
        "union after a join without a key", "union-all",
        "SELECT o.id, 'a' AS k FROM orders o JOIN tag t ON t.order_id = o.id UNION SELECT id, 'b' FROM "
        "region",
        "SELECT o.id, 'a' AS k FROM orders o JOIN tag t ON t.order_id = o.id UNION ALL SELECT id, 'b' "
        "FROM region",
    ),
    Case(
        "NOT NULL that is not validated", "",
        "SELECT id FROM region WHERE id NOT IN (SELECT id FROM late_null)",
        "SELECT id FROM region r WHERE NOT EXISTS (SELECT 1 FROM late_null n WHERE n.id = r.id)",
        version=18,
    ),
)  # fmt: skip
