"""Two diagnoses of one server beside each other: what is otherwise at the second."""

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.running_server.diagnosis import Activity, Headline

DIAGNOSIS_CHANGE_SCHEMA = 1


class ChangedStatement(Frozen):
    """A statement in both, or in one: figures of it are None where it was not seen, or nothing counted it.

    `times_as_fast`: the mean time before over the mean time after.
    """

    query_id: str | None
    query: str
    share_before: float | None
    share_after: float | None
    calls_s_before: float | None
    calls_s_after: float | None
    mean_ms_before: float | None
    mean_ms_after: float | None
    times_as_fast: float | None


class DiagnosisChange(Frozen):
    """The JSON document of `pgassay diagnose BEFORE AFTER`: two looks, and no experiment.

    `statements`: those of most time in either first. `notes`: what makes the two less alike.
    """

    schema_: int = Field(default=DIAGNOSIS_CHANGE_SCHEMA, alias="schema")
    pgassay_version: str
    server: str
    started_at_before: str
    started_at_after: str
    seconds_before: float
    seconds_after: float
    headline_before: Headline | None
    headline_after: Headline | None
    activity_before: Activity
    activity_after: Activity
    statements: tuple[ChangedStatement, ...]
    notes: tuple[str, ...]
