-- The index that examples/with-index.toml tries: made once on that arm's own copy of the data.
CREATE INDEX accounts_by_branch ON pgbench_accounts (bid, abalance);
VACUUM (ANALYZE) pgbench_accounts;
