"""What is executed to hide indexes, in the session of an arm whose settings forbid it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pgassay.environment.server.index_visibility import show_all_but


class Session:
    """Keeps what was executed; a transaction's edges are words of their own."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.executed.append("begin")
        yield
        self.executed.append("commit")

    def execute(self, query: bytes, parameters: tuple[object, ...] = ()) -> None:
        self.executed.append(str(parameters[0]) if parameters else query.decode())


def test_indexes_are_switched_in_a_transaction_that_writes_as_the_user_who_connected() -> None:
    """An arm with default_transaction_read_only=on or role=app could not hide any."""
    session = Session()
    show_all_but(session, ['"a"', '"b"'], ['"a"'])  # type: ignore[arg-type]
    assert session.executed == [
        "begin",
        "SET TRANSACTION READ WRITE",
        "SET LOCAL ROLE NONE",
        "['\"b\"']",
        "['\"a\"']",
        "commit",
    ]
