-- The index that examples/with-index.toml tries.
CREATE INDEX accounts_by_branch ON pgbench_accounts (bid, abalance);
