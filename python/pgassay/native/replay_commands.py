"""A capture that is looked at or played, by the commands `capture-sessions`, `replay-plan` and `replay`."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from pgassay.errors import UsageError
from pgassay.native.process import NativeProcess, StatementError


class PlannedFamily(TypedDict):
    """Statements that differ in their values alone: one of them, and what they took in the capture."""

    sample: str
    calls: int
    seconds_captured: float
    writes: bool


class PlannedReplay(TypedDict):
    """What a replay would play. `sessions_most`: that were open at once; `left_out`: sessions not chosen."""

    sessions: int
    sessions_most: int
    left_out: int
    statements: int
    seconds_captured: float
    families: list[PlannedFamily]


class ReplayReady(TypedDict):
    """What is about to be played."""

    sessions: int
    statements: int


class ReplayProgress(TypedDict):
    """How far it is; once a second."""

    elapsed_s: float
    replayed: int
    open: int
    behind_s: float


class PlayedFamily(TypedDict):
    """As `PlannedFamily`, with what came out: `docs/replay.md`.

    `same`: executions that came out as in the capture, which took `same_s`.
    """

    sample: str
    calls: int
    same: int
    same_s: float
    diverged: int
    other_values: int
    seconds_captured: float
    seconds: float
    diverged_s: float
    example: dict[str, str] | None
    times_ms: dict[str, float] | None


class PlayerShare(TypedDict):
    """The player's thread: its processor time, and how long it was ready and had no processor."""

    cpu_s: float
    without_processor_s: float


class MeasuredReplay(TypedDict):
    """As in a load's record: CLOCK_MONOTONIC nanoseconds, milliseconds by name, histograms as base64."""

    start_ns: int
    end_ns: int
    latency_ms: dict[str, float]
    histogram: str
    own_delay_ms: dict[str, float]
    own_delay_histogram: str


class ReplayRecord(TypedDict):
    """What a replay came to."""

    seconds: float
    replayed: int
    lacking: int
    reordered: int
    replaced: int
    waited_s: float
    sessions_lost: int
    failures: dict[str, int]
    behind_ms: dict[str, float] | None
    player: PlayerShare
    measured: MeasuredReplay
    families: list[PlayedFamily]


def sessions_of(folder: str) -> list[tuple[str, str, int]]:
    """User, database and number of a capture's sessions; raises UsageError for what is no capture."""
    process = NativeProcess("capture-sessions")
    try:
        process.send({"folder": folder})
        found: list[tuple[str, str, int]] = process.receive()["sessions"]
        return found
    except StatementError as error:
        raise UsageError(error.message) from None
    finally:
        process.end()


def planned(wanted: Mapping[str, object]) -> PlannedReplay:
    """What would be played of a capture's `folder` and `database`; raises UsageError.

    wanted: those, and `users`, `until_s`, `sample` where it is only a part of the sessions.
    """
    process = NativeProcess("replay-plan")
    try:
        process.send(wanted)
        found: PlannedReplay = process.receive()["plan"]
        return found
    except StatementError as error:
        raise UsageError(error.message) from None
    finally:
        process.end()


def play(
    document: Mapping[str, object], on_progress: Callable[[ReplayProgress], None]
) -> tuple[ReplayReady, ReplayRecord]:
    """Play a capture to its end; when `on_progress` raises, it is ended.

    Raises StatementError when the capture or the server can't be used.
    """
    with NativeProcess("replay") as process:
        process.send(document)
        ready: ReplayReady = process.receive()["ready"]
        while "ended" not in (line := process.receive()):
            on_progress(line["progress"])
    ended: ReplayRecord = line["ended"]
    return ready, ended
