-- name: report-per-teller
SELECT t.tid, count(*) AS accounts, sum(a.abalance) AS balance
  FROM pgbench_accounts a JOIN pgbench_tellers t ON t.bid = a.bid
 WHERE t.bid = 1
 GROUP BY t.tid
 ORDER BY t.tid;
