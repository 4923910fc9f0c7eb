"""What `pgassay probe` measures and says: cells, their runs, ceilings, predictions, recommendations."""

from typing import Literal, get_args

from pydantic import Field

from pgassay.model.base import Extended, Frozen
from pgassay.model.result import Interval

PROBE_SCHEMA = 1
RECORD_FORMAT = 1
# The first version with asynchronous reads: what is said of older ones is said of an upgrade to it.
FIRST_MAJOR = 18
METHODS: tuple["Method", ...] = ("worker", "io_uring", "sync")
SCAN_BYTES = 1 << 30
# A bitmap scan fetches this fraction of the table's pages, in their order.
BITMAP_FRACTION = 0.1
LOOKUPS = 10_000
# max_parallel_workers_per_gather; the leader scans as well.
PARALLEL_WORKERS = 2
# Of a scan's pages, those that shared buffers have: each takes a block off the look-ahead of 18, so that
# hardly any is left.
FOUND_FRACTION = 0.98
# A leaf of the index and the table's page; the levels above stay in shared buffers.
PAGES_PER_LOOKUP = 2
# The one-sided probability that a two-sided interval of 95 % stands for.
_CERTAIN = 0.975

Method = Literal["sync", "worker", "io_uring"]
Engine = Literal["null", "sync", "worker", "io_uring", "hybrid", "write"]
Cache = Literal["direct", "cold", "cached"]
Pattern = Literal["sequential", "parallel", "random", "dependent", "gaps", "wal", "pages"]
Work = Literal[
    "cold-scan",
    "cached-scan",
    "bitmap-scan",
    "index-lookups",
    "parallel-cold-scan",
    "parallel-cached-scan",
    "buffered-scan",
]
WORKS: tuple[Work, ...] = get_args(Work)


class CellSpec(Extended):
    """One way to read (or, engine `write`, to write durably); what is measured of it is a cell.

    `cache`: direct I/O, buffered with nothing of the file in this kernel's page cache, or buffered with all
    of it there. `depth`: requests in flight, `workers` those of the whole "server". `read_ahead_kb` is set on
    the device for this cell alone; None leaves it. `advise`: posix_fadvise ahead, as PostgreSQL's `sync` does
    for reads that aren't sequential. `execute_ns_per_page`: the CPU time that an executor takes for each
    page. `workers_min`: from 19 on, the I/O workers at the start, of which there may be `workers`. `pins`:
    the most buffers that a consumer may pin; None for as many as it wants. `found`: the share of the pages
    that shared buffers have.
    """

    LATER_FIELDS = ("workers_min", "pins", "found")

    engine: Engine
    cache: Cache
    pattern: Pattern
    request_bytes: int = 128 * 1024
    depth: int = 16
    consumers: int = 1
    workers: int = 3
    competing_cpus: int = 0
    read_ahead_kb: int | None = None
    advise: bool = False
    execute_ns_per_page: int = 0
    verify: bool = True
    workers_min: int | None = None
    pins: int | None = None
    found: float = 0.0


class Window(Frozen):
    """A stretch of a cell's run: when it began (seconds from the cell's start) and what went through."""

    start_s: float
    mb_s: float
    operations: int
    length_s: float = 0.0


class CellRun(Frozen):
    """One run of a cell as the native binary measured it.

    `started_s` counts from the start of the probe. `time_s` are the consumers' seconds by what they were
    spent on (device_wait, worker_wait, kernel, checksum, hand_over, runnable, execute, harness),
    `worker_time_s` those of I/O workers and helpers; `cpu_s` by who burnt it. `device_read_bytes` is what the
    device delivered to this process, None where the kernel does not tell.
    """

    started_s: float
    elapsed_s: float
    bytes: int
    operations: int
    mb_s: float
    iops: float
    latency_us: dict[str, float] = Field(default_factory=dict)
    cpu_s: dict[str, float] = Field(default_factory=dict)
    cpu_s_per_gb: float | None = None
    time_s: dict[str, float] = Field(default_factory=dict)
    worker_time_s: dict[str, float] = Field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    verify_failures: int = 0
    resident_bytes_before: int | None = None
    device_read_bytes: int | None = None
    synchronous_fallbacks: int = 0
    path: object = None


class MeasuredCell(Frozen):
    """A cell with all its runs, in the order in which they were made."""

    spec: CellSpec
    runs: tuple[CellRun, ...]


class ExecutorCost(Frozen):
    """The CPU time an executor takes for a page, with its interval; `source` says where it comes from."""

    ns_per_page: float
    interval: Interval
    source: str


class ChecksumSpeed(Frozen):
    """How fast one core verifies pages, and reads memory, in GB/s (10⁹ bytes)."""

    scalar_gb_s: float
    simd_gb_s: float
    simd: str
    memory_read_gb_s: float


class ProbeRecord(Extended):
    """Everything a probe measured: a result can be made of it again without the machine.

    `missing` says which engines can't be used here and why; `device`, `machine` and `file` hold facts.
    `major`: the version of PostgreSQL by whose rules it read.
    """

    LATER_FIELDS = ("major",)

    format: int = RECORD_FORMAT
    pgassay_version: str
    measured_at: str
    path: str
    seconds: float
    cores: int
    device: dict[str, object]
    machine: dict[str, object] = Field(default_factory=dict)
    file: dict[str, object] = Field(default_factory=dict)
    executor: ExecutorCost
    checksum: ChecksumSpeed | None = None
    missing: dict[str, str] = Field(default_factory=dict)
    cells: tuple[MeasuredCell, ...] = ()
    warnings: tuple[str, ...] = ()
    major: int = FIRST_MAJOR


class CellResult(Frozen):
    """A cell's figures over all its runs.

    `mb_s` is the geometric mean with its 95 % `interval`; `latency_us` the median over runs; `split` the
    shares of the consumers' time; `fell_after_s`: when in the probe its rate fell, None when it held (then
    `steady`).
    """

    spec: CellSpec
    runs: int
    mb_s: float
    interval: Interval
    iops: float
    latency_us: dict[str, float]
    cpu_s_per_gb: float | None
    split: dict[str, float]
    steady: bool
    fell_after_s: float | None


class Ceilings(Frozen):
    """What the device can do at most; None where it could not be measured. MB is 10⁶ bytes."""

    sequential_read_mb_s: float | None
    random_read_iops: dict[str, float]
    latency_us_depth_1: dict[str, float]
    fdatasync_per_s: float | None


class Prediction(Frozen):
    """How long a piece of work takes by a method, with `connections` sharing it.

    A scan is of 1 GB (a bitmap scan fetches a tenth of its pages), index lookups are 10,000 of two pages
    each. A parallel scan has two workers beside its leader; of a buffered one shared buffers have 98 % of the
    pages, at random, and the rest is cold.
    """

    work: Work
    method: Method
    connections: int
    time_s: float
    interval: Interval


class Alternative(Frozen):
    """A value that was measured: the time it takes beyond the best one's, a fraction, with its interval."""

    value: str
    regret: float
    interval: Interval


class Recommendation(Frozen):
    """A setting's value with its reason; `knee`: the smallest value beyond which nothing is to be gained.

    `probability`: that the value is better than the default; None where it is the default.
    """

    value: str
    default: str
    reason: str
    knee: str | None
    alternatives: tuple[Alternative, ...]
    probability: float | None = None

    @property
    def is_certain(self) -> bool:
        """Whether the interval of 95 % leaves no room for the default."""
        return self.probability is None or self.probability >= _CERTAIN


class ProvenWork(Frozen):
    """Work on a real server: the speed with the recommended settings over that with the defaults."""

    name: str
    verdict: str
    ratio: float | None
    interval: Interval | None


class ProbeProof(Frozen):
    """The recommended settings against the defaults, on servers whose data lie below the probe's folder.

    `version`: of the server; `folder`: of the experiment, '' where there was nothing to prove. `works`: all
    of it first, then each statement. `sentence`: what came of it.
    """

    version: str
    folder: str
    defaults: dict[str, str]
    recommended: dict[str, str]
    blocks: int
    works: tuple[ProvenWork, ...]
    sentence: str


class ProbeResult(Frozen):
    """The document of `pgassay probe --json`; schema in schemas/probe.schema.json.

    `proof`: with --prove alone.
    """

    schema_: int = Field(default=PROBE_SCHEMA, alias="schema")
    path: str
    device: dict[str, object]
    ceilings: Ceilings
    checksum_gb_s: float | None
    cells: tuple[CellResult, ...]
    predictions: tuple[Prediction, ...]
    recommend: dict[str, Recommendation]
    warnings: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    missing: dict[str, str] = Field(default_factory=dict)
    executor: ExecutorCost
    measured_at: str
    pgassay_version: str
    major: int = FIRST_MAJOR
    proof: ProbeProof | None = Field(default=None, exclude_if=lambda proof: proof is None)


class CeilingRatio(Frozen):
    """One ceiling of a new probe over the same one of an old probe; the interval is None without runs."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    old: float
    new: float
    ratio: float
    interval: Interval | None
    verdict: Literal["better", "worse", "alike", "undecided"]


class ProbeComparison(Frozen):
    """The document of `pgassay probe --compare OLD --json`: the new result beside the old one."""

    schema_: int = Field(default=PROBE_SCHEMA, alias="schema")
    old: str
    old_measured_at: str
    ratios: tuple[CeilingRatio, ...]
    sentences: tuple[str, ...]
    result: ProbeResult
