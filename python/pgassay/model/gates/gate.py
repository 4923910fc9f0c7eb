"""gate.json, which `pgassay gate --json` prints too."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.result import Stopped

GATE_FORMAT = 1
GATE_SCHEMA = 1
# Where a system under test comes from.
SystemKind = Literal["file", "revision", "checkout", "build", "server"]
Finding = Literal["slow-down", "within the margin", "none found", "excluded", "undecided"]
Outcome = Literal["slow-down", "none found", "undecided", "interrupted"]
Ends = tuple[float | None, float | None]


class GatedSystem(Frozen):
    """One side of a gate: the baseline, or the change.

    `kind`: the gate's own file, that of a git revision, of another checkout, the same with another build, or
    a server that runs already. `name`: as it was typed, without a password. `revision`: the commit that was
    read, '' where there is none. `versions`: of its PostgreSQL.
    """

    kind: SystemKind
    name: str
    revision: str = ""
    versions: tuple[str, ...] = ()


class GateRule(Frozen):
    """How false alarms are bounded: `threshold` is the evidence at which a slow-down counts as found.

    threshold = units · runs_per_year / false_alarms_per_year: over a year without a slow-down the number of
    false alarms of all units together has an expectation of at most `false_alarms_per_year`. `level`: of the
    intervals, 2/threshold, so that an interval excludes 1 exactly where one run alone finds a difference.
    """

    units: int
    runs_per_year: float
    false_alarms_per_year: float
    threshold: float
    level: float


class GateUnit(Frozen):
    """What is judged: a workload as a whole (`statement` is ''), or one of its statements.

    `ratio` is the change's speed relative to the baseline, below 1 is slower; `interval` is valid at the
    gate's level. `finding`: a slow-down of which the estimate is beyond `margin`; one that is certain, but
    estimated `within the margin`; `none found`; `excluded` where the interval excludes a slow-down beyond
    the margin; `undecided` where nothing can be said, for the reason in `note`.

    `log_evidence`: of this run at its end that the change is slower, `log_evidence_max` at its highest, and
    `log_evidence_earlier` what earlier runs of the same history add (log(1 + R), 0 without any); all natural
    logarithms. `since`: the run from which on that evidence speaks for a slow-down, '' where this run alone
    counts. `standard_error`: of log(ratio); `spread`: of a single trial's log speed, None below three blocks.
    `findable`: the slow-down that so many blocks find in 90 of 100 runs at this spread, a fraction; None
    where they are too few. `starts`: `blocks` are starts of one server, in which both sides took turns.
    """

    workload: str
    statement: str
    unit: str
    better: Literal["lower", "higher"]
    margin: float
    ratio: float | None
    interval: Ends | None
    finding: Finding
    blocks: int
    median_baseline: float | None = None
    median_change: float | None = None
    log_evidence: float = 0.0
    log_evidence_max: float = 0.0
    log_evidence_earlier: float = 0.0
    since: str = ""
    standard_error: float | None = None
    spread: float | None = None
    starts: bool = Field(default=False, exclude_if=lambda starts: not starts)
    findable: float | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """How it is called: the workload, and the statement where it is one."""
        return f"{self.workload}/{self.statement}" if self.statement else self.workload


class GateWorkload(Frozen):
    """One experiment of a gate; `folder` is relative to the gate's.

    `promise`: what its time was said to find, before its first trial. `baseline`: a hash of all that decides
    the baseline's arm; while it stays, evidence of several runs adds up.
    """

    name: str
    workload: str
    folder: str
    margin: float
    time_max_s: float
    blocks: int
    trials: int
    seconds: float
    stopped: Stopped
    promise: str
    baseline: str
    warnings: tuple[str, ...] = ()


class GateResult(Frozen):
    """One gate; schema in schemas/gate.schema.json.

    `exit_code`: 0 none found, 1 slow-down, 4 undecided, 130 interrupted: then `units` are those that were
    measured by then, and no history counts it as a run.
    """

    schema_: int = Field(default=GATE_SCHEMA, alias="schema")
    format: int = GATE_FORMAT
    pgassay_version: str
    created_at: str
    file: str
    folder: str
    baseline: GatedSystem
    change: GatedSystem
    rule: GateRule
    outcome: Outcome
    exit_code: int
    verdict: str
    units: tuple[GateUnit, ...]
    workloads: tuple[GateWorkload, ...]
    earlier_runs: int = 0
    warnings: tuple[str, ...] = ()
