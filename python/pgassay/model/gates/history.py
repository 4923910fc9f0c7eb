"""What `pgassay history` says of stored gates and experiments."""

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.gates.gate import Ends

HISTORY_SCHEMA = 1


class HistoryRun(Frozen):
    """One stored gate or experiment; `revision` is the change's, `outcome` '' for an experiment."""

    name: str
    created_at: str
    revision: str = ""
    baseline_revision: str = ""
    outcome: str = ""


class HistoryPoint(Frozen):
    """A unit in one run; `run` counts from 0 in the order of time."""

    run: int
    ratio: float
    interval: Ends | None
    standard_error: float | None
    finding: str = ""


class HistoryChange(Frozen):
    """The effect changed: `run` is the first run after it.

    `earliest` and `latest`: the runs among which the first after the change lies, in 90 of 100 cases.
    `before`, `after`: the mean ratio of the runs on both sides, up to the next change.
    """

    run: int
    earliest: int
    latest: int
    before: float
    after: float


class HistorySeries(Frozen):
    """One unit over the runs: a gate's workload or statement, or an experiment's arm."""

    name: str
    margin: float
    points: tuple[HistoryPoint, ...]
    changes: tuple[HistoryChange, ...] = ()


class HistoryResult(Frozen):
    """What `pgassay history --json` prints; schema in schemas/history.schema.json.

    `alpha`: how often a folder in which nothing changed shows a change, over all its series, at most.
    `skipped`: a sentence for each folder that could not be read.
    """

    schema_: int = Field(default=HISTORY_SCHEMA, alias="schema")
    folder: str
    alpha: float
    runs: tuple[HistoryRun, ...]
    series: tuple[HistorySeries, ...]
    verdict: str = ""
    skipped: tuple[str, ...] = ()
