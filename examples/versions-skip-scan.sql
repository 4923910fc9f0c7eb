-- name: count
SELECT count(*) FROM pgbench_accounts WHERE abalance > 4900;

-- name: rows
SELECT count(*), max(aid) FROM pgbench_accounts WHERE abalance > 4910;
