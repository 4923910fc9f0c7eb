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

-- name: update-index
UPDATE sbtest1 SET k=k+1 WHERE id=1;

-- name: update-non-index
UPDATE sbtest1 SET c='-' WHERE id=1;

-- name: delete-row
DELETE FROM sbtest1 WHERE id=1;

-- name: insert-row
INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, 1, '-', '-');

-- name: random-points
SELECT id, k, c, pad FROM sbtest1 WHERE k IN (1);

-- name: random-ranges
SELECT count(k) FROM sbtest1 WHERE k BETWEEN 1 AND 6;
