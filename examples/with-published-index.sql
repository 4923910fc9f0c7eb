-- The index of the published experiment, on bid alone.
CREATE INDEX accounts_of_branches ON pgbench_accounts (bid);
