-- Every row gets a new version: half of all row versions are dead, and the table is twice as large.
UPDATE pgbench_accounts SET abalance = abalance + 1;
