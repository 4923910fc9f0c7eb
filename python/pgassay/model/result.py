"""The document that `--json` prints, and that every report is made from."""

from typing import Literal

from pydantic import Field

from pgassay.model.account import ArmAccounts
from pgassay.model.base import Frozen
from pgassay.model.cause import Cause, Explanation
from pgassay.model.changes import ArmChanges
from pgassay.model.experiment import Baseline
from pgassay.model.further_results.effects import FactorEffects
from pgassay.model.maintenance import WorkResult
from pgassay.model.plans.executed_plan import PlanChanged, StatementPlan
from pgassay.model.profile.result import ProfileResult
from pgassay.model.server_statement import (
    ArmCheckpoints,
    ArmConnections,
    ArmErrors,
    ArmIostat,
    ArmLatency,
    ArmLoadStatement,
    ArmPooler,
    ArmStatements,
    TableCache,
)
from pgassay.model.volumes.arm import ArmVolumes
from pgassay.model.workload import Metric

Verdict = Literal["faster", "slower", "equivalent", "inconclusive", "control"]
SecondaryVerdict = Literal["less", "more", "equivalent", "inconclusive", "control"]
Stopped = Literal["decided", "max-time", "blocks", "interrupted", "failed", "running"]
Interval = tuple[float, float]
RESULT_SCHEMA = 1
PLANNED_SCHEMA = 1
# Where the time of a trial comes from: an earlier experiment of its kind on this machine, or what a load
# lasts with some seconds around it; nothing tells how long statements take that never ran.
TrialTimeFrom = Literal["earlier experiment", "length of the load", "not known"]


class Forecast(Frozen):
    """What an undecided arm is likely still to take until its verdict: further blocks, further seconds.

    Each is (p10, median, p90) of simulated continuations of the evidence in hand; None for one that lies
    beyond what can be said.
    """

    blocks: tuple[int | None, int | None, int | None]
    seconds: tuple[float | None, float | None, float | None]


class DesignWarning(Frozen):
    """A warning that the design itself gives rise to; `arm` is '' when it is about no single one."""

    kind: Literal["carry-over", "failures", "copies", "machine", "imitation"]
    sentence: str
    arm: str = ""
    stratum: str = ""


class ArmResult(Frozen):
    """An arm against its control. `ratio` is speed over the control's: above 1 is faster.

    `ratio` and `interval` are None while there is no block to compare; `interval` alone is None when the
    effect moved, so that no single one fits all blocks. For the control itself ratio is 1 and the
    interval (1, 1). An interval end that the data do not bound is 0 or infinite (written null in JSON).
    `meaningful`: the interval lies wholly outside the margin. `values` are the metric of every valid
    trial in run order, in the metric's unit; `median` is of those.
    `note` holds what qualifies the verdict, e.g. "the distribution changed"; `confound` in what the
    arm's binaries differ from the control's beside the version ('' when in nothing). `forecast`: None for an
    arm that is decided, or of which nothing can be said. `equivalence_interval`: the interval by which
    an equivalent arm was found so, where its two one-sided tests have α each; it lies inside `interval`.

    `blocks`: the complete blocks that ratio and interval are of; `replicates`: the sets of fresh copies of
    the data that those ran on, where such a set is what counts, else None. `starts`: the starts of the server
    that they are, where all arms ran in each start, else None. `assumption`: what a verdict assumes that so
    few starts can't show, '' where nothing. Neither is written where there is none.
    """

    name: str
    levels: dict[str, str]
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: Verdict
    meaningful: bool
    trials: int
    failures: int
    median: float | None
    values: tuple[float, ...]
    stratum: str = ""
    withheld: bool = False
    note: str = ""
    confound: str = ""
    forecast: Forecast | None = None
    blocks: int = 0
    replicates: int | None = None
    equivalence_interval: tuple[float | None, float | None] | None = None
    starts: int | None = Field(default=None, exclude_if=lambda starts: starts is None)
    assumption: str = Field(default="", exclude_if=lambda assumption: not assumption)


class TwinResult(Frozen):
    """The hidden duplicate of the control. ok None: fewer blocks than its gate can speak on."""

    ratio: float | None
    interval: tuple[float | None, float | None] | None
    ok: bool | None
    evidence: float = 1.0
    stratum: str = ""


class StatementResult(Frozen):
    """One statement's arms; a second, labelled family with its own error control (e-BH)."""

    name: str
    cold: bool
    aio: bool
    arms: tuple[ArmResult, ...]


class SecondaryArmResult(ArmResult):
    """An arm's secondary metric. `ratio` is the metric over the control's: below 1 is less of it."""

    # Readers take the word as text, so another set of words can't mislead them.
    verdict: SecondaryVerdict  # type: ignore[assignment]


class SecondaryResult(Frozen):
    """A secondary metric (server CPU per unit of work): another estimand, never 'faster'."""

    name: str
    unit: str
    arms: tuple[SecondaryArmResult, ...]


class DeviceUse(Frozen):
    """How near an arm came to its device's ceiling: the nearer of bandwidth (10⁶ bytes) and requests.

    `value` and `ceiling` are in `unit`; `fraction` is the one over the other. Writes are counted as well
    where they use up the same ceiling: the unit of requests is 'reads/s' without, 'requests/s' with them.
    """

    arm: str
    value: float
    ceiling: float
    unit: Literal["MB/s", "reads/s", "requests/s"]
    fraction: float
    sentence: str


class CrossedEffect(Frozen):
    """One effect of two that were crossed; `ratio` and `interval` as for an arm."""

    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: Verdict


class CrossedResult(Frozen):
    """Two servers whose settings were swapped halfway: the effect of the settings apart from the machines'.

    `settings`: those that `name` had at first over those of `control`; `hardware`: its machine over the
    other. `withheld`: a twin differs from its control in one of the halves.
    """

    name: str
    control: str
    stratum: str = ""
    settings: CrossedEffect
    hardware: CrossedEffect
    blocks_before: int
    blocks_after: int
    withheld: bool = False


class ComparedDefaults(Frozen):
    """The defaults that belong to what is compared: each version ran on its own.

    `builds`: the pair, as "17.10 and 18.6"; `settings`: by name both values, of the first and of the second,
    "no such setting" where one lacks it.
    """

    builds: str
    settings: dict[str, tuple[str, str]]


class ArmCapacity(Frozen):
    """The highest rate of transactions a second at which an arm keeps the bound of its latencies.

    `rate`: the estimate; `interval`: its ends, 0 and None where nothing bounds them. All arms' intervals hold
    together, at any look. `trials`: of the arm, its twin's among a control's; `kept`: those that kept the
    bound. `known`: to within ± 15 %, or beyond all rates that are tried. `ratio`: to the control's rate, with
    the interval that follows from both; None for a control.
    """

    arm: str
    stratum: str
    rate: float
    interval: tuple[float, float | None]
    trials: int
    kept: int
    known: bool
    ratio: float | None = None
    ratio_interval: tuple[float, float | None] | None = None


class LayoutResult(Frozen):
    """What the order of a server's functions did in one stratum of a comparison of builds from source.

    layouts: in how many orders each build was linked. deviation: of trials by their layout alone, as a
    fraction of speed; share: of the variance of trials within a block; None while neither is known.
    """

    stratum: str
    layouts: int
    deviation: float | None
    share: float | None


class CompareResult(Frozen):
    """The contract for scripts; schema in schemas/compare.schema.json.

    `baseline`: where the settings come from that nobody gave; None for servers that run already. `compared`:
    what is compared by that beside the levels, in sentences, and `compared_defaults` in full.

    `blocks`: the complete blocks; where strata have blocks of their own, those of the stratum with most.
    `plans`: those that were due to be executed after trials; () where the experiment executes none.
    `crossovers`: along which factors the limit moves from the storage to the processors, in sentences.
    `volumes`: of arms whose data or WAL lie on imitated volumes, these and what they cost.
    `effects`: of a grid what every factor does; None where one factor alone is varied. `profile`: of further
    trials in which perf sampled the servers; not written where there were none.
    `capacities`: the most that each arm holds within a bound, where that is asked for. `plan_changes`: what
    executed plans do otherwise than the control's. `layouts`: of builds
    from source whose functions were linked in several orders.
    """

    schema_: int = Field(default=RESULT_SCHEMA, alias="schema")
    folder: str
    workload: str
    metric: Metric
    control: str
    margin: float
    alpha: float
    blocks: int
    stopped: Stopped
    arms: tuple[ArmResult, ...]
    twin: TwinResult
    statements: tuple[StatementResult, ...] = ()
    plans_differ: bool = False
    baseline: Baseline | None = None
    compared: tuple[str, ...] = ()
    compared_defaults: tuple[ComparedDefaults, ...] = ()
    confounds: tuple[str, ...] = ()
    warnings: tuple[str | DesignWarning, ...] = ()
    secondary: tuple[SecondaryResult, ...] = ()
    work: tuple[WorkResult, ...] = ()
    accounts: tuple[ArmAccounts, ...] = ()
    causes: tuple[Cause, ...] = ()
    crossovers: tuple[str, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    within_trials: tuple[ArmChanges, ...] = ()
    server_statements: tuple[ArmStatements, ...] = ()
    twins: tuple[TwinResult, ...] = ()
    family: str = ""
    estimates: str = ""
    failures: int = 0
    cache: str = ""
    skipped: tuple[str, ...] = ()
    device_use: tuple[DeviceUse, ...] = ()
    crossed: tuple[CrossedResult, ...] = ()
    plans: tuple[StatementPlan, ...] = ()
    table_cache: tuple[TableCache, ...] = ()
    latencies: tuple[ArmLatency, ...] = ()
    volumes: tuple[ArmVolumes, ...] = ()
    effects: FactorEffects | None = None
    profile: ProfileResult | None = Field(default=None, exclude_if=lambda profile: profile is None)
    capacities: tuple[ArmCapacity, ...] = Field(default=(), exclude_if=lambda capacities: not capacities)
    errors: tuple[ArmErrors, ...] = Field(default=(), exclude_if=lambda errors: not errors)
    checkpoints: tuple[ArmCheckpoints, ...] = Field(default=(), exclude_if=lambda found: not found)
    iostat: tuple[ArmIostat, ...] = Field(default=(), exclude_if=lambda iostat: not iostat)
    plan_changes: tuple[PlanChanged, ...] = Field(default=(), exclude_if=lambda changes: not changes)
    poolers: tuple[ArmPooler, ...] = Field(default=(), exclude_if=lambda poolers: not poolers)
    connections: tuple[ArmConnections, ...] = Field(default=(), exclude_if=lambda found: not found)
    load_statements: tuple[ArmLoadStatement, ...] = Field(default=(), exclude_if=lambda found: not found)
    layouts: tuple[LayoutResult, ...] = Field(default=(), exclude_if=lambda layouts: not layouts)
    verdict: str = ""

    @property
    def warning_sentences(self) -> tuple[str, ...]:
        """The warnings as text, whichever kind they have."""
        return tuple(each if isinstance(each, str) else each.sentence for each in self.warnings)


class PlannedCell(Frozen):
    """The arms of a stratum, compared with its control.

    `blocks`: those that the time given has room for, None where the time of a trial is not known.
    `resolves`: the smallest effect that these find (a fraction; 80 % power); None where they are too few for
    any verdict, or the time is not known. `is_decidable`: whether an effect as small as the margin is among
    them. `block_s`: what a block of it takes, None where that is not known.
    """

    stratum: str
    control: str
    arms: tuple[str, ...]
    blocks: int | None
    resolves: float | None
    is_decidable: bool | None
    block_s: float | None = None


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
