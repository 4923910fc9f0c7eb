-- name: update-account
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;

-- name: select-account
SELECT abalance FROM pgbench_accounts WHERE aid = 1;

-- name: update-teller
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1;

-- name: update-branch
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;

-- name: insert-history
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, 1, CURRENT_TIMESTAMP);
