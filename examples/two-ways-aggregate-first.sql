-- name: report-per-teller
SELECT t.tid, a.accounts, a.balance
  FROM (SELECT bid, count(*) AS accounts, sum(abalance) AS balance
          FROM pgbench_accounts WHERE bid = 1 GROUP BY bid) a
  JOIN pgbench_tellers t ON t.bid = a.bid
 ORDER BY t.tid;
