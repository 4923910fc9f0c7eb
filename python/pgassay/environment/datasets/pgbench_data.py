"""The pgbench tables, row for row as `pgbench -i` leaves them (src/bin/pgbench/pgbench.c).

Accounts travel as one stream of PostgreSQL's binary COPY format (the file header, one tuple of
four fields a row, the trailer: the COPY page of the manual), made a branch at a time by numpy.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BRANCHES_PER_SCALE = 1
TELLERS_PER_SCALE = 10
ACCOUNTS_PER_SCALE = 100_000
# pgbench.c, SCALE_32BIT_THRESHOLD: from this scale on an account's number needs 64 bits.
SCALE_64BIT_MIN = 20_000
# An account's number must fit a 64-bit integer, the number of branches and tellers a 32-bit one.
SCALE_MAX = (2**31 - 1) // TELLERS_PER_SCALE
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + (0).to_bytes(4, "big") + (0).to_bytes(4, "big")
COPY_TRAILER = (-1).to_bytes(2, "big", signed=True)
COPY_ACCOUNTS = (
    "COPY pgbench_accounts (aid, bid, abalance, filler) FROM STDIN WITH (FORMAT binary, FREEZE on)"
)


@dataclass(frozen=True)
class PgbenchTable:
    """One pgbench table: its columns as pgbench declares them, and its primary key ('' for none)."""

    name: str
    columns: str
    primary_key: str = ""


def tables(scale: int) -> tuple[PgbenchTable, ...]:
    """Return the four tables in the order in which pgbench makes them."""
    account_type = "bigint" if scale >= SCALE_64BIT_MIN else "int"
    return (
        PgbenchTable(
            "pgbench_history",
            f"tid int, bid int, aid {account_type}, delta int, mtime timestamp, filler char(22)",
        ),
        PgbenchTable("pgbench_tellers", "tid int not null, bid int, tbalance int, filler char(84)", "tid"),
        PgbenchTable(
            "pgbench_accounts",
            f"aid {account_type} not null, bid int, abalance int, filler char(84)",
            "aid",
        ),
        PgbenchTable("pgbench_branches", "bid int not null, bbalance int, filler char(88)", "bid"),
    )


def create_statements(scale: int) -> list[str]:
    """Return CREATE TABLE for each table; those with a key get the fill factor that pgbench writes."""
    return [
        f"CREATE TABLE {table.name} ({table.columns})"
        + (" WITH (fillfactor=100)" if table.primary_key else "")
        for table in tables(scale)
    ]


def small_table_statements(scale: int) -> list[str]:
    """Return the INSERTs of branches and tellers; the fillers stay NULL and the balances 0."""
    branches = f"generate_series(1, {scale * BRANCHES_PER_SCALE}) AS number"
    tellers = f"generate_series(1, {scale * TELLERS_PER_SCALE}) AS number"
    return [
        f"INSERT INTO pgbench_branches (bid, bbalance) SELECT number, 0 FROM {branches}",
        "INSERT INTO pgbench_tellers (tid, bid, tbalance) "
        f"SELECT number, (number - 1) / {TELLERS_PER_SCALE} + 1, 0 FROM {tellers}",
    ]


def primary_key_statements(scale: int) -> list[str]:
    """Return ALTER TABLE … ADD PRIMARY KEY in pgbench's order; the index names follow from it."""
    keyed = {table.name: table.primary_key for table in tables(scale)}
    order = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts")
    return [f"ALTER TABLE {name} ADD PRIMARY KEY ({keyed[name]})" for name in order]


def account_blocks(scale: int) -> Iterator[npt.NDArray[np.void]]:
    """Yield the accounts as binary COPY tuples, one array of ACCOUNTS_PER_SCALE rows a branch.

    Rows are in the order of `aid`. The filler travels empty: its type pads it to 84 blanks, as it
    does for pgbench. Each array is the same memory, overwritten for the next branch.
    """
    rows = _account_template(wide=scale >= SCALE_64BIT_MIN)
    offsets = np.arange(1, ACCOUNTS_PER_SCALE + 1, dtype=np.int64)
    for branch in range(1, scale + 1):
        rows["aid"] = offsets + (branch - 1) * ACCOUNTS_PER_SCALE
        rows["bid"] = branch
        yield rows


def _account_template(*, wide: bool) -> npt.NDArray[np.void]:
    aid_bytes = 8 if wide else 4
    layout = [
        ("fields", ">i2"),
        ("aid_bytes", ">i4"),
        ("aid", f">i{aid_bytes}"),
        ("bid_bytes", ">i4"),
        ("bid", ">i4"),
        ("abalance_bytes", ">i4"),
        ("abalance", ">i4"),
        ("filler_bytes", ">i4"),
    ]
    rows = np.zeros(ACCOUNTS_PER_SCALE, dtype=np.dtype(layout))
    rows["fields"] = 4
    rows["aid_bytes"] = aid_bytes
    rows["bid_bytes"] = rows["abalance_bytes"] = 4
    return rows
