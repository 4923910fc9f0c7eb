CREATE INDEX accounts_by_branch ON pgbench_accounts (bid, abalance);
