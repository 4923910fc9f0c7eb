-- name: self-join
SELECT sum(a.abalance), max(b.filler)
FROM pgbench_accounts a JOIN pgbench_accounts b ON a.aid = b.aid
WHERE b.bid = 1;
