"""What maintenance commands did, per arm: medians, as every report shows them."""

from pgassay.model.base import Frozen
from pgassay.model.maintenance import MaintenanceCommand


class WorkFigure(Frozen):
    """One figure of a command: its median over the valid trials of each arm, in the order of `arms`.

    `per_unit`: a cost per unit of work (time per page, WAL per row version), beside the counts that it is
    computed from. None where an arm's trials don't have it: its version doesn't say so, or there was no work.
    """

    name: str
    unit: str
    per_unit: bool
    medians: tuple[float | None, ...]


class WorkResult(Frozen):
    """What one maintenance command did in each arm. Descriptive: medians without a verdict.

    `arms` and `strata` are in the order of the result's arms.
    """

    statement: str
    command: MaintenanceCommand
    arms: tuple[str, ...]
    strata: tuple[str, ...]
    figures: tuple[WorkFigure, ...]
