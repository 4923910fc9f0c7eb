"""Statements executed by several sessions at once, run and timed by the native binary's command `mix`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgassay.native.process import NativeProcess

# `stopped`: after its limit. `given-up`: by the server for another session's sake (deadlock, 40001).
# `failed`: for any other reason.
MixOutcome = Literal["ended", "stopped", "given-up", "failed"]


@dataclass(frozen=True)
class MixStatement:
    """A statement of a mix; `name` is what failures call it.

    `rolled_back`: it runs within a transaction that is rolled back, untimed, so that each execution finds the
    same rows. `limit_ms`: after how long the server stops it; None for never. `parts`: the statements of a
    transaction in place of `sql`, as `SqlSession.execute_transaction` takes them.
    """

    name: str
    sql: str
    rolled_back: bool = False
    limit_ms: int | None = None
    parts: tuple[Mapping[str, object], ...] = ()

    def document(self) -> dict[str, object]:
        """What the native binary reads."""
        return {**vars(self), "parts": [*self.parts]}


@dataclass(frozen=True)
class MixExecution:
    """One execution, from just before it was sent to ReadyForQuery, in nanoseconds of CLOCK_MONOTONIC.

    `statement`: its number in the mix; `rows` that the server sent or changed. `parts_ns`: what each
    statement of a transaction took. `sqlstate`: of the failure, where there was one.
    """

    statement: int
    start_ns: int
    end_ns: int
    rows: int
    outcome: MixOutcome
    parts_ns: tuple[int, ...] = ()
    sqlstate: str | None = None


@dataclass(frozen=True)
class MixFailure:
    """The first message of a SQLSTATE from a statement, by its number in the mix."""

    statement: int
    sqlstate: str
    message: str


def run_mix(
    connect: Mapping[str, object],
    statements: Sequence[MixStatement],
    order: Sequence[int],
    sessions: int,
    before: Sequence[str] = (),
) -> tuple[list[MixExecution], list[MixFailure]]:
    """Execute the statements in `order` (their numbers) by so many sessions; whoever is free takes the next.

    Returns the executions, and of each kind of failure what the server said first.

    Args:
        connect: connection parameters, as for `SqlSession.connect`.
        before: what each session runs before the first execution, untimed.

    Raises:
        StatementError: the server can't be reached or refuses, or a statement fails each time. What runs
            then is cancelled, as it is when the caller is interrupted.
        UsageError: there is no native binary of this version.
    """
    process = NativeProcess("mix")
    try:
        process.send(
            {
                "connect": dict(connect),
                "sessions": sessions,
                "statements": [each.document() for each in statements],
                "order": list(order),
                "before": list(before),
            }
        )
        answer = process.receive()
    finally:
        process.end()
    executed = [
        MixExecution(**{**each, "parts_ns": tuple(each.get("parts_ns", ()))}) for each in answer["executed"]
    ]
    return executed, [MixFailure(**each) for each in answer["failures"]]
