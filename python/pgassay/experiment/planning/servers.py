"""The contract between a plan and its servers: those that pgassay starts itself, or that run already.

A plan asks them what an arm is before its levels (`base`) and whether every combination makes sense
(`check`). Then, with the host to itself: which combinations can run (`judge`), and what else is to be said
(`describe`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pgassay.design.arms import Candidate, Compared
from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import Factor
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.experiment import Contrast, Environment
from pgassay.model.experiment import Protocol as TrialProtocol
from pgassay.model.storage import PriceFacts, StorageSpec
from pgassay.model.workload import Metric, WorkloadSpec

# What is being done, and how much of it is done (None: not known).
OnStage = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Base:
    """What an arm is before its levels, the protocol of its trials, and the factors, all they name found."""

    spec: ArmSpec
    protocol: TrialProtocol
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class ParsedRequest:
    """A request whose every word has been understood; nothing has been started or changed."""

    request: CompareRequest
    servers: "Servers"
    workload: WorkloadSpec
    given: dict[str, str]
    base: Base
    compared: Compared
    candidates: list[Candidate]
    metric: Metric
    prices: Mapping[StorageSpec, PriceFacts]


@dataclass(frozen=True)
class Judged:
    """The combinations that can run, a sentence for each that can't, and what makes the rest less alike."""

    candidates: list[Candidate]
    skipped: tuple[str, ...] = ()
    confounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedGrid:
    """The arms made of what can run, and which are compared."""

    judged: Judged
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...]


@dataclass(frozen=True)
class Description:
    """What a plan says of its servers and data beside the arms; `data` are words for the title.

    `compared`: what the baseline makes part of the comparison, in sentences.
    """

    data: str
    confounds: tuple[str, ...]
    warnings: tuple[str, ...]
    environment: Environment
    dataset_loads: int = 1
    swap: str = ""
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerConnections:
    """How to connect to servers that run already, and their documents for the record, by their names.

    `parameters` hold the passwords, `documents` none. Both are empty where pgassay starts the servers.
    """

    parameters: Mapping[str, Resolved] = field(default_factory=dict)
    documents: Mapping[str, object] = field(default_factory=dict)


class Servers(Protocol):
    """What of a plan belongs to the kind of its servers. Every method may raise UsageError."""

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors as typed, without the servers themselves."""

    @property
    def messages(self) -> tuple[str, ...]:
        """What the user should hear before anything runs."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command line as it may be stored."""

    @property
    def connections(self) -> ServerConnections:
        """How to reach them, once they have been judged."""

    def base(self, factors: tuple[Factor, ...], workload: WorkloadSpec, given: dict[str, str]) -> Base:
        """Find what the request names: builds here, or servers that run already; `given` are the settings."""

    def check(self, candidates: list[Candidate]) -> None:
        """Check the combinations as far as no server need be started for it."""

    def judge(self, parsed: ParsedRequest, on_stage: OnStage) -> Judged:
        """Which combinations can run, each with what all arms need; servers may be started for it."""

    def describe(self, parsed: ParsedRequest, grid: PlannedGrid) -> Description:
        """What the plan says of the servers."""
