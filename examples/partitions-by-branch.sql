-- All accounts in one partition for each branch, without an index.
CREATE TABLE accounts (LIKE pgbench_accounts) PARTITION BY LIST (bid);
DO $$
DECLARE
    branch int;
BEGIN
    FOR branch IN SELECT bid FROM pgbench_branches ORDER BY bid LOOP
        EXECUTE format('CREATE TABLE accounts_%s PARTITION OF accounts FOR VALUES IN (%s)', branch, branch);
    END LOOP;
END $$;
INSERT INTO accounts SELECT * FROM pgbench_accounts;
VACUUM (FREEZE, ANALYZE) accounts;
-- It is not read again, and each set of copies is smaller without it.
TRUNCATE pgbench_accounts;
