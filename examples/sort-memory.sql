-- name: sort
SELECT aid, abalance FROM pgbench_accounts ORDER BY md5(aid::text) OFFSET 100000000;
