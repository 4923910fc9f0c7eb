"""experiment.json: the whole plan of an experiment, fixed before its first trial."""

from typing import Any

from pydantic import Field

from pgassay.model.arm import Arm
from pgassay.model.base import Frozen
from pgassay.model.protocol import Protocol, StatisticalContract

EXPERIMENT_FORMAT = 1


class Contrast(Frozen):
    """One comparison: an arm with the control of its stratum, pooled with that stratum's twin."""

    arm_id: str
    control_id: str
    twin_id: str | None
    stratum: str


class Experiment(Frozen):
    """The plan. `command` is the command line that repeats it; `skipped` the arms left out and why.

    `dataset_loads`: the data are loaded so many times for each arm, and block b uses load b modulo it.

    `confounds` and `warnings` are what the plan itself says against its findings.
    `swap` is the user's command that swaps the settings of two remote servers halfway ('' for none).
    `environment` holds the machine's facts, `ceilings` the limits measured by a probe of the same
    device (empty when there is none), so that analysis needs nothing but this folder.
    """

    format: int = EXPERIMENT_FORMAT
    pgassay_version: str
    created_at: str
    command: tuple[str, ...]
    title: str
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...]
    contract: StatisticalContract
    protocol: Protocol
    dataset_loads: int = 1
    skipped: tuple[str, ...] = ()
    confounds: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    swap: str = ""
    environment: dict[str, Any] = Field(default_factory=dict)
    ceilings: dict[str, Any] = Field(default_factory=dict)
