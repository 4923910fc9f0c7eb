"""A query's result as a bag of rows: read as a stream, kept as hashes, in memory that does not grow.

Rows are compared in the server's own text form with the types of their columns, so floats are exact
(extra_float_digits' default prints the shortest text that reads back as the same number) and the
order of rows is ignored. The hash of a bag is the sum of its rows' hashes (Clarke et al., ASIACRYPT
2003, AdHash), by bucket, so that a difference can be looked for in a part of the rows.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import psycopg

from pgassay.environment.server.sessions import ControlSession

BUCKETS = 4096
HASH_BYTES = 16
ROWS_EXAMINED_MAX = 20_000
ROWS_SHOWN = 3
ROW_CHARACTERS_SHOWN = 160
_MODULUS = 1 << (8 * HASH_BYTES)


@dataclass
class Bag:
    """The rows of one result: how many, and the sum of their hashes in each bucket."""

    types: tuple[str, ...]
    rows: int = 0
    sums: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def add(self, row: bytes) -> None:
        """Count one row."""
        bucket, value = hash_row(row)
        self.rows += 1
        self.counts[bucket] += 1
        self.sums[bucket] = (self.sums[bucket] + value) % _MODULUS

    def buckets_unlike(self, other: "Bag") -> list[int]:
        """The buckets whose rows differ."""
        return [
            bucket
            for bucket in range(BUCKETS)
            if (self.sums[bucket], self.counts[bucket]) != (other.sums[bucket], other.counts[bucket])
        ]


def hash_row(row: bytes) -> tuple[int, int]:
    """The bucket of a row and its hash."""
    value = int.from_bytes(blake2b(row, digest_size=HASH_BYTES).digest(), "little")
    return value % BUCKETS, value


def rows_of(session: ControlSession, query: str) -> Iterator[bytes]:
    """Each row of the query in COPY's text form, one at a time."""
    with session.cursor() as cursor, cursor.copy(b"COPY (" + query.encode() + b"\n) TO STDOUT") as copy:
        for row in copy:
            yield bytes(row)


def types_of(session: ControlSession, query: str) -> tuple[str, ...]:
    """The types of the query's columns, as the server prints them; () for one without a result."""
    connection = session.pgconn
    for result in (connection.prepare(b"", query.encode()), connection.describe_prepared(b"")):
        if result.error_message:
            raise psycopg.DatabaseError(result.error_message.decode("utf-8", "replace").strip())
    pairs = [(result.ftype(column), result.fmod(column)) for column in range(result.nfields)]
    names = []
    for type_oid, modifier in pairs:
        row = session.execute("SELECT format_type(%s, NULLIF(%s, -1))", (type_oid, modifier)).fetchone()
        names.append(str(row[0]) if row else str(type_oid))
    return tuple(names)


def read_bag(session: ControlSession, query: str) -> Bag:
    """Run the query and hash its rows."""
    bag = Bag(types_of(session, query))
    for row in rows_of(session, query):
        bag.add(row)
    return bag


def rows_in(session: ControlSession, query: str, buckets: frozenset[int]) -> "Counter[bytes]":
    """The rows of some buckets, with how often each is there; at most ROWS_EXAMINED_MAX of them."""
    found: Counter[bytes] = Counter()
    for row in rows_of(session, query):
        if hash_row(row)[0] in buckets and (row in found or len(found) < ROWS_EXAMINED_MAX):
            found[row] += 1
    return found


def shown(row: bytes) -> str:
    """A row in the text form of COPY, its columns separated by ` | `, cut where it gets long."""
    text = row.decode("utf-8", "replace").rstrip("\n").replace("\t", " | ")
    return text if len(text) <= ROW_CHARACTERS_SHOWN else text[:ROW_CHARACTERS_SHOWN] + " …"
