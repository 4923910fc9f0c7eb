"""The experiments of the frozen set that are run on real servers: what is typed, and the files it names."""

FILES = {
    "sort.sql": "-- name: sort\nSELECT count(*) FROM (SELECT DISTINCT abalance, filler, aid "
    "FROM pgbench_accounts WHERE aid <= 20000) t;\n\n"
    "-- name: sum\nSELECT sum(abalance) FROM pgbench_accounts;\n",
    "join.sql": "-- name: report\nSELECT count(*) FROM pgbench_accounts a "
    "JOIN pgbench_branches b USING (bid);\n",
    "subquery.sql": "-- name: report\nSELECT sum((SELECT count(*) FROM pgbench_branches b "
    "WHERE b.bid = a.bid))::bigint FROM pgbench_accounts a;\n",
    "by-branch.sql": "-- name: teller\nSELECT count(*) FROM pgbench_tellers WHERE tid = 3;\n\n"
    "-- name: accounts\nSELECT sum(abalance) FROM pgbench_accounts WHERE aid % 1000 = 7;\n",
    "vacuum.sql": "-- untimed\nDELETE FROM pgbench_accounts WHERE aid % 3 = 0;\n\n"
    "-- name: vacuum\nVACUUM pgbench_accounts;\n\n-- name: analyze\nANALYZE pgbench_accounts;\n",
    "index.sql": "-- name: create\nCREATE INDEX by_filler ON pgbench_accounts (filler, aid);\n\n"
    "-- name: reindex\nREINDEX TABLE pgbench_accounts;\n",
    # Every trial of one arm fails, so that its blocks are void.
    "fails-at-one-level.sql": "-- name: division\nSELECT 1 / (current_setting('work_mem') = '4MB')::int;\n",
    # Some attempts fail, so that trials are repeated and some blocks are void.
    "fails-at-times.sql": "-- name: division\nSELECT 1 / (random() > 0.35)::int;\n",
    "wait.sql": "-- name: wait\nSELECT pg_sleep(0.6);\n\n"
    "-- name: count\nSELECT count(*) FROM pgbench_accounts;\n",
    "by-setting.sql": "-- name: wait\n"
    "SELECT pg_sleep(CASE current_setting('work_mem') WHEN '8MB' THEN 0.06 ELSE 0.006 END);\n",
    "shop.sql": "CREATE TABLE orders AS SELECT n AS id, n % 97 AS customer, repeat('x', 200) AS note "
    "FROM generate_series(1, 20000) n;\nALTER TABLE orders ADD PRIMARY KEY (id);\n",
    "shop-report.sql": "-- name: customers\nSELECT customer, count(*) FROM orders GROUP BY 1;\n\n"
    "-- name: one\nSELECT note FROM orders WHERE id = 4711;\n",
    "experiment.toml": 'workload = "sql:sort.sql"\nscale = 1\nblocks = 2\nseed = 5\n\n'
    "[factors]\nenable_hashagg = ['on', 'off']\njit = ['off', 'on']\n\n[set]\nshared_buffers = '64MB'\n",
}
SMALL = ("--scale", "1", "--set", "shared_buffers=64MB")
SEED = "1789"


def _compare(factors: str, options: str) -> tuple[str, ...]:
    return ("compare", *factors.split(), *options.split(), *SMALL, "--seed", SEED)


# Name → the words after `pgassay`; `--out` and `--quiet` are added.
PLANS: dict[str, tuple[str, ...]] = {
    "io-method-cold-each": _compare(
        "io_method=sync,worker,io_uring", "--workload full-scan --cache cold-each --blocks 4"
    ),
    "io-method-cold": _compare(
        "io_method=sync,io_uring", "--workload full-scan:only=sum --cache cold --blocks 2"
    ),
    "setting-warm-buffers": _compare(
        "work_mem=64kB,64MB", "--workload sql:sort.sql --cache warm-buffers --blocks 8"
    ),
    "setting-warm-pages": _compare("jit=off,on", "--workload sql:sort.sql --cache warm-pages --blocks 2"),
    "setting-as-is": _compare("jit=on,off", "--workload sql:sort.sql --cache as-is --blocks 2 --margin 0.5"),
    "versions": _compare("build=npm:16,npm:17,npm:18", "--workload sql:sort.sql --blocks 2"),
    "grid-io-method-clients": _compare(
        "io_method=sync,worker clients=1,2", "--workload select-only:duration=1s,warmup=0s --blocks 2"
    ),
    "grid-settings": _compare(
        "work_mem=64kB,4MB,64MB enable_hashagg=on,off", "--workload sql:sort.sql --blocks 2 --control 4MB"
    ),
    "read-ahead": _compare(
        "read_ahead=0,1024",
        "--workload full-scan:only=sum --cache cold-each --storage loop:size=1GB --blocks 3",
    ),
    "storage-grid": _compare(
        "io_method=sync,io_uring storage=loop:size=1GB,loop:size=1GB,read_mb_s=60",
        "--workload full-scan:only=read-table --cache cold-each --blocks 2",
    ),
    "tpcb-synchronous-commit": _compare(
        "synchronous_commit=on,off",
        "--workload tpcb:duration=3s,warmup=1s,clients=2 --blocks 3 --observe fast",
    ),
    "tpcb-wal": _compare(
        "full_page_writes=on,off", "--workload tpcb:duration=1s,warmup=0s,clients=1 --blocks 2 --observe off"
    ),
    "simple-update": _compare(
        "synchronous_commit=on,off",
        "--workload simple-update:duration=1s,warmup=0s,protocol=simple --blocks 2",
    ),
    "clients": _compare("clients=1,2,4", "--workload select-only:duration=1s,warmup=0s --blocks 2 --no-pool"),
    "oltp-read-only": (
        *("compare", "range_size=10,1000", "--set", "shared_buffers=64MB", "--blocks", "2", "--seed", SEED),
        *("--workload", "oltp_read_only:tables=2,table_size=2000,duration=1s,warmup=0s"),
    ),
    "two-statements": _compare("sql=subquery.sql,join.sql", "--blocks 3 --cache warm-buffers"),
    "prepare": (
        *("compare", "prepare=none,CREATE INDEX ON pgbench_accounts ((aid % 1000)) INCLUDE (abalance)"),
        *("--workload", "sql:by-branch.sql", "--blocks", "3", *SMALL, "--seed", SEED),
    ),
    "maintenance-vacuum": _compare(
        "maintenance_work_mem=64kB,64MB", "--workload maintenance:vacuum.sql --blocks 2"
    ),
    "maintenance-index": _compare(
        "max_parallel_maintenance_workers=0,2", "--workload maintenance:index.sql --blocks 2"
    ),
    "equal-copies": _compare("copy=first,second", "--workload sql:sort.sql --blocks 3"),
    "memory": _compare("memory=400MB,1GB", "--workload full-scan:only=sum --cache cold-each --blocks 2"),
    "processors": _compare("cpus=0.5,2", "--workload sql:sort.sql --cache warm-pages --blocks 2"),
    "own-script": (
        *("compare", "work_mem=64kB,64MB", "--workload", "sql:shop-report.sql"),
        *("--dataset", "script:shop.sql"),
        *("--set", "shared_buffers=64MB", "--blocks", "2", "--seed", SEED),
    ),
    "own-dump": (
        *("compare", "enable_hashagg=on,off", "--workload", "sql:shop-report.sql"),
        *("--dataset", "dump:shop-dump.sql"),
        *("--set", "shared_buffers=64MB", "--blocks", "2", "--seed", SEED),
    ),
    "fails-at-one-level": _compare("work_mem=4MB,8MB", "--workload sql:fails-at-one-level.sql --blocks 4"),
    "fails-at-times": _compare("work_mem=4MB,8MB", "--workload sql:fails-at-times.sql --blocks 6"),
    "unavailable-level": _compare(
        "io_method=sync,worker,io_uring",
        "--pg npm:18 --workload full-scan:only=sum --cache warm-pages --blocks 2 --skip-unavailable",
    ),
    "covariate": _compare("work_mem=64kB,64MB", "--workload sql:sort.sql --blocks 3 --covariate canary"),
    "from-a-file": ("run", "experiment.toml"),
    "calibrated": ("calibrate", "--workload", "sql:sort.sql", "--blocks", "3", *SMALL, "--seed", SEED),
    "limit-of-time": _compare(
        "random_page_cost=4,1.1", "--workload sql:by-branch.sql --blocks 2 --max-time 5m"
    ),
}
