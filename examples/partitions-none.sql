-- All accounts in one table, without an index.
CREATE TABLE accounts AS SELECT * FROM pgbench_accounts;
VACUUM (FREEZE, ANALYZE) accounts;
