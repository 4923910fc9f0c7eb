"""What changed within an arm's trials, and what happened at that moment. Nothing here is a cause."""

from typing import Literal

from pgassay.model.base import Frozen

SeriesName = Literal["throughput", "latency p99", "device reads", "device writes"]
EventKind = Literal[
    "checkpoint",
    "autovacuum",
    "throttling",
    "device limit",
    "burst credits",
    "I/O workers",
    "log",
    "statement",
]
Relation = Literal["began", "ended", "under way", "at"]


class Change(Frozen):
    """The mean of a series changed at `at_s` seconds of the measured part, from `before` to `after`.

    A series has one value a second, so that its changes are known to the second.
    """

    series: SeriesName
    unit: str
    at_s: float
    before: float
    after: float


class Event(Frozen):
    """What happened in the server or to it, in seconds of the measured part.

    `began_s` below 0: before it. None: the record does not tell. Both alike: a moment.
    """

    kind: EventKind
    what: str
    began_s: float | None
    ended_s: float | None

    @property
    def is_moment(self) -> bool:
        """Whether it took no time."""
        return self.began_s is not None and self.began_s == self.ended_s


class Coincidence(Frozen):
    """An event near a change in time: it `began` or `ended` there, was `under way`, or is a moment (`at`)."""

    relation: Relation
    event: Event


class Moment(Frozen):
    """Changes that lie within two seconds of each other, and the events near them; ascending in time."""

    at_s: float
    changes: tuple[Change, ...]
    meanwhile: tuple[Coincidence, ...]


class ChangedSeries(Frozen):
    """In how many of the arm's trials a series changed."""

    series: SeriesName
    trials: int


class ArmChanges(Frozen):
    """What changed within the trials of an arm; the trial `number` stands for those in which it did.

    `observed`: valid trials long enough to tell. `role`: a twin's trials changed like any other's.
    `checkpoints_untimed`: what the server counted in that trial where its log tells of none.
    """

    arm: str
    stratum: str = ""
    role: Literal["control", "arm", "twin"]
    observed: int
    changed: tuple[ChangedSeries, ...]
    number: int
    moments: tuple[Moment, ...]
    checkpoints_untimed: int = 0
