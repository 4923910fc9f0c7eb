-- All accounts in one table, without an index.
CREATE TABLE accounts AS SELECT * FROM pgbench_accounts;
VACUUM (FREEZE, ANALYZE) accounts;
-- It is not read again, and each set of copies is smaller without it.
TRUNCATE pgbench_accounts;
