-- name: update-account
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;

-- name: select-account
SELECT abalance FROM pgbench_accounts WHERE aid = 1;

-- name: insert-history
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, 1, CURRENT_TIMESTAMP);
