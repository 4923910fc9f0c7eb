-- name: join
SELECT a.aid, a.abalance, t.tid
  FROM pgbench_accounts a
  JOIN pgbench_branches b ON b.bid = a.bid
  JOIN pgbench_tellers t ON t.bid = b.bid
 WHERE b.bid = 1
 ORDER BY a.abalance DESC
 LIMIT 50;

-- name: list
SELECT aid, abalance FROM pgbench_accounts WHERE bid = 1 ORDER BY abalance DESC LIMIT 50;
