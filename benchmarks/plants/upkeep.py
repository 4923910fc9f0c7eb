"""Plants of what was left undone or overdone: dead rows, a missing index, autovacuum, connections."""

from plants.base import Plant
from plants.reading import COLD, scan
from plants.working import WARM
from plants.writing import NO_SYNC

# VACUUM FULL has the table twice.
_ROOMY = "loop:size=1536MB"
_UPDATE = "UPDATE pgbench_accounts SET abalance = abalance + 1;\n"


def _dead_space(cause: str, magnitude: str, times: int, before: str = "", **settings: str) -> Plant:
    """Every row was rewritten so many times; `before`: SQL ahead of that, where space is not given back."""
    updated = _UPDATE * times
    return Plant(
        cause,
        magnitude,
        "prepare=wide.sql,whole.sql",
        scan(0.4),
        options=(*COLD, "--storage", f"{_ROOMY},read_mb_s=15"),
        needs=("loop", "rate-limits"),
        files={
            "wide.sql": f"{before}{updated}VACUUM ANALYZE pgbench_accounts;\n",
            "whole.sql": f"{updated}VACUUM FULL pgbench_accounts;\nANALYZE pgbench_accounts;\n",
        },
        settings=settings,
    )


def bloat(times: int) -> Plant:
    """Every row was rewritten, and nobody gave the space back."""
    return _dead_space("bloat", f"{times + 1} times the pages", times)


def bloat_held(times: int) -> Plant:
    """A transaction that somebody prepared and forgot: VACUUM comes and may take nothing away."""
    forgotten = "BEGIN;\nUPDATE pgbench_branches SET bbalance = 0;\nPREPARE TRANSACTION 'forgotten';\n"
    magnitude = f"{times + 1} times the rows"
    return _dead_space("bloat-held", magnitude, times, forgotten, max_prepared_transactions="1")


def bloat_by_index(every: int, own_s: float = 0.4) -> Plant:
    """One row of so many is left in pages that stay, and in an index: a range is read in the table's order.

    Of the decoy the same rows are looked up in no order, each of which costs a page of any table.
    """
    left = f"DELETE FROM pgbench_accounts WHERE aid % {every} <> 0;\n"
    read = f"""-- name: range
SELECT count(filler), max(CASE WHEN aid % 500 = 0 THEN pg_sleep({own_s / 400:g})::text END)
FROM pgbench_accounts WHERE aid > 0;
"""
    apart = f"""-- name: apart
SELECT count(page.filler), max(CASE WHEN number % 10 = 0 THEN pg_sleep({own_s / 150:g})::text END)
FROM generate_series(1, 1500) number, LATERAL (
    SELECT filler FROM pgbench_accounts
    WHERE aid = {every} * ((number * 3163) % {200_000 // every} + 1) OFFSET 0
) page;
"""
    return Plant(
        "bloat",
        f"one row of {every} left",
        "prepare=sparse.sql,whole.sql",
        read,
        options=(*COLD, "--storage", f"{_ROOMY},read_mb_s=15"),
        scale=2,
        needs=("loop", "rate-limits"),
        files={
            "sparse.sql": f"{left}VACUUM ANALYZE pgbench_accounts;\n",
            "whole.sql": f"{left}VACUUM FULL pgbench_accounts;\nVACUUM ANALYZE pgbench_accounts;\n",
        },
        settings={"enable_seqscan": "off", "enable_bitmapscan": "off"},
        variant="index",
        decoy={"workload": apart},
    )


def discarding_scan(own_s: float) -> Plant:
    """A few rows are looked for in all."""
    looking = "".join(
        f"-- name: look-{number}\n"
        f"SELECT count(*), pg_sleep({own_s / 10:g}) FROM pgbench_accounts WHERE abalance = {number};\n"
        for number in range(10)
    )
    spread = "UPDATE pgbench_accounts SET abalance = aid % 10000;\nVACUUM FULL ANALYZE pgbench_accounts;\n"
    return Plant(
        "discarding-scan",
        f"{own_s:g} s of other work",
        "prepare=none.sql,index.sql",
        looking,
        options=WARM,
        files={
            "none.sql": spread,
            "index.sql": f"{spread}CREATE INDEX by_balance ON pgbench_accounts (abalance);\n",
        },
        scale=4,
        settings={"shared_buffers": "128MB"},
    )


def autovacuum(clients: int) -> Plant:
    """Vacuumed at every look, whatever has changed, without a pause, where the processors are full."""
    return Plant(
        "autovacuum",
        f"every second, {clients} connections",
        "autovacuum=on,off",
        f"simple-update:clients={clients},duration=6s,warmup=2s",
        settings={
            **NO_SYNC,
            "autovacuum_naptime": "1s",
            "autovacuum_vacuum_threshold": "1",
            "autovacuum_vacuum_scale_factor": "0",
            "autovacuum_analyze_threshold": "1",
            "autovacuum_analyze_scale_factor": "0",
            "autovacuum_vacuum_cost_delay": "0",
        },
        scale=8,
    )


def connections(count: int) -> Plant:
    """Far more connections at work than processors."""
    return Plant(
        "connections",
        f"{count} at work",
        f"clients={count},4",
        "oltp_read_only:tables=1,table_size=10000,range_size=1000,duration=4s,warmup=1s,threads=1",
        scale=None,
    )


PLANTS = (
    bloat(2),
    bloat(1),
    bloat_by_index(5),
    bloat_by_index(2),
    bloat_held(2),
    bloat_held(1),
    discarding_scan(0.3),
    discarding_scan(0.5),
    autovacuum(8),
    autovacuum(16),
    connections(200),
    connections(120),
)
