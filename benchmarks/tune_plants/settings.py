"""Planted: settings of the server that don't suit the statements or the machine."""

from pgassay.tune.candidate import AdvisedMachine
from tune_plants.base import Draw, Drawn, Plant, filled, setting_is, statement
from tune_plants.indexes import scattered

GB = 1 << 30


def _sort(draw: Draw) -> Drawn:
    """A sort on disk; decoy: enough work_mem."""
    table, rows = draw.table(), draw.rows(150_000, 200_000)
    setup = filled(table, "id integer, k text", rows, ["i", "md5(i::text)"])
    return Drawn(
        setup, (statement(f"SELECT * FROM {table} ORDER BY k"),), setting_is("work_mem"),
        settings={"work_mem": "64MB" if draw.decoy else "64kB"}, machine=AdvisedMachine(memory_bytes=16 * GB),
    )  # fmt: skip


def _bitmap(draw: Draw) -> Drawn:
    """A bitmap that keeps pages without their rows; decoy: it has room."""
    table, k, rows = draw.table(), draw.column(), draw.rows(300_000, 350_000)
    setup = filled(
        table, f"id integer, {k} integer, filler text", rows, ["i", "hashint4(i) & 1023", "repeat('y', 30)"]
    )  # fmt: skip
    setup += (f"CREATE INDEX ON {table} ({k})", f"VACUUM ANALYZE {table}")
    first = draw.size(1, 500)
    sql = f"SELECT count(filler || id) FROM {table} WHERE {k} BETWEEN {first} AND {first + 15}"
    room = "16MB" if draw.decoy else "64kB"
    return Drawn(
        setup, (statement(sql),), setting_is("work_mem"),
        settings={"work_mem": room, "enable_seqscan": "off", "enable_indexscan": "off"},
        machine=AdvisedMachine(memory_bytes=16 * GB),
    )  # fmt: skip


def _not_hashed(draw: Draw) -> Drawn:
    """NOT IN of an expression, which is no join, whose rows are too many to be hashed; decoy: they fit."""
    one, many = draw.table(), draw.table()
    rows = draw.size(6_000, 9_000)
    setup = filled(one, "id integer NOT NULL", rows // 10, ["i"])
    setup += filled(many, "k integer NOT NULL", rows, ["i + 50"])
    return Drawn(
        setup, (statement(f"SELECT count(*) FROM {one} WHERE id NOT IN (SELECT k + 1 FROM {many})"),),
        setting_is("work_mem", "hash_mem_multiplier"),
        settings={"work_mem": "16MB" if draw.decoy else "64kB"}, machine=AdvisedMachine(memory_bytes=16 * GB),
    )  # fmt: skip


def _buffers(draw: Draw) -> Drawn:
    """A table that is read from the system each time; decoy: it fits."""
    table, rows = draw.table(), draw.rows(200_000, 250_000)
    setup = filled(table, "id integer, filler text", rows, ["i", "repeat('y', 250)"])
    return Drawn(
        setup, (statement(f"SELECT count(filler) FROM {table}"),), setting_is("shared_buffers"),
        settings={"shared_buffers": "512MB" if draw.decoy else "16MB"},
        machine=AdvisedMachine(memory_bytes=8 * GB),
    )  # fmt: skip


def _random_page_cost(draw: Draw) -> Drawn:
    """An index that the planner finds too dear for pages in memory; decoy: the cost is right already."""
    one, many, rows = draw.table(), draw.table(), draw.rows(150_000, 200_000)
    setup = filled(one, "id integer PRIMARY KEY, s integer", rows // 10, ["i", "i % 5"])
    setup += filled(
        many, f"k integer, n integer, {draw.filler()}", rows, [scattered(rows // 10), "i", "repeat('y', 30)"]
    )
    setup += (f"CREATE INDEX ON {many} (k)", f"VACUUM ANALYZE {many}")
    sql = (
        f"SELECT sum(m.n), max(m.filler) FROM {one} o JOIN {many} m ON m.k = o.id "
        f"WHERE o.id <= {draw.size(120, 180)}"
    )
    return Drawn(
        setup, (statement(sql),), setting_is("random_page_cost", "effective_cache_size"),
        settings={
            "random_page_cost": "1.1" if draw.decoy else "40",
            "effective_cache_size": "6GB" if draw.decoy else "1MB",
        },
        machine=AdvisedMachine(memory_bytes=8 * GB, reads_memory=True),
    )  # fmt: skip


def _parallel(draw: Draw) -> Drawn:
    """A long aggregate in one process; decoy: a short one."""
    table = draw.table()
    rows = 20_000 if draw.decoy else draw.rows(600_000, 700_000)
    setup = filled(table, "id integer, n numeric", rows, ["i", "i * 1.5"])
    return Drawn(
        setup, (statement(f"SELECT n % 7, sum(n * n), avg(n) FROM {table} GROUP BY 1"),),
        setting_is("max_parallel_workers_per_gather"),
        settings={"max_parallel_workers_per_gather": "0"}, machine=AdvisedMachine(processors=4),
        processors_min=2,
    )  # fmt: skip


def _workers_taken(draw: Draw) -> Drawn:
    """As before, one worker allowed of four processors; decoy: two processors, which two processes use."""
    table, rows = draw.table(), draw.rows(600_000, 700_000)
    setup = filled(table, "id integer, n numeric", rows, ["i", "i * 1.5"])
    return Drawn(
        setup, (statement(f"SELECT sum(n * n), avg(n), max(n % 7) FROM {table}"),),
        setting_is("max_parallel_workers_per_gather"),
        settings={"max_parallel_workers_per_gather": "1"},
        machine=AdvisedMachine(processors=2 if draw.decoy else 4), processors_min=2 if draw.decoy else 3,
    )  # fmt: skip


def _requested_checkpoints(draw: Draw) -> Drawn:
    """Checkpoints by the WAL's size, again and again; decoy: a size that lasts."""
    table, rows = draw.table(), draw.rows(60_000, 80_000)
    setup = filled(
        table, "id integer PRIMARY KEY, n integer, filler text", rows, ["i", "0", "repeat('y', 200)"]
    )
    setup += (
        "DO $$BEGIN PERFORM pg_stat_reset_shared(CASE WHEN "
        "current_setting('server_version_num')::int < 170000 "
        "THEN 'bgwriter' ELSE 'checkpointer' END); END$$",
        "CREATE TABLE loaded (filler text)",
    )
    setup += (
        "INSERT INTO loaded SELECT repeat('z', 900) FROM generate_series(1, 40000)",
        "TRUNCATE loaded",
    ) * 5
    setup += ("CHECKPOINT",)
    first = draw.size(1, 1000)
    sql = f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {first} AND {first + draw.size(9_000, 12_000)}"
    return Drawn(
        setup, (statement(sql, writes=True),), setting_is("max_wal_size"),
        settings={"max_wal_size": "4GB" if draw.decoy else "32MB", "min_wal_size": "32MB"}, executions=1,
        counted={} if draw.decoy else {"checkpoints_timed": 1, "checkpoints_requested": draw.size(20, 90)},
    )  # fmt: skip


PLANTS = (
    Plant("work-mem-sort", "work-mem", _sort),
    Plant("work-mem-bitmap", "work-mem", _bitmap),
    Plant("work-mem-subplan", "work-mem", _not_hashed),
    Plant("shared-buffers", "shared-buffers", _buffers),
    Plant("random-page-cost", "planner-costs", _random_page_cost),
    Plant("parallel-none", "parallel", _parallel),
    Plant("parallel-few", "parallel", _workers_taken),
    Plant("checkpoints-requested", "wal", _requested_checkpoints),
)
