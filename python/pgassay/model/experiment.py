"""experiment.json: the whole plan of an experiment, fixed before its first trial."""

from typing import Any, Literal

from pydantic import Field

from pgassay.model.arm import Arm
from pgassay.model.base import Frozen
from pgassay.model.workload import Metric

EXPERIMENT_FORMAT = 1
CacheState = Literal["cold", "cold-each", "warm-buffers", "warm-pages", "as-is"]
CACHE_STATES: tuple[CacheState, ...] = ("cold", "cold-each", "warm-buffers", "warm-pages", "as-is")
Observe = Literal["off", "normal", "fast"]
OBSERVE: tuple[Observe, ...] = ("off", "normal", "fast")


class Protocol(Frozen):
    """The protocol of every trial of an experiment.

    `device_fraction_min`: the share of PostgreSQL's own read bytes that the device must have
    delivered for a statement to count as cold. `settle_timeout_s` bounds the wait for dirty and
    writeback pages to fall to nothing before a trial. `sample_interval_s` is the time between two rows of
    every sampler; `observe` says how often the states and wait events of the server's threads are read.
    """

    cache: CacheState
    device_fraction_min: float = 0.95
    settle_timeout_s: float = 60.0
    statement_timeout_s: float = 3600.0
    sample_interval_s: float = 0.2
    observe: Observe = "normal"


class StatisticalContract(Frozen):
    """Written before the first trial and never changed after it.

    `margin` is the equivalence margin as a fraction (0.03 is 3 %), `alpha` the error rate over all
    contrasts, `blocks_max` and `time_max_s` the limits, `contrasts` the number of comparisons with
    a control (m), `pool_twin` whether the twin counts as a second control.
    """

    metric: Metric
    margin: float = 0.03
    alpha: float = 0.05
    blocks_max: int = 60
    time_max_s: float = 900.0
    seed: int = 0
    pool_twin: bool = True
    covariate: Literal["none", "canary"] = "none"
    contrasts: int = 1


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
