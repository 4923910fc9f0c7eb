-- name: point-select
SELECT c FROM sbtest1 WHERE id=1;

-- name: simple-range
SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: sum-range
SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: order-range
SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c;

-- name: distinct-range
SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c;
