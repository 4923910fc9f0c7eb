"""Plants of the write side that no flush of WAL is: pages that leave shared buffers, files that grow, room in
the WAL's buffers, the status of transactions, a checkpoint that is waited for.

Direct I/O (`debug_io_direct`, 16 and newer) has each write wait for the disk, which no page cache hides.
"""

from plants.base import Plant
from plants.late import FOLDER, late_disk
from plants.reading import IMAGE, ROOM
from plants.writing import MEMORY_IMAGE, NO_SYNC, trigger

_LATE = f"storage={IMAGE},path={FOLDER},{ROOM},{MEMORY_IMAGE},{ROOM}"
_NEEDS = ("loop", "rate-limits", "late-disk", "memory-disk")
MESSAGE = "pg_logical_emit_message(false, 'plant', repeat('x', 100000))"
# Nobody but the connections writes pages.
_OWN_WRITES = {"bgwriter_lru_maxpages": "0", "max_wal_size": "4GB", "checkpoint_timeout": "1h", **NO_SYNC}
_DIRECT = {**_OWN_WRITES, "debug_io_direct": "data"}


def backend_writes(write_ms: float) -> Plant:
    """Buffers for a tenth of what is updated: each page that is read has to write another one first."""
    return Plant(
        "backend-writes",
        f"{write_ms:g} ms a write",
        _LATE,
        "simple-update:clients=4,duration=5s,warmup=2s",
        options=("--prepare", "work.sql"),
        scale=3,
        settings={**_DIRECT, "shared_buffers": "16MB"},
        needs=_NEEDS,
        files={"work.sql": trigger("PERFORM pg_sleep(0.006);")},
        outside=late_disk(write_ms=write_ms),
    )


def extension(write_ms: float) -> Plant:
    """Rows of a page each, which go to the end of one table."""
    rows = "INSERT INTO grown SELECT repeat('x', 6000);"
    return Plant(
        "extension",
        f"{write_ms:g} ms a write",
        _LATE,
        "simple-update:clients=4,duration=5s,warmup=1s",
        options=("--prepare", "grow.sql"),
        settings={**_DIRECT, "shared_buffers": "512MB"},
        needs=_NEEDS,
        files={
            "grow.sql": "CREATE TABLE grown (wide text STORAGE PLAIN);\n"
            + trigger(f"PERFORM pg_sleep(0.002); {rows}")
        },
        outside=late_disk(write_ms=write_ms),
    )


def wal_insert(write_ms: float) -> Plant:
    """100 kB of WAL a transaction through buffers of 32 kB, which are written before they are used again."""
    return Plant(
        "wal-insert",
        f"{write_ms:g} ms a write",
        "wal_buffers=32kB,64MB",
        "pgbench:file=wal.sql,writes=yes,clients=8,duration=5s,warmup=1s",
        options=("--storage", f"{IMAGE},path={FOLDER},{ROOM}"),
        settings={**_OWN_WRITES, "debug_io_direct": "wal"},
        needs=_NEEDS,
        # It changes no page, whose lock others would wait for.
        files={"wal.sql": f"SELECT pg_sleep(0.02), {MESSAGE};\n"},
        outside=late_disk(write_ms=write_ms),
    )


def subtransactions(clients: int) -> Plant:
    """An open transaction of 100 savepoints, and rows of many transactions whose parents are looked up.

    A prepared one stays open without a session (twophase.c, GXactLoadSubxactData).
    """
    rows = """
CREATE TABLE seen (id int PRIMARY KEY, n int);
CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN 1..300000 LOOP
        BEGIN
            INSERT INTO seen VALUES (number, 0);
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
    END LOOP;
END $$;
CREATE TABLE held (n int);
"""
    savepoints = "".join(f"SAVEPOINT s{n}; INSERT INTO held VALUES ({n});\n" for n in range(100))
    held = f"BEGIN;\n{savepoints}PREPARE TRANSACTION 'held';\n"
    call = "CALL fill();\n"
    lookup = """SELECT count(seen.n) FROM generate_series(1, 2000) number,
    LATERAL (SELECT n FROM seen WHERE id = (number * 7919) % 300000 + 1 OFFSET 0) seen;
"""
    return Plant(
        "slru",
        f"{clients} connections",
        "prepare=held.sql,free.sql",
        f"pgbench:file=lookup.sql,clients={clients},duration=5s,warmup=1s",
        settings={**_OWN_WRITES, "max_prepared_transactions": "4"},
        files={"held.sql": rows + held + call, "free.sql": rows + call, "lookup.sql": lookup},
    )


def checkpoint_wait(write_ms: float) -> Plant:
    """A script that asks for a checkpoint after each change, as DROP DATABASE does."""
    script = r"""\set account random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :account;
SELECT pg_sleep(0.1);
CHECKPOINT;
"""
    return Plant(
        "checkpoint-wait",
        f"{write_ms:g} ms a write",
        _LATE,
        "pgbench:file=asking.sql,writes=yes,clients=2,duration=5s,warmup=1s",
        settings=_DIRECT,
        needs=_NEEDS,
        files={"asking.sql": script},
        outside=late_disk(write_ms=write_ms),
    )


PLANTS = (
    backend_writes(10.0),
    backend_writes(16.0),
    extension(4.0),
    extension(8.0),
    wal_insert(2.0),
    wal_insert(5.0),
    checkpoint_wait(20.0),
    checkpoint_wait(40.0),
    subtransactions(8),
    subtransactions(16),
)
