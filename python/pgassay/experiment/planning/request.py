"""What a user asks for, from the command line or a file, before anything is resolved."""

from collections.abc import Callable
from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.factors.base import Factor
from pgassay.model.arm import Arm
from pgassay.model.experiment import READINGS, CacheState, Contrast, Protocol
from pgassay.options.data import DataOptions
from pgassay.options.evidence import EvidenceOptions
from pgassay.options.option import lacking
from pgassay.options.servers import ServerOptions
from pgassay.options.table import given
from pgassay.options.trials import PROFILE_ROUNDS_DEFAULT, TrialOptions

CALIBRATION_REPETITIONS = 2
# Arms with their contrasts.
Compared = tuple[tuple[Arm, ...], tuple[Contrast, ...]]


@dataclass(frozen=True)
class CompareRequest(EvidenceOptions, TrialOptions, ServerOptions, DataOptions):
    """One comparison as typed. `None` means: the default, which the plan chooses and records.

    `made_factors`: those that were made and not typed (`factors/system.py`). `chosen`: those of the arms
    that are run and judged, where it is known beforehand that nothing is ever said of the others.
    `calibrates`: its arms are all equal, to measure the noise. `factors`, `server` and `command` may hold
    passwords as typed: what is stored is the plan's. Raises UsageError where it's made of options that don't
    go together; each by itself was checked as it was read.
    """

    factors: tuple[str, ...]
    calibrates: bool = False
    command: tuple[str, ...] = ()
    made_factors: tuple[Factor, ...] = ()
    chosen: Callable[[tuple[Arm, ...], tuple[Contrast, ...]], Compared] | None = None

    def __post_init__(self) -> None:
        options = given(self)
        for flag, option in options.items():
            if option.needs and option.needs not in options:
                raise lacking(flag, option.needs)
        looks_for_rate = (self.metric or "").strip().lower().startswith("throughput-at")
        if looks_for_rate and (self.calibrates or not (self.factors or self.made_factors)):
            raise UsageError(
                f"--metric {self.metric} looks for a rate, which only pgassay compare and run can "
                "do: name a latency here, such as p99"
            )

    @property
    def rounds_of_profile(self) -> int:
        """Blocks of further trials in which perf samples the server; 0 for none."""
        return (self.profile_rounds or PROFILE_ROUNDS_DEFAULT) if self.profile else 0

    @property
    def unshared_starts(self) -> str:
        """Why each trial is to have a server of its own, in a clause; '' where that is left to the plan."""
        if self.restart == "each":
            return "--restart each asks for it"
        if self.calibrates:
            return "a calibration measures how starts differ"
        if self.profile:
            return "a profile needs a server for each arm"
        if self.between == "neutral":
            return "--between neutral is for trials that run one after the other"
        if self.covariate != "none":
            return f"--covariate {self.covariate} is read before each trial"
        return ""


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
        profile_rounds=request.rounds_of_profile,
    )


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
