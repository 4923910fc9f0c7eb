-- Two thirds of the rows are left, and each of the others leaves a dead item in the index.

-- untimed
DELETE FROM pgbench_accounts WHERE aid % 3 = 0;

-- name: vacuum
VACUUM pgbench_accounts;
