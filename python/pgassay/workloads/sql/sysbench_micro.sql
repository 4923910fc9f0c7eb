-- name: hot-points
SELECT id, k, c, pad FROM sbtest1 WHERE id IN (1);

-- name: point-query
SELECT c FROM sbtest1 WHERE id=1;

-- name: points-covered-pk
SELECT id FROM sbtest1 WHERE id IN (1);

-- name: points-covered-si
SELECT k FROM sbtest1 WHERE k IN (1);

-- name: points-notcovered-pk
SELECT c FROM sbtest1 WHERE id IN (1);

-- name: points-notcovered-si
SELECT c FROM sbtest1 WHERE k IN (1);

-- name: random-points
SELECT id, k, c, pad FROM sbtest1 WHERE id IN (1);

-- name: random-points-1000
SELECT id, k, c, pad FROM sbtest1 WHERE id IN (1);

-- name: range-covered-pk
SELECT id FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: range-covered-si
SELECT k FROM sbtest1 WHERE k BETWEEN 1 AND 100;

-- name: range-notcovered-pk
SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: range-notcovered-si
SELECT c FROM sbtest1 WHERE k BETWEEN 1 AND 100;

-- name: scan
SELECT * FROM sbtest1 WHERE length(c) < 0;

-- name: read-only
SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c;

-- name: read-only-count
SELECT count(c) FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: read-only-distinct
SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c;

-- name: read-only-order
SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c;

-- name: read-only-simple
SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: read-only-sum
SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 1 AND 100;

-- name: update-index
UPDATE sbtest1 SET k=k+1 WHERE id=1;

-- name: update-nonindex
UPDATE sbtest1 SET c='-' WHERE id=1;

-- name: update-inlist
UPDATE sbtest1 SET k=k+1 WHERE id IN (1);

-- name: update-one
UPDATE sbtest1 SET c='-' WHERE id=1;

-- name: update-zipf
UPDATE sbtest1 SET c='-' WHERE id=1;

-- name: read-write
UPDATE sbtest1 SET k=k+1 WHERE id=1;

-- name: write-only
UPDATE sbtest1 SET k=k+1 WHERE id=1;

-- name: insert
INSERT INTO sbtest1 (k, c, pad) VALUES (1, '-', '-');

-- name: delete
DELETE FROM sbtest1 WHERE id=1;
