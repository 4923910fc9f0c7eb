"""Statements one by one, each timed by the native binary's command `sql`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pgassay.errors import MeasurementError
from pgassay.native.process import NativeProcess, StatementError


@dataclass(frozen=True)
class Connected:
    """A server that answered: its process for this session, and its version ("18.4")."""

    pid: int
    server_version: str


@dataclass(frozen=True)
class Notice:
    """A message of the server that is no error; `severity`: INFO, NOTICE, WARNING, DEBUG or LOG."""

    severity: str
    message: str
    detail: str | None = None
    sqlstate: str | None = None


@dataclass(frozen=True)
class Executed:
    """One timed statement.

    From just before it was sent to the server's ReadyForQuery, in nanoseconds of CLOCK_MONOTONIC (which
    `time.monotonic_ns` reads as well); `rows` and `bytes` are what the server sent back. `notices` are in the
    order in which they came, 16 MB of them at most; `notices_dropped` counts those that came later.
    `parts_ns`: what each statement of a transaction took, in their order.
    """

    name: str
    elapsed_ns: int
    start_ns: int
    end_ns: int
    rows: int
    bytes: int
    notices: tuple[Notice, ...] = ()
    notices_dropped: int = 0
    parts_ns: tuple[int, ...] = ()

    @property
    def elapsed_s(self) -> float:
        """The same time in seconds."""
        return self.elapsed_ns / 1e9


class SqlSession:
    """A conversation with one server, statement by statement, each timed by the native binary.

    A context manager: leaving it ends the native process. After a lost connection `connect` works again.

    Args:
        cpu_affinity: the CPUs the native process may run on; all when None.

    Raises:
        UsageError: there is no native binary of this version.
    """

    def __init__(self, cpu_affinity: Iterable[int] | None = None):
        self._child: NativeProcess | None = NativeProcess("sql", cpu_affinity)

    @property
    def process_id(self) -> int:
        """The native process, e.g. to account for its CPU time."""
        return self._open_child().pid

    def connect(self, parameters: Mapping[str, object]) -> Connected:
        """Opens a connection, closing the one before.

        Args:
            parameters: host (a name, or the folder of a Unix socket), port, user, password, dbname, options,
                application_name.

        Raises:
            StatementError: the server can't be reached or refuses.
        """
        answer = self._ask({"connect": dict(parameters)})["connected"]
        return Connected(**answer)

    def execute(self, name: str, sql: str) -> Executed:
        """Runs a statement, or several in one string, as a simple query; rows are read and dropped.

        Raises:
            StatementError: the server reports an error (the session goes on), or the connection was lost.
        """
        answer = self._ask({"execute": {"name": name, "sql": sql}})["executed"]
        notices = tuple(Notice(**notice) for notice in answer.pop("notices"))
        return Executed(**answer, notices=notices)

    def execute_transaction(self, name: str, parts: Sequence[Mapping[str, object]]) -> Executed:
        """Runs the statements of a transaction, timed as a whole and singly.

        Args:
            parts: their `name` and `sql`; `gset` and `pieces` where rows are kept in variables.

        Raises:
            StatementError: the first failure, after which all is rolled back, or the connection was lost.
        """
        answer = self._ask({"execute": {"name": name, "parts": [*parts]}})["executed"]
        notices = tuple(Notice(**notice) for notice in answer.pop("notices"))
        parts_ns = tuple(answer.pop("parts_ns", ()))
        return Executed(**answer, notices=notices, parts_ns=parts_ns)

    def disconnect(self) -> None:
        """Closes the connection, if there is one; the native process stays."""
        self._ask({"disconnect": {}})

    def close(self) -> None:
        """Ends the native process; the second time does nothing."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _open_child(self) -> NativeProcess:
        if self._child is None:
            raise MeasurementError("The session with the native binary is closed; open a new SqlSession.")
        return self._child

    def _ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        child = self._open_child()
        try:
            child.send(command)
            return child.receive()
        except StatementError:
            raise
        except BaseException:
            # An answer may still be on its way, which the next command would take for its own. Closing
            # standard input also cancels the statement that is running.
            self.close()
            raise
