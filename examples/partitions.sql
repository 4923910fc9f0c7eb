-- The same questions of the table called "accounts": one names the key of its partitions, one does not.

-- name: with-key
SELECT count(*), sum(abalance) FROM accounts WHERE bid = 1;

-- name: with-key-known-later
SELECT count(*), sum(abalance) FROM accounts WHERE bid = (SELECT min(bid) FROM pgbench_branches);

-- name: without-key
SELECT count(*), sum(abalance) FROM accounts WHERE abalance >= 0;
