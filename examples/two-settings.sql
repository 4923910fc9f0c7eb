-- Statements of a report over the pgbench tables; each is timed on its own under its name.

-- name: sort
-- Sorting half a million rows by something that no index gives.
SELECT max(rank) FROM (SELECT rank() OVER (ORDER BY md5(aid::text)) AS rank FROM pgbench_accounts) AS ranked;

-- name: group
-- A hash table of fifty thousand groups.
SELECT count(*) FROM (SELECT aid % 50000, sum(abalance) FROM pgbench_accounts GROUP BY aid % 50000) AS grouped;

-- name: self-join
SELECT count(*) FROM pgbench_accounts a JOIN pgbench_accounts b ON a.aid = b.aid + 1 WHERE b.abalance = 0;
