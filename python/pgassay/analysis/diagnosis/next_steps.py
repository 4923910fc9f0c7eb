"""What to look at next on a running server, for each cause; and what a trial's advice would be wrong in."""

from pgassay.model.cause import CauseName, Layer

# One sentence each: where the evidence goes on, and not yet what to change.
NEXT: dict[CauseName, str] = {
    "storage-throughput": "Look which statements read most (shared_blks_read of pg_stat_statements) and "
    "whether their tables could stay in memory; 'pgassay probe' says what the device can do.",
    "storage-iops": "Look which statements fetch single pages (index scans, idx_blks_read of "
    "pg_statio_user_tables); 'pgassay probe' says what the device can do.",
    "storage-latency": "Compare effective_io_concurrency and io_method on a copy of the data: "
    "'pgassay compare effective_io_concurrency=1,16,64'; and ask the provider for the volume's latency.",
    "throttle-change": "Look at the volume's burst credits and limits at the time named.",
    "backend-core": "Look at the plan of the statement that takes most time (EXPLAIN (ANALYZE, BUFFERS)), "
    "and whether it is called oftener than needed.",
    "all-cores": "Look which statements take most time (total_exec_time of pg_stat_statements), and what "
    "else uses this machine's processors.",
    "cpu-quota": "Look at the quota of the container or the service: cpu.max of its control group.",
    "too-few-io-workers": "Look at pg_aios: handles that wait to be taken up by a worker.",
    "too-many-io-workers": "Compare io_workers on a copy of the data: 'pgassay compare io_workers=2,4,8'.",
    "cached": "Look which statements go through most pages (shared_blks_hit and shared_blks_read of "
    "pg_stat_statements): pages come from memory, so fewer of them is what helps.",
    "no-aio": "Look at the plans: only sequential and bitmap heap scans read asynchronously.",
    "row-locks": "Look at the head of the chain of locks below, what its transaction does after it took the "
    "row, and which statements wait for it.",
    "lwlocks": "Look how many connections are busy at a time, and what the lock that is named protects "
    "(table 'Wait Events of Type LWLock' of PostgreSQL's manual).",
    "wal-fsync": "Look how long a write of WAL takes on its device ('pgassay probe' on pg_wal's folder "
    "measures durable writes), and how many transactions commit one row each.",
    "checkpoint": "Look at the log's 'checkpoints are occurring too frequently', and how much WAL is written "
    "in checkpoint_timeout.",
    "temp-spill": "Set log_temp_files = 0 for a while to see which statements spill, and how much.",
    "autovacuum": "Look at pg_stat_progress_vacuum and at the tables it comes back to.",
    "bloat": "Look at n_dead_tup and last_autovacuum of pg_stat_user_tables for the table named.",
    "bloat-held": "Look what the holder named does, and who would miss it if it ended.",
    "discarding-scan": "Look at the plan of the statement that scans the table, and at the columns of its "
    "filter.",
    "network": "Look at the round trip between the application and the server, and how many statements one "
    "request sends.",
    "client-bound": "Look what the applications named among the busy statements do between the statements of "
    "one transaction.",
    "connections": "Look whether the application has a pool, and of which size.",
    "memory": "Look at the cap on the container's memory and at shared_buffers within it.",
    "noise": "Look at the other processes named: what are they for, and could they run elsewhere?",
    "unknown": "Look at the account of the time and at the statements that were seen most often.",
}
IDLE_NEXT = "Look when the server is busy: nothing that limits it can be seen while it has no work."
# Where a live server's cause needs other words or another layer than that of a measured trial.
REMEDIES: dict[CauseName, tuple[Layer, str]] = {
    "client-bound": (
        "design",
        "Let transactions end before their client does anything else, and send their statements together: "
        "each open one keeps its locks and its snapshot.",
    ),
    "cached": (
        "design",
        "Go through fewer pages: an index, a smaller result, a materialised view. Faster storage would "
        "change nothing.",
    ),
    "noise": (
        "operations",
        "Move what else runs on this machine elsewhere, or give the server processors of its own.",
    ),
    "all-cores": (
        "infrastructure",
        "Do less work per transaction, move other programs to another machine, or add processors.",
    ),
}
