-- name: skip-scan
SELECT count(*), max(aid) FROM pgbench_accounts WHERE abalance > 4900;
