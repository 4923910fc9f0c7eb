-- The index of the published experiment, on bid alone: made once on that arm's own copy of the data.
CREATE INDEX accounts_of_branches ON pgbench_accounts (bid);
VACUUM (ANALYZE) pgbench_accounts;
