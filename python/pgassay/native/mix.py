"""Statements executed by several sessions at once, run and timed by the native binary's command `mix`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgassay.native.process import NativeProcess

# `stopped`: after its limit. `given-up`: by the server for another session's sake (deadlock, 40001).
MixOutcome = Literal["ended", "stopped", "given-up"]


@dataclass(frozen=True)
class MixStatement:
    """A statement of a mix; `name` is what failures call it.

    `rolled_back`: it runs within a transaction that is rolled back, untimed, so that each execution finds the
    same rows. `limit_ms`: after how long the server stops it; None for never.
    """

    name: str
    sql: str
    rolled_back: bool = False
    limit_ms: int | None = None


@dataclass(frozen=True)
class MixExecution:
    """One execution, from just before it was sent to ReadyForQuery, in nanoseconds of CLOCK_MONOTONIC.

    `statement`: its number in the mix; `rows` that the server sent or changed.
    """

    statement: int
    start_ns: int
    end_ns: int
    rows: int
    outcome: MixOutcome


def run_mix(
    connect: Mapping[str, object],
    statements: Sequence[MixStatement],
    order: Sequence[int],
    sessions: int,
    before: Sequence[str] = (),
) -> list[MixExecution]:
    """Execute the statements in `order` (their numbers) by so many sessions; whoever is free takes the next.

    Args:
        connect: connection parameters, as for `SqlSession.connect`.
        before: what each session runs before the first execution, untimed.

    Raises:
        StatementError: the server can't be reached or refuses, or a statement fails for good. What runs then
            is cancelled, as it is when the caller is interrupted.
        UsageError: there is no native binary of this version.
    """
    process = NativeProcess("mix")
    try:
        process.send(
            {
                "connect": dict(connect),
                "sessions": sessions,
                "statements": [vars(each) for each in statements],
                "order": list(order),
                "before": list(before),
            }
        )
        executed = process.receive()["executed"]
    finally:
        process.end()
    return [MixExecution(**each) for each in executed]
