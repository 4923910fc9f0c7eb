-- The five statements of the published comparison of io_method, run after a restart, and a sixth.

-- name: count
-- An index-only scan on a vacuumed table: it reads the key, not the table.
SELECT count(*) FROM pgbench_accounts;

-- name: sum
SELECT sum(abalance) FROM pgbench_accounts;

-- name: group
SELECT aid % 1000 AS remainder, count(*), avg(abalance) FROM pgbench_accounts GROUP BY aid % 1000;

-- name: join
SELECT count(*) FROM pgbench_accounts a JOIN pgbench_branches b ON a.bid = b.bid;

-- name: filter
SELECT count(*) FROM pgbench_accounts WHERE abalance > 0;

-- name: read-table
-- The filler is in no index: this one must read the table.
SELECT count(filler) FROM pgbench_accounts;
