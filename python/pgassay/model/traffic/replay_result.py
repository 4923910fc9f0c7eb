"""What a replay came to: what `pgassay replay` prints."""

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.profile.result import ServerProfile

REPLAY_SCHEMA = 1


class Percentiles(Frozen):
    """Times in milliseconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p99_9: float = Field(alias="p99.9", serialization_alias="p99.9")
    max: float


class ReplayExample(Frozen):
    """The first execution that came out otherwise: its outcome in the capture, and now."""

    captured: str
    now: str


class ReplayFamily(Frozen):
    """Statements that differ in their values alone.

    `diverged` had another number of rows, command tag or SQLSTATE, or were not executed; `other_values` had
    as many rows, with other values in them. Seconds are the executions' time, added up.
    """

    text: str
    calls: int
    diverged: int
    other_values: int
    seconds_captured: float
    seconds: float
    diverged_s: float
    times_ms: Percentiles | None
    example: ReplayExample | None


class ReplayPlayer(Frozen):
    """The player's own share: processor time, and how late by its own doing it sent."""

    cpu_s: float
    without_processor_s: float
    late_p99_ms: float
    late_ms: Percentiles | None
    is_limit: bool


class ReplayResult(Frozen):
    """One replay. `speed` None: as fast as the order between sessions allowed.

    `lacking` statements can't come out the same, since something of them is not in the capture; `reordered`
    steps went out before what should have come first, since locks would have kept both waiting for ever;
    `replaced` values became those that the server made this time. `profile`: the server's functions by their
    time per statement, where perf sampled it.
    """

    schema_: int = Field(default=REPLAY_SCHEMA, alias="schema", serialization_alias="schema")
    folder: str
    server: str
    server_version: str
    captured_version: str | None
    speed: float | None
    seconds_captured: float
    seconds: float
    is_stopped: bool
    is_valid: bool
    bound: float
    statements: int
    replayed: int
    diverged: int
    diverged_share: float
    other_values: int
    lacking: int
    reordered: int
    replaced: int
    waited_s: float
    sessions: int
    sessions_left_out: int
    sessions_lost: int
    failures: dict[str, int]
    busy_captured_s: float
    busy_s: float
    latency_ms: Percentiles | None
    behind_ms: Percentiles | None
    player: ReplayPlayer
    families: list[ReplayFamily]
    notes: list[str]
    profile: ServerProfile | None = Field(default=None, exclude_if=lambda value: value is None)
