"""Plants of reading: a device's bytes, requests and latency, a dropping limit, little memory, I/O workers.

What lifting a cause gains can be told from the account of the time only while something else takes a part of
it. So every statement also does work of its own, which takes a known time (`pg_sleep`: it needs nothing that
other processes of the machine could take away).
"""

from dataclasses import replace

from plants.base import MARKED, Plant
from plants.late import FOLDER, late_disk
from plants.outside import burst_credit

# A volume of its own; data of scale 1 fit in it four times, with their WAL.
IMAGE = "loop:size=1280MB"
# Faster than anything that is read here, so that the device is known not to be full.
ROOM = "read_mb_s=4000,read_iops=500000"
COLD = ("--cache", "cold")
_LOOP = ("loop", "rate-limits")


def scan(own_s: float, scale: int = 1) -> str:
    """Read a table, 13 MB for each unit of scale, with work of one's own between."""
    each_s = own_s / 200
    return f"""-- name: scan
SELECT count(filler), max(CASE WHEN aid % {500 * scale} = 0 THEN pg_sleep({each_s:g})::text END)
FROM pgbench_accounts;
"""


def pages(count: int, own_s: float) -> str:
    """Read `count` pages of a table of scale 1 one by one by their key, with work of one's own between."""
    return f"""-- name: pages
SELECT count(page.filler), max(CASE WHEN number % 10 = 0 THEN pg_sleep({10 * own_s / count:g})::text END)
FROM generate_series(1, {count}) number,
    LATERAL (SELECT filler FROM pgbench_accounts WHERE aid = (number * 3163) % 100000 + 1 OFFSET 0) page;
"""


def throughput(mb_s: int, own_s: float) -> Plant:
    """A limit in bytes per second."""
    return Plant(
        "storage-throughput",
        f"{mb_s} MB/s",
        f"storage={IMAGE},read_mb_s={mb_s},{IMAGE},read_mb_s=4000",
        scan(own_s),
        options=COLD,
        needs=_LOOP,
    )


def iops(reads_s: int, own_s: float) -> Plant:
    """A limit in requests per second."""
    return Plant(
        "storage-iops",
        f"{reads_s} reads/s",
        f"storage={IMAGE},read_iops={reads_s},{IMAGE},read_iops=500000",
        pages(400, own_s),
        options=COLD,
        needs=_LOOP,
    )


def latency(each_ms: float, own_s: float) -> Plant:
    """Reads that wait for each other and for a disk that answers late, whose ceilings are far away."""
    return Plant(
        "storage-latency",
        f"{each_ms:g} ms a read",
        f"storage={IMAGE},path={FOLDER},{ROOM},{IMAGE},{ROOM}",
        pages(400, own_s),
        options=COLD,
        needs=(*_LOOP, "late-disk"),
        outside=late_disk(each_ms),
    )


def index_latency(each_ms: float, own_s: float) -> Plant:
    """Leaf pages of an index that are read one by one from a disk that answers late.

    No setting of asynchronous I/O reaches them, and the advice must say so.
    """
    plant = latency(each_ms, own_s)
    statements = f"""-- name: entries
SELECT count(entry.wide), max(CASE WHEN number % 10 = 0 THEN pg_sleep({10 * own_s / 400:g})::text END)
FROM generate_series(1, 400) number,
    LATERAL (
        SELECT wide FROM scattered WHERE wide = md5(((number * 3163) % 100000 + 1)::text) OFFSET 0
    ) entry;
"""
    table = (
        "CREATE TABLE scattered AS SELECT md5(aid::text) AS wide FROM pgbench_accounts;\n"
        "CREATE INDEX ON scattered (wide);\nVACUUM (FREEZE, ANALYZE) scattered;\n"
    )
    return replace(
        plant,
        magnitude=f"{each_ms:g} ms a page of an index",
        workload=statements,
        options=(*plant.options, "--prepare", "scattered.sql"),
        files={"scattered.sql": table},
        variant="index",
        advised="which effective_io_concurrency and asynchronous I/O do not change",
    )


def throttle_change(fast_mb_s: int, slow_mb_s: int, credit_mb: int, scale: int) -> Plant:
    """A burst credit that is used up half-way; changes are looked for in trials of 12 s and more."""
    return Plant(
        "throttle-change",
        f"from {fast_mb_s} to {slow_mb_s} MB/s",
        MARKED,
        scan(0.5, scale=scale),
        options=(*COLD, "--storage", f"{IMAGE},read_mb_s={fast_mb_s}"),
        scale=scale,
        needs=_LOOP,
        outside=burst_credit(credit_mb, slow_mb_s=slow_mb_s),
    )


def burst_credits(percent: float, own_s: float) -> Plant:
    """A volume whose burst credits end early in a scan of 210 MB, and the same with full ones.

    P4 gives 170 MB a second in a burst and 25 without; of its credits 0.01 % are 26 MB.
    """
    return Plant(
        "burst-credits",
        f"{percent:g} % of the credits",
        f"storage=volume:P4,credits={percent:g}%,volume:P4,credits=full",
        scan(own_s, scale=16),
        options=COLD,
        scale=16,
        needs=("imitated-volume",),
        advised="P30,size=1024GiB (135.17 USD a month) would have lasted",
    )


def memory(cap_mb: int) -> Plant:
    """What was read is needed again and has been thrown away; the device is slow, so that it matters."""
    both = scan(0.4, scale=8) + scan(0.4, scale=8).replace("name: scan", "name: again")
    return Plant(
        "memory",
        f"{cap_mb} MB for 105 MB",
        f"memory={cap_mb}MB,1GB",
        both,
        options=(*COLD, "--storage", f"{IMAGE},read_mb_s=50"),
        scale=8,
        settings={"shared_buffers": "16MB", "max_connections": "20"},
        needs=(*_LOOP, "memory-cap"),
    )


def too_few_workers(latency_ms: float, own_s: float) -> Plant:
    """One I/O worker carries every read of scattered pages, one at a time, and the disk answers late.

    The work is done beside the reads: it must take less time than they do one at a time, and more than they
    do eight at a time.
    """
    return Plant(
        "too-few-io-workers",
        f"{latency_ms:g} ms a read",
        "io_workers=1,8",
        f"""-- name: scattered
SELECT count(filler), max(CASE WHEN aid % 1830 = 0 THEN pg_sleep({own_s * 1830 / 900_000:g})::text END)
FROM pgbench_accounts WHERE aid % 183 = 0;
""",
        options=(*COLD, "--storage", f"{IMAGE},path={FOLDER},{ROOM}", "--prepare", "scattered.sql"),
        settings={
            "io_method": "worker",
            "effective_io_concurrency": "64",
            "io_combine_limit": "8kB",
            "enable_seqscan": "off",
            "enable_indexscan": "off",
        },
        scale=9,
        needs=(*_LOOP, "late-disk"),
        outside=late_disk(latency_ms),
        files={
            # A row in every third page.
            "scattered.sql": "CREATE INDEX scattered ON pgbench_accounts ((aid % 183));\n"
            "ANALYZE pgbench_accounts;\n"
        },
    )


def cached(compared: str, workload: str, *settings: str) -> Plant:
    """Ways of reading are compared, and no read reaches a device."""
    return Plant(
        "cached",
        workload,
        compared,
        workload,
        options=("--cache", "warm-pages", *settings),
        lifts=False,
        # The same reads, from a device that takes its time.
        needs=_LOOP,
        decoy={"options": (*COLD, "--storage", f"{IMAGE},read_mb_s=6", *settings)},
    )


def no_aio(reads_s: int) -> Plant:
    """Methods of reading are compared on an index scan, which reads page by page whatever the method."""
    return Plant(
        "no-aio",
        f"index scan, {reads_s} reads/s",
        "io_method=sync,worker",
        pages(200, 0.2),
        options=(*COLD, "--storage", f"{IMAGE},read_iops={reads_s}"),
        needs=_LOOP,
        lifts=False,
        decoy={"workload": scan(0.2)},
    )


PLANTS = (
    throughput(6, 0.7),
    throughput(3, 2.0),
    iops(400, 0.7),
    iops(200, 1.2),
    latency(5, 1.0),
    latency(10, 1.5),
    index_latency(5, 1.0),
    index_latency(10, 1.5),
    throttle_change(12, 3, 75, scale=8),
    throttle_change(12, 6, 60, scale=9),
    burst_credits(0.01, 0.7),
    burst_credits(0.002, 1.5),
    too_few_workers(0.5, 1.2),
    too_few_workers(1.0, 1.2),
    memory(80),
    memory(64),
    # The first reads in one process: on two processors a reader and a worker may need both.
    cached("effective_io_concurrency=1,16", "full-scan:only=read-table", "--set", "io_method=sync"),
    cached("io_method=sync,worker", "full-scan:only=read-table"),
    cached("io_method=sync,io_uring", "full-scan:only=sum"),
    no_aio(200),
    no_aio(100),
)
