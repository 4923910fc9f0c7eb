CREATE INDEX accounts_overdrawn ON pgbench_accounts (aid) WHERE abalance < 0;
