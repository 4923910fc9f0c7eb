"""Plants of waiting for each other and of the WAL: a hot row, a lock in the server, slow syncs, checkpoints.

Each transaction does work of its own that takes a known time without using anything (`pg_sleep`): it stands
for what a transaction does beside the plant, so that lifting it can be predicted.
"""

from plants.base import Plant
from plants.reading import IMAGE

# In memory: it answers at once, and no page cache does so in its place.
MEMORY_IMAGE = f"{IMAGE},path=/dev/shm"

_OWN_WORK = """
CREATE FUNCTION plant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {work}
    RETURN NULL;
END $$;
CREATE TRIGGER plant AFTER INSERT ON pgbench_history FOR EACH ROW EXECUTE FUNCTION plant();
"""
# 100 kB of WAL, whatever the transaction does.
WAL_MESSAGE = "PERFORM pg_logical_emit_message(false, 'plant', repeat('x', 100000));"
NO_SYNC = {"synchronous_commit": "off"}


def trigger(work: str) -> str:
    """SQL after which every transaction that writes does this."""
    return _OWN_WORK.format(work=work)


def counting(rows: int, held_s: float, own_s: float) -> str:
    """Each transaction works on its own, then counts itself in one of `rows` rows, which it holds a while."""
    table = (
        "CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10);\n"
        "INSERT INTO counters SELECT number, 0 FROM generate_series(0, 999) number;\n"
    )
    steps = (
        f"PERFORM pg_sleep({own_s}); UPDATE counters SET n = n + 1 WHERE id = NEW.aid % {rows}; "
        f"PERFORM pg_sleep({held_s});"
    )
    return table + trigger(steps)


def row_locks(clients: int) -> Plant:
    """A row that every transaction updates and holds for 4 ms; beside it a thousand rows."""
    return Plant(
        "row-locks",
        f"{clients} connections",
        "prepare=hot.sql,spread.sql",
        f"simple-update:clients={clients},duration=2s,warmup=1s",
        settings=NO_SYNC,
        files={"hot.sql": counting(1, 0.004, 0.012), "spread.sql": counting(1000, 0.004, 0.012)},
    )


def relation_lock(clients: int) -> Plant:
    """A table that every transaction locks and holds for 4 ms, more strongly or less than others allow."""
    mode = "PERFORM pg_sleep(0.012); LOCK TABLE gate IN {} MODE; PERFORM pg_sleep(0.004);"
    table = "CREATE TABLE gate ();\n"
    return Plant(
        "object-locks",
        f"{clients} connections",
        "prepare=strong.sql,weak.sql",
        f"simple-update:clients={clients},duration=2s,warmup=1s",
        settings=NO_SYNC,
        files={
            "strong.sql": table + trigger(mode.format("ACCESS EXCLUSIVE")),
            "weak.sql": table + trigger(mode.format("ROW SHARE")),
        },
    )


def lwlocks(clients: int) -> Plant:
    """Replication slots are made under one lock for all, which is held while each is written and synced."""
    slot = (
        "PERFORM pg_sleep(0.15); "
        "PERFORM pg_create_physical_replication_slot('plant_' || pg_backend_pid(), false, true);"
        "PERFORM pg_drop_replication_slot('plant_' || pg_backend_pid());"
    )
    return Plant(
        "lwlocks",
        f"{clients} connections",
        f"storage={MEMORY_IMAGE},write_iops=800,{MEMORY_IMAGE},write_iops=500000",
        f"simple-update:clients={clients},duration=3s,warmup=1s",
        options=("--prepare", "slots.sql"),
        settings={**NO_SYNC, "max_replication_slots": "100"},
        needs=("loop", "rate-limits", "memory-disk"),
        files={"slots.sql": trigger(slot)},
    )


def wal_fsync(writes_s: int) -> Plant:
    """Commits that wait for a device of few writes per second; the other arm's don't wait."""
    return Plant(
        "wal-fsync",
        f"{writes_s} writes/s",
        "synchronous_commit=on,off",
        # A limit of writes lets some through at once after a pause.
        "simple-update:clients=4,duration=8s,warmup=3s",
        options=("--storage", f"{IMAGE},write_iops={writes_s}", "--prepare", "work.sql"),
        needs=("loop", "rate-limits"),
        files={"work.sql": trigger("PERFORM pg_sleep(0.03);")},
    )


def checkpoint(max_wal_size: str) -> Plant:
    """Checkpoints that the amount of WAL asks for, every other second."""
    return Plant(
        "checkpoint",
        f"max_wal_size={max_wal_size}",
        f"max_wal_size={max_wal_size},4GB",
        "simple-update:clients=4,duration=5s,warmup=1s",
        options=("--prepare", "wal.sql"),
        settings=NO_SYNC,
        files={"wal.sql": trigger(f"{WAL_MESSAGE} PERFORM pg_sleep(0.008);")},
    )


PLANTS = (
    row_locks(16),
    row_locks(10),
    relation_lock(16),
    relation_lock(10),
    lwlocks(32),
    lwlocks(48),
    wal_fsync(50),
    wal_fsync(25),
    checkpoint("32MB"),
    checkpoint("64MB"),
)
