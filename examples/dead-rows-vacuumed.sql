-- As with half of the versions dead; then VACUUM, which removes them and leaves the table as large as it is.
UPDATE pgbench_accounts SET abalance = abalance + 1;
VACUUM pgbench_accounts;
