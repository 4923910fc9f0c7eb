"""What `--plan` prints: an experiment before it is run."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

PLANNED_SCHEMA = 1
# Where the time of a trial comes from: an earlier experiment of its kind on this machine, or what a load
# lasts with some seconds around it; nothing tells how long statements take that never ran.
TrialTimeFrom = Literal["earlier experiment", "length of the load", "not known"]


class PlannedCell(Frozen):
    """The arms of a stratum, compared with its control.

    `blocks`: those that the time given has room for, None where the time of a trial is not known.
    `resolves`: the smallest effect that these find (a fraction; 80 % power); None where they are too few for
    any verdict, or the time is not known. `is_decidable`: whether an effect as small as the margin is among
    them.
    """

    stratum: str
    control: str
    arms: tuple[str, ...]
    blocks: int | None
    resolves: float | None
    is_decidable: bool | None


class Planned(Frozen):
    """The plan of an experiment, of which nothing was measured.

    `trial_s`: what a trial takes. `spread`: of single trials, as a fraction, and whether this machine knows
    it of an earlier experiment (`spread_known`) or it is what shared machines show. `least_s`: the fewest
    blocks that can give a verdict, of all cells. `wanted_s`: what deciding all cells at the margin takes, in
    about eight of ten cases. Both are None where the time of a trial is not known.
    """

    schema_: int = Field(default=PLANNED_SCHEMA, alias="schema")
    title: str
    metric: str
    margin: float
    trials_per_round: int
    time_max_s: float
    blocks_max: int
    trial_s: float | None
    trial_s_from: TrialTimeFrom
    spread: float
    spread_known: bool
    blocks_least: int
    blocks_wanted: int
    least_s: float | None
    wanted_s: float | None
    cells: tuple[PlannedCell, ...]
    skipped: tuple[str, ...]
    warnings: tuple[str, ...]
