"""The tables of sysbench's OLTP scripts, as its `prepare` leaves them (1.0.20, src/lua/oltp_common.lua).

Rows travel as streams of PostgreSQL's binary COPY format (the file header, one tuple of four fields a
row, the trailer: the COPY page of the manual), made by numpy some thousand at a time. They are random
by a fixed seed, so that a dataset is the same whenever it is made.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pgassay.model.workload import Distribution

Integers = npt.NDArray[np.int64]

ROWS_PER_BLOCK = 20_000
# `id` is a SERIAL, a 32-bit integer.
TABLE_SIZE_MAX = 2**31 - 1
TABLES_MAX = 10_000
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + (0).to_bytes(4, "big") + (0).to_bytes(4, "big")
COPY_TRAILER = (-1).to_bytes(2, "big", signed=True)
SEED = 1
# c: ten groups of eleven digits, pad: five, joined by dashes. Their types pad them to 120 and 60.
DIGITS_PER_GROUP = 11
C_GROUPS = 10
PAD_GROUPS = 5
# sysbench's defaults: --rand-spec-iter, --rand-spec-pct and --rand-spec-res.
SPECIAL_ITERATIONS = 12
SPECIAL_WIDTH = 0.01
SPECIAL_SHARE = 0.75
# --rand-pareto-h and --rand-zipfian-exp.
PARETO_H = 0.2
ZIPFIAN_EXPONENT = 0.8


def create_statement(table: int) -> str:
    """Return CREATE TABLE with sysbench's columns; its primary key follows after the load."""
    return (
        f"CREATE TABLE sbtest{table}(id SERIAL, k INTEGER DEFAULT '0' NOT NULL, "
        "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL)"
    )


def copy_statement(table: int) -> str:
    """Return the COPY that takes a table's rows."""
    return f"COPY sbtest{table} (id, k, c, pad) FROM STDIN WITH (FORMAT binary, FREEZE on)"


def finishing_statements(table: int, table_size: int) -> list[str]:
    """Return what follows the load: the primary key, the index on k, and the sequence where it would be."""
    return [
        f"ALTER TABLE sbtest{table} ADD PRIMARY KEY (id)",
        f"CREATE INDEX k_{table} ON sbtest{table}(k)",
        f"SELECT setval('sbtest{table}_id_seq', {table_size})",
    ]


def row_blocks(table: int, table_size: int, distribution: Distribution) -> Iterator[npt.NDArray[np.void]]:
    """Yield a table's rows as binary COPY tuples, at most ROWS_PER_BLOCK an array, in the order of `id`."""
    random = np.random.default_rng([SEED, table])
    for first in range(1, table_size + 1, ROWS_PER_BLOCK):
        ids = np.arange(first, min(first + ROWS_PER_BLOCK, table_size + 1), dtype=np.int64)
        rows = _template(len(ids))
        rows["id"] = ids
        rows["k"] = draw(random, len(ids), table_size, distribution)
        _fill_with_digits(random, rows["c"], C_GROUPS)
        _fill_with_digits(random, rows["pad"], PAD_GROUPS)
        yield rows


def draw(random: np.random.Generator, count: int, largest: int, distribution: Distribution) -> Integers:
    """Return `count` numbers from 1 to `largest`, as sysbench draws them (src/sb_rand.c)."""
    if distribution == "uniform":
        return random.integers(1, largest, count, endpoint=True)
    if distribution == "gaussian":
        bell = random.random((count, SPECIAL_ITERATIONS)).mean(axis=1) * largest
        return np.asarray(1 + bell.astype(np.int64))
    if distribution == "pareto":
        power = np.log(PARETO_H) / np.log(1 - PARETO_H)
        return np.asarray(1 + (largest * random.random(count) ** power).astype(np.int64))
    if distribution == "zipfian":
        return _zipfian(random, count, largest)
    span = largest - 1
    decision = random.random(count)
    bell = random.random((count, SPECIAL_ITERATIONS)).mean(axis=1) * span
    # The same draw is the place in the centre: as it is at least a quarter then, the centre's first
    # quarter stays empty, as in sysbench.
    centre = decision * (span * SPECIAL_WIDTH + 1) + span * (1 - SPECIAL_WIDTH) / 2
    return 1 + np.where(decision < 1 - SPECIAL_SHARE, bell, centre).astype(np.int64)


def _zipfian(random: np.random.Generator, count: int, largest: int) -> Integers:
    """The n-th in proportion to n^-0.8 (Hörmann and Derflinger, rejection-inversion, ACM TOMACS 6, 1996)."""
    rest = 1 - ZIPFIAN_EXPONENT

    def integral(x: "npt.NDArray[np.float64] | float") -> "npt.NDArray[np.float64]":
        return np.asarray((np.power(x, rest) - 1) / rest)

    found = np.empty(count, dtype=np.int64)
    done = 0
    first, last = integral(1.5) - 1, integral(largest + 0.5)
    while done < count:
        place = last + random.random(count - done) * (first - last)
        drawn = np.floor(np.power(1 + rest * place, 1 / rest) + 0.5).clip(1, largest)
        kept = drawn[place >= integral(drawn + 0.5) - np.power(drawn, -ZIPFIAN_EXPONENT)]
        found[done : done + len(kept)] = kept.astype(np.int64)
        done += len(kept)
    return found


def _text_bytes(groups: int) -> int:
    return groups * (DIGITS_PER_GROUP + 1) - 1


def _fill_with_digits(random: np.random.Generator, column: npt.NDArray[np.uint8], groups: int) -> None:
    digits = random.integers(
        ord("0"), ord("9"), (len(column), groups, DIGITS_PER_GROUP), np.uint8, endpoint=True
    )
    for group in range(groups):
        begin = group * (DIGITS_PER_GROUP + 1)
        column[:, begin : begin + DIGITS_PER_GROUP] = digits[:, group]


def _template(rows: int) -> npt.NDArray[np.void]:
    c_bytes, pad_bytes = _text_bytes(C_GROUPS), _text_bytes(PAD_GROUPS)
    layout = [
        ("fields", ">i2"),
        ("id_bytes", ">i4"),
        ("id", ">i4"),
        ("k_bytes", ">i4"),
        ("k", ">i4"),
        ("c_bytes", ">i4"),
        ("c", "u1", (c_bytes,)),
        ("pad_bytes", ">i4"),
        ("pad", "u1", (pad_bytes,)),
    ]
    template = np.zeros(rows, dtype=np.dtype(layout))
    template["fields"] = 4
    template["id_bytes"] = template["k_bytes"] = 4
    template["c_bytes"], template["pad_bytes"] = c_bytes, pad_bytes
    template["c"] = template["pad"] = ord("-")
    return template
