-- Every row gets a new version, so that the table holds as many dead row versions as live ones.

-- untimed
UPDATE pgbench_accounts SET abalance = abalance + 1;

-- name: vacuum
VACUUM pgbench_accounts;
