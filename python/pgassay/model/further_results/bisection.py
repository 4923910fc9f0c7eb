"""What `pgassay bisect` answers, and what it writes down to continue."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.profile.result import ProfileResult
from pgassay.model.result import Interval

BISECTION_SCHEMA, BISECTION_FORMAT = 1, 1
Kind = Literal["commits", "builds"]
BisectionVerdict = Literal["found", "two steps", "gradual", "no difference", "undecided"]


class Place(Frozen):
    """A point of the line: a commit, or a build of a list. Place 0 is the good end, the last the bad one.

    build: as `--pg` names it. subject, author, date: of a commit, else ''. passed_over: how many commits
    between the place before it and it change what is built, and nothing below `--path`, or how many releases
    between both are not installed.
    """

    name: str
    build: str
    subject: str = ""
    author: str = ""
    date: str = ""
    passed_over: int = 0


class BisectionRound(Frozen):
    """One experiment of the search: both ends of a part of the line, and the places between them.

    alike, untestable: how many of the state's were known when it began; None in older records.
    """

    folder: str
    low: int
    high: int
    places: tuple[int, ...]
    blocks: int
    alike: int | None = None
    untestable: int | None = None


class Reverted(Frozen):
    """The bad end without the found commit: its speed over the bad end's, the interval at 95 %.

    is_confirmed: it takes the difference back; None while that is not known. why: why it was not measured.
    """

    name: str
    ratio: float | None = None
    interval: Interval | None = None
    is_confirmed: bool | None = None
    why: str = ""


class BisectionState(Frozen):
    """bisect.json: the line and what was asked; the rounds so far, in order, whose folders hold the records.

    asked: what makes another search of it, by option. untestable: places that do not build, or whose trials
    fail; alike: pairs of places that build the same programs; both in the order in which they were found.
    reverted: of the commit that was found, None before that.
    """

    format: int = BISECTION_FORMAT
    kind: Kind
    places: tuple[Place, ...]
    asked: dict[str, str]
    untestable: tuple[int, ...] = ()
    alike: tuple[tuple[int, int], ...] = ()
    rounds: tuple[BisectionRound, ...] = ()
    reverted: Reverted | None = None
    seconds_used: float = 0.0


class Culprit(Frozen):
    """A commit, or a build of a list, that may have made a step; `builds`: False if it can't be measured."""

    name: str
    subject: str = ""
    author: str = ""
    date: str = ""
    builds: bool = True


class FoundStep(Frozen):
    """A step, and what it came with.

    ratio: speed before it over speed after it, above 1 for a slow-down; interval at 95 %; None where it is
    not known yet. culprits: those that are not excluded, at `confidence`; is_found: more measuring would not
    part them.
    """

    ratio: float | None
    interval: Interval | None
    culprits: tuple[Culprit, ...]
    confidence: float
    is_found: bool


class MeasuredPlace(Frozen):
    """A place that was measured: its speed over the good end's, the interval at 95 %, and the blocks."""

    name: str
    subject: str
    ratio: float
    interval: Interval | None
    blocks: int


class BisectionResult(Frozen):
    """The contract of `pgassay bisect --json`; schema in schemas/bisect.schema.json.

    ratio, interval: speed of the good end over that of the bad one. candidates: the commits or builds that
    were searched; aside: commits between the ends that are none. seconds_left: what is likely to be lacking,
    None where nothing is or nobody knows. profile: of both sides of the step, not written without one.
    machine, built_with: in words, once something was measured. command: repeats or continues the search.
    """

    schema_: int = Field(default=BISECTION_SCHEMA, alias="schema")
    folder: str
    kind: Kind
    good: str
    bad: str
    verdict: BisectionVerdict
    headline: str
    ratio: float | None
    interval: Interval | None
    steps: tuple[FoundStep, ...]
    reverted: Reverted | None
    measured: tuple[MeasuredPlace, ...]
    candidates: int
    aside: int
    untestable: tuple[str, ...]
    margin: float
    trials: int
    blocks: int
    rounds: int
    seconds_used: float
    seconds_left: float | None
    notes: tuple[str, ...]
    profile: ProfileResult | None = Field(default=None, exclude_if=lambda profile: profile is None)
    machine: str = Field(default="", exclude_if=lambda words: not words)
    built_with: str = Field(default="", exclude_if=lambda words: not words)
    command: str
