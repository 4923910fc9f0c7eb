"""What a statement returns, as a bag of rows: run, kept small, and compared with another's."""

import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from psycopg import pq
from psycopg.pq.abc import PGconn

# pg_type.dat: float4 and float8, whose sums depend on the order of their rows by rounding.
FLOAT_TYPES = frozenset({700, 701})
RELATIVE_ERROR, ABSOLUTE_ERROR = 1e-9, 1e-12
SHOWN_ROWS_MAX = 5
# Above this many rows the bag is a sum of digests alone, which two bags share by a chance of 2⁻¹²⁸.
BAG_ROWS_MAX = 300_000
Row = tuple[str | None, ...]
QUERY_CANCELED = "57014"


class CommandError(Exception):
    """A command of the check itself failed, with the server's sentence."""


@dataclass
class Outcome:
    """What one run of a statement gave: its columns and rows, or the SQLSTATE of its error.

    Rows are kept as digests of 16 bytes with how often each came; the values of columns of floats are kept
    beside them. `total` is the sum of all digests, which is all that is kept of very many rows. `chain` is a
    digest of the sequence of all rows, `keys_chain` of the columns it is sorted by; both without the floats,
    which `sequence` has in their order. `float_keys` are the places among them that it is sorted by.
    """

    columns: tuple[tuple[str, int], ...] = ()
    error: str | None = None
    message: str = ""
    rows: int = 0
    bag: Counter[bytes] = field(default_factory=Counter)
    total: int = 0
    floats: dict[bytes, list[Row]] = field(default_factory=lambda: defaultdict(list))
    chain: bytes = b""
    keys_chain: bytes = b""
    sequence: list[Row] = field(default_factory=list)
    float_keys: tuple[int, ...] = ()
    first: list[Row] = field(default_factory=list)
    too_many: bool = False

    def add(self, row: Row, places: list[int], keys: tuple[int, ...]) -> None:
        """One more row. `places` are the columns of floats, `keys` those that it is sorted by."""
        exact = [value for place, value in enumerate(row) if place not in places]
        digest = _digest(exact)
        self.rows += 1
        self.total = (self.total + int.from_bytes(digest)) % 2**128
        if self.rows <= BAG_ROWS_MAX:
            self.bag[digest] += 1
        elif places:
            # Floats of so many rows can't be told apart from their rounding.
            self.too_many = True
        else:
            self.bag.clear()
        self.chain = _digest([digest.hex()], self.chain)
        if keys:
            self.keys_chain = _digest([row[place] for place in keys if place not in places], self.keys_chain)
        if places and not self.too_many:
            floats = tuple(row[place] for place in places)
            self.floats[digest].append(floats)
            self.sequence.append(floats)
            self.float_keys = tuple(number for number, place in enumerate(places) if place in keys)
        if len(self.first) < SHOWN_ROWS_MAX:
            self.first.append(row)

    def shown(self) -> str:
        """The outcome in words: its error, or its first rows."""
        if self.error is not None:
            return f"error {self.error} ({self.message})"
        listed = ", ".join(_shown(row) for row in self.first)
        return (
            f"{self.rows} rows: {listed}{', …' if self.rows > len(self.first) else ''}"
            if self.rows
            else "no row"
        )


def _shown(row: Row) -> str:
    return "(" + ", ".join("NULL" if value is None else value for value in row) + ")"


def _digest(values: list[str | None], before: bytes = b"") -> bytes:
    made = hashlib.blake2b(before, digest_size=16)
    for value in values:
        data = b"" if value is None else value.encode("utf-8", "surrogateescape")
        made.update(b"n" if value is None else b"v%d:" % len(data))
        made.update(data)
    return made.digest()


def command(session: PGconn, sql: str) -> list[Row]:
    """Run one command of the check itself and return its rows. Raises `CommandError`."""
    result = session.exec_(sql.encode())
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise CommandError(session.get_error_message())
    return [
        tuple(_text(result.get_value(row, place)) for place in range(result.nfields))
        for row in range(result.ntuples)
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "surrogateescape")


def run(
    session: PGconn, sql: str, parameters: Row, keys: tuple[int, ...] = (), rows_max: int = 5_000_000
) -> Outcome:
    """Run a statement with its parameters in text form and collect its rows, one at a time.

    An error is an outcome; the transaction is then back where it was before. Raises `CommandError` when the
    connection is lost.
    """
    command(session, "SAVEPOINT pgassay_run")
    outcome = Outcome()
    values = [None if value is None else value.encode() for value in parameters]
    session.send_query_params(sql.encode(), values)
    session.set_single_row_mode()
    places: list[int] = []
    while (result := session.get_result()) is not None:
        if result.status in (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_OK):
            if not outcome.columns:
                outcome.columns = tuple(
                    ((result.fname(place) or b"").decode(), result.ftype(place))
                    for place in range(result.nfields)
                )
                places = [place for place, (_, kind) in enumerate(outcome.columns) if kind in FLOAT_TYPES]
            if result.ntuples and outcome.rows < rows_max:
                row = tuple(_text(result.get_value(0, place)) for place in range(result.nfields))
                outcome.add(row, places, keys)
            elif result.ntuples:
                outcome.too_many = True
        else:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            outcome.error = state.decode() if state else "XX000"
            outcome.message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
    command(
        session, "ROLLBACK TO SAVEPOINT pgassay_run" if outcome.error else "RELEASE SAVEPOINT pgassay_run"
    )
    return outcome


def difference(one: Outcome, other: Outcome, ordered: bool) -> str | None:
    """What two outcomes differ in, as a clause; None where they are the same."""
    if one.error is not None or other.error is not None:
        if one.error == other.error:
            return None
        return (
            "one fails and the other does not"
            if None in (one.error, other.error)
            else "they fail differently"
        )
    if one.columns != other.columns:
        names = [name for name, _ in one.columns], [name for name, _ in other.columns]
        return (
            "their columns have other names" if names[0] != names[1] else "their columns are of other types"
        )
    if (one.rows, one.total, one.bag) != (other.rows, other.total, other.bag):
        return "their rows differ"
    if not _close(one.floats, other.floats):
        return "their floats differ by more than rounding"
    if one.keys_chain != other.keys_chain or (ordered and one.chain != other.chain):
        return "their rows come in another order"
    if not _in_order(one, other, ordered):
        return "their rows come in another order"
    return None


def _in_order(one: Outcome, other: Outcome, ordered: bool) -> bool:
    """Whether the floats of the sort keys, or all when `ordered`, come in the same order within rounding."""
    for left, right in zip(one.sequence, other.sequence, strict=True):
        for place in range(len(left)) if ordered else one.float_keys:
            if left[place] != right[place] and not _near(left[place], right[place]):
                return False
    return True


def _close(one: dict[bytes, list[Row]], other: dict[bytes, list[Row]]) -> bool:
    """Whether the floats beside equal values are equal within rounding, as sums in another order are."""
    for digest, rows in one.items():
        for left, right in zip(
            sorted(rows, key=_sortable), sorted(other[digest], key=_sortable), strict=True
        ):
            for first, second in zip(left, right, strict=True):
                if first != second and not _near(first, second):
                    return False
    return True


def _sortable(row: Row) -> list[tuple[int, float]]:
    """A row's floats as a key to sort by: numbers, then NaN, then NULL."""
    numbers = [None if value is None else float(value) for value in row]
    return [
        (2, 0.0) if number is None else (1, 0.0) if math.isnan(number) else (0, number) for number in numbers
    ]


def _near(first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return False
    return math.isclose(float(first), float(second), rel_tol=RELATIVE_ERROR, abs_tol=ABSOLUTE_ERROR)
