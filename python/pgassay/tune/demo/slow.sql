-- name: slow-list
-- weight: 20
SELECT id, placed, total FROM orders WHERE customer_id = 4242 ORDER BY placed DESC LIMIT 20;
-- name: join-that-is-not-slow
-- weight: 100
SELECT c.name, sum(i.amount) FROM customers c JOIN invoices i ON i.customer_id = c.id WHERE c.id = 77 GROUP BY c.name;
-- name: aggregation
-- weight: 2
SELECT c.name, sum(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name;
-- name: partition-pruning
-- weight: 10
SELECT count(*) FROM visits WHERE date_trunc('month', seen) = timestamp '2024-02-01';
-- name: dead-rows
-- weight: 20
SELECT sum(left_over) FROM stock;
-- name: work-mem
SELECT sum(total) FROM (SELECT total, row_number() OVER (ORDER BY note, placed DESC) AS place FROM orders) AS ranked WHERE place % 2 = 0;
