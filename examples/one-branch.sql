-- name: first-accounts-of-a-branch
SELECT aid, abalance FROM pgbench_accounts WHERE bid = 1 ORDER BY abalance DESC LIMIT 50;
