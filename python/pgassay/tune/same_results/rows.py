"""What a statement returns with its parameters: a bag of rows, or an error; compared with another's."""

from dataclasses import dataclass, field

from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from pgassay.experiment.running.result_bag import Bag, ResultColumn

SHOWN_ROWS_MAX = 5
Row = tuple[str | None, ...]
QUERY_CANCELED = "57014"


class CommandError(Exception):
    """A command of the check itself failed, with the server's sentence."""


@dataclass(frozen=True)
class RowOrder:
    """How far the order of rows can be compared: all of it, or of the output columns at these places."""

    total: bool = False
    keys: tuple[int, ...] = ()

    def of(self, columns: int) -> tuple[int, ...]:
        """The places of the columns that come in order, of so many."""
        return tuple(range(columns)) if self.total else self.keys


_ANY_ORDER = RowOrder()


@dataclass
class Outcome:
    """What one run of a statement gave: its rows and the first of them, or the SQLSTATE of its error."""

    bag: Bag = field(default_factory=lambda: Bag(()))
    error: str | None = None
    message: str = ""
    first: list[Row] = field(default_factory=list)
    too_many: bool = False

    def shown(self) -> str:
        """The outcome in words: its error, or its first rows."""
        if self.error is not None:
            return f"error {self.error} ({self.message})"
        if not self.bag.rows:
            return "no row"
        listed = ", ".join(_shown(row) for row in self.first)
        return f"{self.bag.rows} rows: {listed}{', …' if self.bag.rows > len(self.first) else ''}"


def _shown(row: Row) -> str:
    return "(" + ", ".join("NULL" if value is None else value for value in row) + ")"


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
    session: PGconn, sql: str, parameters: Row, order: RowOrder = _ANY_ORDER, rows_max: int = 5_000_000
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
    while (result := session.get_result()) is not None:
        if result.status in (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_OK):
            places = range(result.nfields)
            if not outcome.bag.columns:
                outcome.bag = Bag(tuple(_column(result, place) for place in places), order.of(len(places)))
            if result.ntuples and outcome.bag.rows < rows_max:
                row = [result.get_value(0, place) for place in places]
                outcome.bag.add(row)
                if len(outcome.first) < SHOWN_ROWS_MAX:
                    outcome.first.append(tuple(map(_text, row)))
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


def _column(result: PGresult, place: int) -> ResultColumn:
    """A column, whose type and modifier are compared within one database alone: by their numbers."""
    name, oid = (result.fname(place) or b"").decode(), result.ftype(place)
    return ResultColumn(name, oid, f"{oid}/{result.fmod(place)}")


def difference(one: Outcome, other: Outcome) -> str | None:
    """What two outcomes differ in, as a clause; None where they are the same. Names of columns count too."""
    if one.error is not None or other.error is not None:
        if one.error == other.error:
            return None
        return (
            "one fails and the other does not"
            if None in (one.error, other.error)
            else "they fail differently"
        )
    if [each.name for each in one.bag.columns] != [each.name for each in other.bag.columns]:
        return "their columns have different names"
    if one.bag.types != other.bag.types:
        return "their columns have different types"
    return one.bag.difference(other.bag)
