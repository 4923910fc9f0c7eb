-- name: balance-of-all
SELECT count(*), sum(abalance) FROM fresh_accounts WHERE bid > 0;
