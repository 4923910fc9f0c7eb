"""experiment.json: the whole plan of an experiment, fixed before its first trial."""

from typing import ClassVar, Literal, get_args

from pydantic import Field

from pgassay.model.arm import Arm
from pgassay.model.base import Extended, Frozen, Number, Recorded
from pgassay.model.storage import PriceFacts, StorageFacts
from pgassay.model.workload import Metric

EXPERIMENT_FORMAT = 1
BLOCK_FORMAT = 1
# Of a trial in its block: whatever failed as often does not come right, and voids the block.
ATTEMPTS_MAX = 2
CacheState = Literal["cold", "cold-each", "warm-buffers", "warm-pages", "as-is", "restarted"]
CACHE_STATES: tuple[CacheState, ...] = get_args(CacheState)
Observe = Literal["off", "normal", "fast"]
OBSERVE: tuple[Observe, ...] = ("off", "normal", "fast")
# Fixed tasks that tell the machine's speed, each run before the server of a trial is started.
Reading = Literal["memory", "disk"]
READINGS: tuple[Reading, ...] = ("memory", "disk")
# What log speeds can be adjusted for; the canary is run in every trial.
Covariate = Literal["none", "canary", "memory", "disk"]
# Whether the plans of statements are kept, and executed once with EXPLAIN ANALYZE after a trial.
PlanKind = Literal["off", "estimate", "work"]
# What the settings of all arms start from: alike in all of them, or as each version is shipped.
Baseline = Literal["fixed", "shipped"]
# What a row of the evidence is made of: a trial of each arm with a start of its own, or one start for all.
EvidenceUnit = Literal["trial", "start"]
# What an experiment goes on for: a verdict on each arm, or on the main effect of every factor of a grid.
Decide = Literal["arms", "effects"]
# What the slope of a covariate is learnt from: the arm against its controls, or the controls among them too.
Slope = Literal["difference", "members"]
# Whether the evidence is exact only for arms as noisy as their controls, or sign flips must confirm it.
ArmNoise = Literal["equal", "any"]
Between = Literal["nothing", "neutral"]
# Whether each trial has a server of its own, or arms share a start where one running server can be them all.
Restart = Literal["needed", "each"]


class Protocol(Extended):
    """The protocol of every trial of an experiment.

    `device_fraction_min`: the share of PostgreSQL's own read bytes that the device must have
    delivered for a statement to count as cold. `settle_timeout_s` bounds the wait for dirty and
    writeback pages to fall to nothing before a trial. `sample_interval_s` is the time between two rows of
    every sampler; `observe` says how often the states and wait events of the server's threads are read.
    `readings`: which of the machine's speeds are read before the server starts. `repetitions`: how many times
    a list of statements that only read is measured within one start; the first is the trial's figure, the
    further ones tell a calibration how measurements within a start differ. `plans`: whether those of the
    statements are kept as estimated, and with 'work' executed once for each arm, outside of all timing.
    `plans_as_prepared`: where a load prepares its statements, their plans are those of prepared ones; else
    they are planned with values in their text. `before_trial`: the user's command that is run before each
    trial on a remote server ('' for none). `executions`: how many times a trial executes each statement of a
    list, by its name, of which the least counts (the mean where clients execute them at once); one that is
    not named is executed once (at once: `trial/measure/mix.py`). `statement_limits`:
    after how many seconds a trial stops each of these statements of a list, by its name; that time is then a
    lower bound of what it takes, and counts in its place. `switched_indexes`: those that some arm is without,
    on data that all arms share. `rolls_back`: arms that take turns in one server roll back what their
    statements write. `reloaded_settings`: those that the server reads anew before an arm has its turn.
    `profile_rounds`: blocks of further trials in which perf samples the server, `profile_hz` times a second
    where that is above 0.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("readings", "repetitions", "plans", "plans_as_prepared", "before_trial", "executions"),
        *("statement_limits", "switched_indexes", "rolls_back", "reloaded_settings"),
        *("profile_rounds", "profile_hz"),
    )

    cache: CacheState
    device_fraction_min: float = 0.95
    settle_timeout_s: float = 60.0
    statement_timeout_s: float = 3600.0
    sample_interval_s: float = 0.2
    observe: Observe = "normal"
    readings: tuple[Reading, ...] = ()
    repetitions: int = 1
    plans: PlanKind = "estimate"
    plans_as_prepared: bool = False
    before_trial: str = ""
    executions: dict[str, int] = Field(default_factory=dict)
    statement_limits: dict[str, float] = Field(default_factory=dict)
    switched_indexes: tuple[str, ...] = ()
    rolls_back: bool = False
    reloaded_settings: tuple[str, ...] = ()
    profile_rounds: int = 0
    profile_hz: int = 0


class StatisticalContract(Extended):
    """Written before the first trial and never changed after it.

    `margin` is the equivalence margin as a fraction (0.03 is 3 %), `alpha` the error rate over all
    contrasts, `blocks_max` and `time_max_s` the limits, `contrasts` the number of comparisons with
    a control (m), `pool_twin` whether the twin counts as a second control. `weights`: how often each
    statement counts in the metric, by its name; one that is not named counts once.

    `sharpness` is the grid of the evidence (least, most, points), `sharpness_weights` what each of its points
    counts (all alike without them), `first_scale` the spread that is assumed before the first block,
    `equivalence` whether its two one-sided tests have α each or share it, `drift` whether a trial's
    neighbours in time are weighed by how alike they were in earlier blocks, `clipped_share` what evidence
    counts in which outliers are clipped. `slope`: what that of the covariate is learnt from. `noise`: whether
    arms are taken to be as noisy as their controls, or of any symmetric noise as well. `unit`: what a row of
    the evidence is, a trial of each arm, or a start of one server in which all arms ran in turns;
    `start_deviation` by how much one start may change a ratio (0.05 is 5 %) where a claim rests on few of
    them. `decide`: with 'effects' no arm rests, and the experiment goes on until the main effect of every
    factor has a verdict; without `until_decided` it goes on to its last block. Their defaults are the rules
    of experiments that were stored before the fields were there, so those keep their figures.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("sharpness", "sharpness_weights", "first_scale", "equivalence", "drift", "clipped_share"),
        *("weights", "slope", "noise", "unit", "start_deviation", "decide", "until_decided"),
    )

    metric: Metric
    margin: float = 0.03
    alpha: float = 0.05
    blocks_max: int = 60
    time_max_s: float = 900.0
    seed: int = 0
    pool_twin: bool = True
    covariate: Covariate = "none"
    contrasts: int = 1
    sharpness: tuple[float, float, int] = (0.3, 6.0, 8)
    sharpness_weights: tuple[float, ...] = ()
    first_scale: float = 0.05
    equivalence: Literal["shared", "each"] = "shared"
    drift: Literal["none", "neighbours"] = "none"
    clipped_share: float = 0.0
    weights: dict[str, float] = Field(default_factory=dict)
    slope: Slope = "difference"
    noise: ArmNoise = "equal"
    unit: EvidenceUnit = "trial"
    start_deviation: float = 0.05
    decide: Decide = "arms"
    until_decided: bool = True


class BlockDesign(Extended):
    """How blocks are made. Its defaults are those of experiments that were stored before it was there.

    `strata`: a block holds the arms of all strata together, or those of one stratum alone ('apart').
    `data_copies`: K, of which a block's trials use one that is drawn for it; 0: every arm always runs on its
    own `Arm.data_copy`. `blocks_per_copy`: arms that need data of their own get a fresh copy of them after so
    many blocks of their stratum (the copy is then the unit of replication); 0: never.
    `decided_rest`: an arm that has its verdict takes no part in later blocks.
    `between`: what runs before each trial and counts for nothing: 'neutral' is the workload on the control's
    settings, so that every trial has the same predecessor.
    `rates`: between which rates a second each stratum's highest within a bound is looked for, if it is.
    `layouts`: in how many orders of its functions a build from source is linked, of which one is drawn for
    each block: they are the unit of a claim on builds; 0: as they were built.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("rates", "layouts")

    strata: Literal["together", "apart"] = "together"
    data_copies: int = 0
    blocks_per_copy: int = 0
    decided_rest: bool = False
    between: Between = "nothing"
    rates: dict[str, tuple[float, float]] = Field(default_factory=dict)
    layouts: int = 0


class BlockPlan(Extended):
    """What a block is made of, recorded before its first trial.

    `arm_ids` in the order in which they run; `stratum` None when the block holds all strata. `data_copies`:
    the copy of the data of each arm, by its id. `replicate` counts the fresh copies of data that arms own.
    `rate`: of transactions a second in all its arms; 0: as their workload says. `rates`: of arms that have
    one of their own, by id. `layouts`: of each arm on a build from source, by its id, from 1.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("rate", "rates", "layouts")

    format: int = BLOCK_FORMAT
    block: int
    stratum: str | None = None
    arm_ids: tuple[str, ...]
    data_copies: dict[str, int]
    replicate: int = 0
    rate: float = 0.0
    rates: dict[str, float] = Field(default_factory=dict)
    layouts: dict[str, int] = Field(default_factory=dict)

    def rate_of(self, arm_id: str) -> float:
        """Of transactions a second in this arm; 0: as its workload says."""
        return self.rates.get(arm_id, self.rate)


class Contrast(Frozen):
    """One comparison: an arm with the control of its stratum, pooled with that stratum's twin."""

    arm_id: str
    control_id: str
    twin_id: str | None
    stratum: str


class MachineFacts(Recorded):
    """The machine that pgassay ran on; None where it does not tell.

    `virtualisation`: the hypervisor's product name, '' on bare metal.
    """

    hostname: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    system: str | None = None
    kernel: str | None = None
    distribution: str | None = None
    architecture: str | None = None
    cpu_model: str | None = None
    cores_online: int | None = None
    cores_usable: Number | None = None
    memory_bytes: int | None = None
    swap_bytes: int | None = None
    virtualisation: str | None = None
    cpu_governor: str | None = None
    transparent_huge_pages: str | None = None
    huge_pages: int | None = None
    huge_page_bytes: int | None = None
    pressure_stall_information: bool | None = None
    clock_source: str | None = None
    io_uring_disabled: int | None = None


class BuildFacts(Recorded):
    """PostgreSQL binaries as they were found (`Build` of `model/build.py`)."""

    origin: str | None = None
    version: str | None = None
    major: int | None = None
    bin_directory: str | None = None
    configure: str | None = None
    cflags: str | None = None
    binary_sha256: str | None = None
    has_io_uring: bool | None = None
    extensions: tuple[str, ...] = ()
    catalog_version: int | None = None
    control_version: int | None = None


class RelationFacts(Recorded):
    """The size of a table or an index."""

    bytes: int | None = None
    pages: int | None = None
    rows: int | None = None


class DatasetFacts(Recorded):
    """How a frozen data directory was made, and what is in it; `seconds` is what making it took."""

    format: int | None = None
    pgassay_version: str | None = None
    database: str | None = None
    prepare: tuple[str, ...] = ()
    checksums: bool | None = None
    relations: dict[str, RelationFacts] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    made_at: str | None = None
    seconds: Number | None = None
    bytes: int | None = None


class RemoteServerFacts(Recorded):
    """A remote server as it was found when the experiment was planned; `vcpus` as the user gave them."""

    host: str | None = None
    port: int | None = None
    dbname: str | None = None
    user: str | None = None
    version: str | None = None
    encryption: str | None = None
    round_trip_ms: Number | None = None
    vcpus: Number | None = None


class DiskLimits(Recorded):
    """What the groups allow on one disk, each second; None where they don't limit it."""

    read_bytes: Number | None = None
    write_bytes: Number | None = None
    reads: Number | None = None
    writes: Number | None = None


class InheritedLimits(Recorded):
    """The tightest of each limit around pgassay's process, and the folder of the group that sets it.

    `memory_high_bytes`: above it the kernel slows processes down and takes pages back. `processors`: how many
    the process may run on, where that is fewer than the machine has. `disks` by name. `is_whole`: False in a
    container that hides the groups above its own, so that there may be limits which nobody here can see.
    """

    cpus: Number | None = None
    cpus_from: str = ""
    memory_bytes: Number | None = None
    memory_from: str = ""
    memory_high_bytes: Number | None = None
    memory_high_from: str = ""
    processors: int | None = None
    niceness: int | None = None
    disks: dict[str, DiskLimits] = Field(default_factory=dict)
    is_whole: bool | None = None


class Environment(Recorded):
    """Where an experiment ran.

    `build`: the binaries that all arms start from; `storage` and `caps` (in words) by arm, `datasets` by the
    key of their snapshot, `servers` by name. `differing_defaults`: by pair of versions, the settings whose
    defaults differ with both values. `limits`: those around pgassay's own process, which its servers inherit.
    `prices`: what the user pays for an arm's storage in a month, by arm.
    """

    machine: MachineFacts = MachineFacts()
    machine_id: str | None = None
    build: BuildFacts = BuildFacts()
    caps: dict[str, str] = Field(default_factory=dict)
    differing_defaults: dict[str, dict[str, tuple[str, ...]]] = Field(default_factory=dict)
    servers: dict[str, RemoteServerFacts] = Field(default_factory=dict)
    storage: dict[str, StorageFacts] = Field(default_factory=dict)
    datasets: dict[str, DatasetFacts] = Field(default_factory=dict)
    limits: InheritedLimits = InheritedLimits()
    prices: dict[str, PriceFacts] = Field(default_factory=dict)


class ArmCeiling(Recorded):
    """The most that the device below an arm can deliver, in 10⁶ bytes and in reads a second.

    `read_mb_s_from`, `read_iops_from`: 'probe' or 'limit'.
    """

    read_mb_s: Number | None = None
    read_mb_s_from: str = ""
    read_iops: Number | None = None
    read_iops_from: str = ""

    def is_of_writes(self, name: str, *, shares_ceiling: bool) -> bool:
        """Whether writes use it up, too: not a limit of the kernel, which has one for each direction."""
        return shares_ceiling or getattr(self, f"{name}_from") != "limit"


class ProbeCeilings(Recorded):
    """The ceilings of a disk as its last probe stated them (`Ceilings` of `model/probe.py`)."""

    measured_at: str | None = None
    sequential_read_mb_s: Number | None = None
    random_read_iops: dict[str, Number] = Field(default_factory=dict)
    latency_us_depth_1: dict[str, Number] = Field(default_factory=dict)
    fdatasync_per_s: Number | None = None


class PlannedCeilings(Recorded):
    """The ceilings known when the experiment began, by the name of an arm and by that of a probed disk."""

    by_arm: dict[str, ArmCeiling] = Field(default_factory=dict)
    probe: dict[str, ProbeCeilings] = Field(default_factory=dict)


class Experiment(Extended):
    """The plan. `command` is the command line that repeats it; `skipped` the arms left out and why.

    `dataset_loads`: the data are loaded so many times for each arm, and block b uses load b modulo it.
    `design` says how its blocks are made. `baseline`: whether the settings that nobody gave are fixed,
    alike in all arms, or each version's own; `compared` says what is compared by that beside the levels.
    `restarts`: why each trial has a server of its own, '' where the contract says that arms share its
    starts, and in experiments that could not. `confounds` and `warnings` are what the plan itself says
    against its findings. `swap` is the user's command that swaps the settings of two remote servers
    halfway ('' for none). `environment` holds the machine's facts, `ceilings` the limits measured by a
    probe of the same device (empty when there is none), so that analysis needs nothing but this folder.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("design", "baseline", "compared", "restarts")

    format: int = EXPERIMENT_FORMAT
    pgassay_version: str
    created_at: str
    command: tuple[str, ...]
    title: str
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...]
    contract: StatisticalContract
    protocol: Protocol
    design: BlockDesign = BlockDesign()
    dataset_loads: int = 1
    skipped: tuple[str, ...] = ()
    baseline: Baseline = "fixed"
    compared: tuple[str, ...] = ()
    restarts: str = ""
    confounds: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    swap: str = ""
    environment: Environment = Environment()
    ceilings: PlannedCeilings = PlannedCeilings()
