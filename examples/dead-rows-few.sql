-- 28 rows of 1000 get a new version, spread over the whole table: 2.7 % of all row versions are then dead.
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 1000 < 28;
