"""What a user asks for, from the command line or a file, before anything is resolved."""

from dataclasses import dataclass, field
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.factors.base import Factor
from pgassay.model.experiment import (
    CACHE_STATES,
    READINGS,
    Baseline,
    Between,
    CacheState,
    Covariate,
    Decide,
    Observe,
    PlanKind,
    Protocol,
    Restart,
)

SCALE_MAX = 100_000
BLOCKS_MAX = 10_000
BLOCKS_DEFAULT = 60
CALIBRATION_REPETITIONS = 2


@dataclass(frozen=True)
class CompareRequest:
    """One comparison as typed. `None` means: the default, which the plan chooses and records.

    `made_factors`: those that were made and not typed (`factors/system.py`).
    `calibrates`: its arms are all equal, to measure the noise. `factors`, `server` and `command` may hold
    passwords as typed: what is stored is the plan's.
    """

    factors: tuple[str, ...]
    workload: str = "full-scan"
    # None: the workload's own.
    metric: str | None = None
    scale: int = 10
    dataset: str = "pgbench"
    prepare: tuple[str, ...] = ()
    settle: str = "on"
    cache: str | None = None
    settings: tuple[str, ...] = ()
    storage: str = "host"
    memory: str | None = None
    cpus: str | None = None
    build: str | None = None
    control: str | None = None
    # Of a grid those that are run; all without.
    strata: tuple[str, ...] = ()
    # None: BLOCKS_DEFAULT at most, and decided arms rest; whoever names a number wants them of all arms.
    blocks: int | None = None
    max_time_s: float = 900.0
    margin: float = 0.03
    alpha: float = 0.05
    seed: int | None = None
    out: Path | None = None
    skip_unavailable: bool = False
    pool_twin: bool = True
    covariate: Covariate = "none"
    calibrates: bool = False
    observe: Observe = "normal"
    between: Between = "nothing"
    # What it goes on for: each arm, or the main effect of every factor of a grid.
    decide: Decide = "arms"
    # Whether arms that one running server can be share its starts; what a command asks for by its default.
    restart: Restart = "each"
    plans: PlanKind | None = None
    # Blocks of further trials in which perf samples the server.
    profile_rounds: int = 0
    baseline: Baseline = "fixed"
    server: str | None = field(default=None, repr=False)
    swap: str | None = field(default=None, repr=False)
    allow_writes: str | None = None
    vcpus: str | None = None
    before_trial: str | None = field(default=None, repr=False)
    command: tuple[str, ...] = field(default=())
    made_factors: tuple[Factor, ...] = ()


def protocol_of(request: CompareRequest, cache: CacheState) -> Protocol:
    """The protocol of trials on servers of this machine.

    A calibration reads all speeds of the machine, to say which of them tells its trials' speeds, and measures
    within each start twice.
    """
    if request.calibrates:
        return Protocol(
            cache=cache, observe=request.observe, readings=READINGS, repetitions=CALIBRATION_REPETITIONS
        )
    declared = tuple(name for name in READINGS if name == request.covariate)
    plans = request.plans or "work"
    return Protocol(
        cache=cache,
        observe=request.observe,
        readings=declared,
        plans=plans,
        plans_as_prepared=plans != "off",
        profile_rounds=request.profile_rounds,
    )


def check_request(request: CompareRequest) -> None:
    """Raise UsageError for a number out of its range."""
    if not 1 <= request.scale <= SCALE_MAX:
        raise UsageError(f"--scale {request.scale} is out of range: use 1 to {SCALE_MAX}")
    if request.blocks is not None and not 1 <= request.blocks <= BLOCKS_MAX:
        raise UsageError(f"--blocks {request.blocks} is out of range: use 1 to {BLOCKS_MAX}")
    if not 0.001 <= request.margin <= 0.5:
        raise UsageError(f"--margin {request.margin} is out of range: use 0.001 to 0.5 (0.03 is 3 %)")
    if not 0.0001 <= request.alpha <= 0.2:
        raise UsageError(f"--alpha {request.alpha} is out of range: use 0.0001 to 0.2")
    if request.max_time_s < 1:
        raise UsageError(f"--max-time {request.max_time_s:g} s is too short: use at least 1s")
    looks_for_rate = (request.metric or "").strip().lower().startswith("throughput-at")
    if looks_for_rate and (request.calibrates or not (request.factors or request.made_factors)):
        raise UsageError(
            f"--metric {request.metric} looks for a rate in pgassay compare and run alone: name a figure of "
            "the latencies here, such as p99"
        )


def parse_cache(text: str) -> CacheState:
    """A cache state by name; raises UsageError listing them."""
    for state in CACHE_STATES:
        if state == text:
            return state
    raise UsageError(f"--cache {text} is not known: use one of {', '.join(CACHE_STATES)}")


def parse_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """`--set NAME=VALUE` pairs; raises UsageError for one without a value, or one given twice."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().lower()
        if not equals or not name:
            raise UsageError(f"--set {text} is not a setting: write --set NAME=VALUE")
        if name in settings:
            raise UsageError(f"--set {name} is given twice: give it once")
        settings[name] = value
    return settings
