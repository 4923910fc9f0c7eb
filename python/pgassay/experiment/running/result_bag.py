"""Do two queries return the same? Their rows as bags, read as a stream, kept as hashes in limited memory.

The rule, wherever pgassay asks that: the columns have the same types; the same rows come, each as often, in
any order; a value is the text that the server prints (NULL, 1.5 and 1.50, arrays and JSON by their text). Two
things are not exact. Values of a column of floats are the same within a relative 1e-9, since a sum of floats
depends on the order of its rows; a column that is cast to text is compared exactly. And where the first of
the two has an ORDER BY, the columns that it sorts by have to come in the same sequence.

The hash of a bag is the sum of its rows' hashes (Clarke et al., ASIACRYPT 2003, AdHash), by bucket, so that
a difference can be looked for in a part of the rows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import psycopg
from psycopg.pq.abc import PGresult

from pgassay.environment.server.sessions import ControlSession

BUCKETS = 4096
HASH_BYTES = 16
ROWS_EXAMINED_MAX, ROWS_SHOWN, ROW_CHARACTERS_SHOWN = 20_000, 3, 160
# Rows with the same exact values, whose floats are matched one by one where sorting them did not do.
ROWS_MATCHED_MAX = 1000
# Above so many rows with floats these are kept as hashes, which can't be told apart from their rounding.
FLOAT_ROWS_MAX = 300_000
# pg_type.dat: float4 and float8; numeric.
FLOAT_TYPES, NUMERIC_TYPE = frozenset({700, 701}), 1700
RELATIVE_ERROR, ABSOLUTE_ERROR = 1e-9, 1e-12
ROWS_DIFFER = "their rows differ"
FLOATS_DIFFER = "their floats differ by more than rounding"
FLOATS_UNKNOWN = (
    f"their floats differ, and with more than {FLOAT_ROWS_MAX} rows it can't be checked whether that is "
    "rounding"
)
ORDER_DIFFERS = "their rows come in a different order"
WITHIN_ROUNDING = "floats that differ by a relative 1e-9 or less count as the same"
_MODULUS = 1 << (8 * HASH_BYTES)
ResultRow = Sequence[bytes | None]
Floats = tuple[float | None, ...]
# Rows, with how often each is there.
ResultRows = Counter[tuple[bytes | None, ...]]


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: its name, its type's OID, and that as it is compared and shown."""

    name: str
    oid: int
    type: str


KeysOf = Callable[[tuple[ResultColumn, ...]], tuple[int, ...]]


@dataclass
class Bag:
    """The rows of one result. `keys`: the places of the columns that it is sorted by.

    In each bucket: how many rows, the sum of their hashes without floats, and with them. `floats`: by a row's
    hash without them, the floats of all such rows. `keys_chain`: the hash of the sequence of what they
    are sorted by, without floats, which `sequence` has in their order.
    """

    columns: tuple[ResultColumn, ...]
    keys: tuple[int, ...] = ()
    rows: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    sums: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    whole_sums: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    floats: dict[int, list[Floats]] = field(default_factory=lambda: defaultdict(list))
    sequence: list[Floats] = field(default_factory=list)
    keys_chain: bytes = b""

    def __post_init__(self) -> None:
        self.float_places = [place for place, each in enumerate(self.columns) if each.oid in FLOAT_TYPES]
        self._exact_keys = [place for place in self.keys if place not in self.float_places]
        self._float_keys = [number for number, place in enumerate(self.float_places) if place in self.keys]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its columns."""
        return tuple(each.type for each in self.columns)

    @property
    def has_its_floats(self) -> bool:
        """Whether all floats are kept, so that rounding can be told."""
        return self.rows <= FLOAT_ROWS_MAX

    def exact(self, row: ResultRow) -> bytes:
        """A row without its floats, as bytes that no other such row has."""
        if not self.float_places:
            return _bytes_of(row)
        return _bytes_of([value for place, value in enumerate(row) if place not in self.float_places])

    def floats_of(self, row: ResultRow) -> Floats:
        """The floats of a row."""
        values = (row[place] for place in self.float_places)
        return tuple(None if value is None else float(value) for value in values)

    def bucket_of(self, row: ResultRow) -> int:
        """In which bucket a row is counted."""
        return _hash(self.exact(row)) % BUCKETS

    def add(self, row: ResultRow) -> None:
        """Count one row."""
        value = _hash(self.exact(row))
        bucket = value % BUCKETS
        self.rows += 1
        self.counts[bucket] += 1
        self.sums[bucket] = (self.sums[bucket] + value) % _MODULUS
        if self._exact_keys:
            keys = [self._key(row, place) for place in self._exact_keys]
            self.keys_chain = blake2b(self.keys_chain + _bytes_of(keys), digest_size=HASH_BYTES).digest()
        if self.float_places:
            self.whole_sums[bucket] = (self.whole_sums[bucket] + _hash(_bytes_of(row))) % _MODULUS
            if self.has_its_floats:
                floats = self.floats_of(row)
                self.floats[value].append(floats)
                if self._float_keys:
                    self.sequence.append(tuple(floats[place] for place in self._float_keys))
            else:
                self.floats.clear()
                self.sequence.clear()

    def _key(self, row: ResultRow, place: int) -> bytes | None:
        """A value that is sorted by: 1.0 and 1.00 are equal there, and come in any order."""
        value = row[place]
        if value is None or self.columns[place].oid != NUMERIC_TYPE or b"." not in value:
            return value
        return value.rstrip(b"0").rstrip(b".")

    def differing_buckets(self, other: "Bag") -> list[int]:
        """The buckets whose rows differ, by more than the rounding of floats as far as that can be told."""
        exact = {*_unlike(self.sums, other.sums), *_unlike(self.counts, other.counts)}
        whole = _unlike(self.whole_sums, other.whole_sums)
        if exact or not whole or not self.has_its_floats:
            return sorted(exact) or whole
        apart = (value for value, rows in self.floats.items() if not all_near(rows, other.floats[value]))
        return sorted({value % BUCKETS for value in apart})

    def difference(self, other: "Bag") -> str | None:
        """What two bags differ in, as a clause; None where they are the same."""
        if self.differing_buckets(other):
            if (self.sums, self.counts) != (other.sums, other.counts):
                return ROWS_DIFFER
            return FLOATS_DIFFER if self.has_its_floats else FLOATS_UNKNOWN
        pairs = zip(self.sequence, other.sequence, strict=True)
        in_order = self.keys_chain == other.keys_chain and all(_near_rows(*pair) for pair in pairs)
        return None if in_order else ORDER_DIFFERS

    def is_same_as(self, other: "Bag") -> bool:
        """Whether both have the same types of columns and the same rows."""
        return self.types == other.types and self.difference(other) is None

    def is_rounded_to(self, other: "Bag") -> bool:
        """Whether two that are the same are so within the rounding of floats alone."""
        return self.whole_sums != other.whole_sums


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "little")


def _bytes_of(row: ResultRow) -> bytes:
    return b"".join(b"n" if value is None else b"%d:%b" % (len(value), value) for value in row)


def near(one: float | None, other: float | None) -> bool:
    """Whether two values of a column of floats are the same."""
    if one is None or other is None:
        return one is other
    are_nan = math.isnan(one) and math.isnan(other)
    return are_nan or math.isclose(one, other, rel_tol=RELATIVE_ERROR, abs_tol=ABSOLUTE_ERROR)


def all_near(some: Sequence[Floats], others: Sequence[Floats]) -> bool:
    """Whether these floats of rows are the same within rounding, in whatever order they are."""
    pairs = zip(sorted(some, key=_sortable), sorted(others, key=_sortable), strict=False)
    if len(some) != len(others) or all(_near_rows(*pair) for pair in pairs):
        return len(some) == len(others)
    # Of several floats a row, rounding may decide which of two rows is sorted first.
    return len(some) <= ROWS_MATCHED_MAX and _all_have_partners(some, others)


def _all_have_partners(some: Sequence[Floats], others: Sequence[Floats]) -> bool:
    """Whether each of some has a partner of its own among the others that is the same within rounding."""
    left = list(others)
    for each in some:
        partner = next((place for place, other in enumerate(left) if _near_rows(each, other)), None)
        if partner is None:
            return False
        del left[partner]
    return True


def _near_rows(some: Floats, others: Floats) -> bool:
    return all(map(near, some, others))


def _unlike(some: Sequence[int], others: Sequence[int]) -> list[int]:
    """The places at which they differ."""
    if some == others:
        return []
    return [place for place, pair in enumerate(zip(some, others, strict=True)) if pair[0] != pair[1]]


def _sortable(row: Floats) -> list[tuple[int, float]]:
    """A row's floats as a key to sort by: numbers, then NaN, then NULL."""
    return [(2, 0.0) if number is None else (1, 0.0) if math.isnan(number) else (0, number) for number in row]


def rows_of(session: ControlSession, query: str) -> Iterator[list[bytes | None]]:
    """Each row of the query, its values as COPY's text form has them, one row at a time."""
    with session.cursor() as cursor, cursor.copy(b"COPY (" + query.encode() + b"\n) TO STDOUT") as copy:
        for row in copy:
            yield [None if each == b"\\N" else each for each in bytes(row).rstrip(b"\n").split(b"\t")]


def columns_of(session: ControlSession, query: str) -> tuple[ResultColumn, ...]:
    """The query's columns, types as the server prints them; () for one without a result."""
    connection = session.pgconn
    for result in (connection.prepare(b"", query.encode()), connection.describe_prepared(b"")):
        if result.error_message:
            raise psycopg.DatabaseError(result.error_message.decode("utf-8", "replace").strip())
    columns = []
    for place in range(result.nfields):
        oid, modifier = result.ftype(place), result.fmod(place)
        row = session.execute("SELECT format_type(%s, NULLIF(%s, -1))", (oid, modifier)).fetchone()
        name = (result.fname(place) or b"").decode("utf-8", "replace")
        columns.append(ResultColumn(name, oid, str(row[0]) if row else str(oid)))
    return tuple(columns)


def read_bag(session: ControlSession, query: str, keys_of: KeysOf = lambda _: ()) -> Bag:
    """Run the query and hash its rows; `keys_of`: the places of the columns that it is sorted by."""
    columns = columns_of(session, query)
    bag = Bag(columns, keys_of(columns))
    for row in rows_of(session, query):
        bag.add(row)
    return bag


def bag_of(columns: tuple[ResultColumn, ...], result: PGresult | None) -> Bag:
    """The rows that a statement returned, which COPY does not take where it writes; its values are texts."""
    bag = Bag(columns)
    if result is not None:
        for row in range(result.ntuples):
            bag.add([result.get_value(row, place) for place in range(result.nfields)])
    return bag


def rows_in(session: ControlSession, query: str, bag: Bag, buckets: frozenset[int]) -> ResultRows:
    """The rows of some buckets of a bag, with how often each is there; at most ROWS_EXAMINED_MAX of them."""
    found = ResultRows()
    for each in rows_of(session, query):
        row = tuple(each)
        if bag.bucket_of(row) in buckets and (row in found or len(found) < ROWS_EXAMINED_MAX):
            found[row] += 1
    return found


def only_in(bag: Bag, some: ResultRows, others: ResultRows) -> list[ResultRow]:
    """Those of some rows that the others have not, nor one that is the same within rounding."""
    left: dict[bytes, list[Floats]] = defaultdict(list)
    for row in (others - some).elements():
        left[bag.exact(row)].append(bag.floats_of(row))
    found = list[ResultRow]()
    for row in (some - others).elements():
        floats, partners = bag.floats_of(row), left[bag.exact(row)]
        same = next((each for each in partners if bag.float_places and _near_rows(floats, each)), None)
        if same is None:
            found.append(row)
        else:
            partners.remove(same)
    return found


def shown(row: ResultRow) -> str:
    """A row in the text form of COPY, its columns separated by ` | `, cut where it gets long."""
    text = " | ".join(r"\N" if each is None else each.decode("utf-8", "replace") for each in row)
    return text if len(text) <= ROW_CHARACTERS_SHOWN else text[:ROW_CHARACTERS_SHOWN] + " …"
