"""What `pgassay calibrate` says: the noise of equal arms, and what can be told apart in how much time."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.result import Interval, Stopped
from pgassay.model.workload import Metric

CALIBRATION_SCHEMA = 1
Level = Literal["measurement", "restart", "copy"]
# The covariates that there are readings of.
Told = Literal["canary", "memory", "disk"]
TOLD: tuple[Told, ...] = ("canary", "memory", "disk")


class NoiseResult(Frozen):
    """Standard deviations of log speeds (0.03 is about 3 %) and their shares of a single trial's variance.

    `within_trial`: what the fluctuation of a load's own seconds explains; None for statements, which have no
    seconds. `between_trials`: the rest within a block. `between_blocks`: slow changes, which blocks cancel.
    `trial`: within and between together. `paired`: of the ratio of two trials of one block; `paired_upper`:
    its upper bound (80 %), from which the table is made. `shares` sum to 1.
    """

    within_trial: float | None
    between_trials: float
    between_blocks: float
    trial: float
    paired: float
    paired_upper: float
    shares: dict[str, float]


class LevelResult(Frozen):
    """One level of repetition, of log speeds: what its units add to the variance of those within them.

    `copy`: copies or loads of the data; `restart`: starts of the server on a copy; `measurement`: within one
    start. `spread` is a standard deviation (0.03 is about 3 %; 0: none was found) with its 95 % `interval`,
    both None where this experiment can't tell the level. `repetitions`: how many to take within one of the
    level around it, and of the outermost for an interval as narrow as the margin; None where that is not
    known. `cost_s`: the seconds that one more takes, without those of the levels within it.
    """

    level: Level
    spread: float | None
    interval: Interval | None
    repetitions: int | None
    cost_s: float | None


class CopyEffect(Frozen):
    """How much copies of the data differ on a storage, as a standard deviation of log speeds.

    `interval` is a 95 % interval of `spread`; `differ`: it excludes no difference. `evidence`: the e-value
    that they differ, None where copies were not compared within blocks.
    """

    storage: str
    copies: int
    spread: float
    interval: Interval
    evidence: float | None
    differ: bool


class CovariateFit(Frozen):
    """What a reading before each trial tells of the trial's speed, beside the others of its block.

    `explained`: the share of the variance, corrected for chance (it may be below 0); `spread`: the standard
    deviation of log speeds that it leaves. `tells`: its slope differs from 0, at 1 % over all readings.
    """

    name: Told
    explained: float
    spread: float
    tells: bool


class ModesResult(Frozen):
    """Whether trials come in two speeds, and which covariate tells them.

    `found`: there is a gap in the speeds themselves; then `ratio` is the fast speed over the slow one and
    `slow_share` the share of slow trials, else both are None. `declare`: the covariate that explains at least
    half of the variance within blocks, and most of all; None where none does.
    """

    found: bool
    ratio: float | None
    slow_share: float | None
    covariates: tuple[CovariateFit, ...]
    declare: Told | None


class DriftResult(Frozen):
    """Change of speed over the run's `hours`, as a straight line; fractions, negative is slower.

    `interval` is a 95 % interval of `change`; `seen`: it excludes no drift.
    """

    change: float
    interval: Interval
    hours: float
    seen: bool


class StealResult(Frozen):
    """The share of one processor's time that a hypervisor took, over the measured parts of trials."""

    mean: float
    highest: float


class Resolution(Frozen):
    """What so many minutes resolve in a comparison of two levels with this workload; None: nothing yet.

    `effect`: the smallest difference found at 80 % power; `margin`: the smallest margin within which equal
    arms are found equivalent at 80 % power. Both are fractions.
    """

    minutes: int
    blocks: int
    effect: float | None
    margin: float | None


class EqualArms(Frozen):
    """What the comparison said of its equal arms: anything but equivalent or inconclusive is an error."""

    name: str
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: Literal["faster", "slower", "equivalent", "inconclusive"]


class LedgerResult(Frozen):
    """What all experiments of this machine say of copies, positions and neighbours (Shiryaev–Roberts).

    `detectors`: R by kind of check; `evidence`: their mean, which raises the alarm at 1000 and then begins
    anew; `alarm`: one has not ended, `alarm_kinds` which, `alarm_since` when the experiment was made that
    raised the first of them.
    """

    experiments: int
    evidence: float
    alarm: bool
    detectors: dict[str, float] = Field(default={})
    alarm_kinds: tuple[str, ...] = ()
    alarm_since: str | None = None


class CalibrationResult(Frozen):
    """The document of `pgassay calibrate --json`; schema in schemas/calibration.schema.json."""

    schema_: int = Field(default=CALIBRATION_SCHEMA, alias="schema")
    folder: str
    workload: str
    cache: str
    metric: Metric
    margin: float
    alpha: float
    blocks: int
    trials: int
    stopped: Stopped
    trial_s: float | None
    block_s: float | None
    noise: NoiseResult | None
    drift: DriftResult | None
    steal: StealResult | None
    resolves: tuple[Resolution, ...]
    minutes_for_margin: float | None
    equal_arms: tuple[EqualArms, ...]
    twin_evidence: float
    ledger: LedgerResult | None
    levels: tuple[LevelResult, ...] = ()
    copies: CopyEffect | None = None
    modes: ModesResult | None = None
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
