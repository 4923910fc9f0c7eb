-- The same scan three times. The filler is in no index, so each must read the table.

-- name: first
SELECT count(filler) FROM pgbench_accounts;

-- name: second
SELECT count(filler) FROM pgbench_accounts;

-- name: third
SELECT count(filler) FROM pgbench_accounts;
