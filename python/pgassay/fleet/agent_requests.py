"""What the coordinator asks of a machine: requests and answers, JSON documents, whatever carries them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import JsonValue

from pgassay.errors import MeasurementError

Document = Mapping[str, JsonValue]
"""A request, which has `operation`, or an answer: the operation's keys, or `error` with a sentence."""


class MachineLostError(MeasurementError):
    """A machine gave no answer in time; what it has recorded is on its disk."""


class FleetMachine(Protocol):
    """One worker of a fleet. Workers on one host have the same `host` and count as one machine."""

    @property
    def name(self) -> str:
        """How the user calls it."""

    @property
    def host(self) -> str:
        """The machine's own identity, as `facts` tells it."""

    @property
    def counts_as(self) -> str:
        """The machine that its user says it is, where what it tells of itself misleads; '' else."""

    def request(self, document: Document, *, timeout_s: float = 60.0) -> Document:
        """The agent's answer.

        Raises MachineLostError where none came in time: the machine, the network or the scheduler is away.
        Asking again is safe: every operation may be repeated.
        """


class Fleet(Protocol):
    """The machines that are there now; a lost one that comes back has the name that it had."""

    def machines(self) -> Sequence[FleetMachine]:
        """All that were ever there, in a stable order."""
