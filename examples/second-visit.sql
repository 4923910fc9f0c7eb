-- name: first
SELECT count(filler) FROM pgbench_accounts;

-- name: second
SELECT count(filler) FROM pgbench_accounts;
