-- name: balance
SELECT abalance FROM pgbench_accounts WHERE aid = 4711;
-- name: branch_list
SELECT aid, abalance FROM pgbench_accounts WHERE bid = 3 ORDER BY abalance DESC LIMIT 50;
-- name: overdrawn
SELECT count(*) FROM pgbench_accounts WHERE abalance < 0;
-- name: totals
SELECT bid, sum(abalance) FROM pgbench_accounts GROUP BY bid ORDER BY bid;
