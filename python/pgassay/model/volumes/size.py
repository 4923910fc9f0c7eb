"""What size of volume a workload needs: what `pgassay size` prints.

Times are seconds for one unit of the workload: a transaction of a load, or one run of all statements.
"""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.volumes.offer import CatalogueFacts

SIZE_SCHEMA = 1
SizeUnit = Literal["transaction", "run", "statement"]
Dimension = Literal["operations", "throughput", "latency"]
Within = Literal["yes", "no", "depends on latency"]


class Recording(Frozen):
    """A trial whose requests were recorded, and what was inferred of them.

    `elapsed_s`: the measured part; `units` were done in it. `lanes`: the most that waited at once for
    requests of their own; `computing_s` of all of them between requests; `processors`: how many they are
    taken to have had. `write_back`: writes that nobody waited for; `log_writes`: those of logs, of which one
    is on its way at a time. `lost`: requests that are missing in the trace.
    """

    trial: int
    attempt: int
    storage: str
    elapsed_s: float
    units: int
    seconds_per_unit: float
    reads: int
    writes: int
    flushes: int
    bytes: int
    lanes: int
    computing_s: float
    processors: float
    write_back: int
    log_writes: int
    lost: int
    is_complete: bool
    is_used: bool


class SizedVolume(Frozen):
    """One volume: what it costs, and what the workload would take on it.

    `volume`: its text, with `,wal=volume:…` where the WAL has one of its own; `price_per_month` is that of
    both then, with their instance, and `wal_per_month` the part of it that is the WAL's, else None.
    `low_s` and `high_s`: the same at the ends of the range in which its latency is assumed to lie, None where
    that was not looked at. `slow_down`: by which share it is slower than the volume it is compared with, with
    its own ends. `within`: whether that is within what was allowed. `credits_ended_s`: when burst credits
    ended in the replay, None where they lasted. `is_on_front`: none is both cheaper and faster.

    All times are those without burst credits, where the workload uses more of them than come back: then
    `burst_seconds_per_unit` is its time while they last, for `credits_last_s` if it goes on as it was
    recorded. Both are None where credits make no difference.

    `unserved_share`: of all that was asked of it, what it had not done by then: writes that nobody waited for
    and that pile up on it.
    """

    volume: str
    title: str
    provider: str
    price_per_month: float | None
    currency: str | None
    seconds_per_unit: float
    low_s: float | None
    high_s: float | None
    slow_down: float
    slow_down_low: float | None
    slow_down_high: float | None
    within: Within
    price_per_million: float | None
    credits_ended_s: float | None
    is_on_front: bool
    is_recommended: bool
    latency_assumed: bool
    wal_per_month: float | None = None
    burst_seconds_per_unit: float | None = None
    credits_last_s: float | None = None
    unserved_share: float = 0.0


class CurvePoint(Frozen):
    """What the workload would take with so much of one dimension, and no limit of the others."""

    value: float
    seconds_per_unit: float


class Knee(Frozen):
    """Beyond `value` nothing is gained: the time is within `tolerance` of that without this limit.

    `operations` a second, `throughput` in MiB a second, `latency` in ms (below it nothing is gained); at the
    latency of the recommended volume. None where even the end of the curve gains.
    """

    dimension: Dimension
    value: float | None
    tolerance: float
    curve: tuple[CurvePoint, ...]


class Check(Frozen):
    """A prediction beside what was measured: `ratio` is predicted / measured; `trials` were measured.

    `recorded_on`: where the trace comes from. `is_fair`: it says how good the predictions of this report are.
    Else it is made without what they have beside the trace: the time on the fastest volume.
    """

    recorded_on: str
    storage: str
    predicted_s: float
    measured_s: float
    ratio: float
    trials: int
    is_fair: bool


class SizedGroup(Frozen):
    """Arms that differ in their storage alone; `name` tells their other levels, '' where there are none.

    `floor_s`: no prediction is below the time on the fastest volume that was recorded.
    """

    name: str
    unit: SizeUnit
    recordings: tuple[Recording, ...]
    floor_s: float | None
    against: str
    against_s: float
    volumes: tuple[SizedVolume, ...]
    recommended: tuple[str, ...]
    neighbours: tuple[str, ...]
    knees: tuple[Knee, ...]
    checks: tuple[Check, ...]


class StorageBound(Frozen):
    """How much faster a workload of a server elsewhere could be at most, if storage took no time.

    `name` tells the arm's levels, '' where there is one kind of arm; `server` as the experiment calls it.
    `looks`: how often connections were looked at, each connection once a look. `share`: the part of their
    time that storage took at most, the sum of `reads_share` (pages of relations), `wal_share`,
    `other_files_share` (temporary files and all others) and `others_share` (waits for somebody who may have
    waited for storage: locks, latches, other processes), or `timed_share` where that is more: what the
    server's own clock counted, None where it does not time its input and output. `share_interval`: at 95 %,
    over `interval_of`.

    `gain_at_most` = 1 / (1 - share), with its interval; None where nothing bounds it. `other_sessions`: the
    most that were at work there beside the workload, whose waits are in it.
    """

    name: str
    server: str
    unit: SizeUnit
    trials: int
    looks: int
    seconds_per_unit: float
    share: float
    share_interval: tuple[float, float]
    interval_of: Literal["trials", "parts of trials"]
    reads_share: float
    wal_share: float
    other_files_share: float
    others_share: float
    timed_share: float | None
    gain_at_most: float | None
    gain_interval: tuple[float, float | None]
    other_sessions: int


class SizeResult(Frozen):
    """What `pgassay size --json` prints. `slow_down` is what was allowed; `size_gib` what is to be stored.

    `bounds`: of servers elsewhere, in place of `groups`.
    """

    schema_: int = Field(default=SIZE_SCHEMA, alias="schema")
    pgassay_version: str
    catalogue: CatalogueFacts
    folder: str
    workload: str
    slow_down: float
    size_gib: int
    groups: tuple[SizedGroup, ...]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    bounds: tuple[StorageBound, ...] = ()
