-- One row in 300: about every fifth page of the table, too far apart for the device's read-ahead.

-- name: scattered-pages
SELECT count(filler) FROM pgbench_accounts WHERE aid = ANY (ARRAY(SELECT generate_series(1, 2000000, 300)));
