"""How a trial is prepared and measured, and how an experiment is judged."""

from typing import Literal

from pgassay.model.base import Frozen
from pgassay.model.workload import Metric

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
