"""What a capture holds, summed up: what `pgassay capture show` prints."""

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CaptureFamily(_Frozen):
    """Statements that differ in their values alone; `share` is that of the time of all statements."""

    text: str
    calls: int
    errors: int
    rows: int
    seconds: float
    share: float
    mean_ms: float
    max_ms: float


class CaptureMoment(_Frozen):
    """A part of the capture's time: sessions that were open, statements that ran at once on average."""

    from_s: float
    sessions: int
    active: float
    statements: int


class Unreplayable(_Frozen):
    """What a replay can't reproduce, and why; `share` of the statements' time, None where it has none."""

    reason: str
    count: int
    share: float | None


class CaptureSummary(_Frozen):
    """A capture, summed up. Times in seconds; `busy_s` is the statements' time, added up over sessions.

    `pipelined_s` of it is of pipelines of several statements, which share it evenly.
    """

    schema_: int = Field(default=1, alias="schema", serialization_alias="schema")
    folder: str
    source: str
    server_version: str | None
    started_at: str
    seconds: float
    is_finished: bool
    bytes: int
    sessions: int
    sessions_most: int
    transactions: int
    statements: int
    errors: int
    cancels: int
    busy_s: float
    pipelined_s: float = 0.0
    users: dict[str, int]
    databases: dict[str, int]
    families: list[CaptureFamily]
    moments: list[CaptureMoment]
    unreplayable: list[Unreplayable]
    notes: list[str]
