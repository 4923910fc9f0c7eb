"""How a trial was profiled; what profiles found: functions by their time per transaction, and the waits."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen, Number, Recorded

TimeVerdict = Literal["less", "more", "inconclusive", "control"]


class ProfileFacts(Recorded):
    """How perf sampled the server's processes of one trial.

    `rate_hz`: samples of each running process a second, by perf's `event`. `stacks`: how callers were found,
    'frame pointers', 'unwound' or 'none'. `samples`: those within the measured part, `lost` those that perf
    could not keep. `reading_s`: what reading the recording took after the trial. `instructions` and `cycles`
    that the processor's counters counted in the measured part; `counters` is False on a machine without them.
    `switch_period`: of so many times that a process left its processor perf noted where for one; 0 where it
    could not.
    """

    perf: str | None = None
    event: str | None = None
    rate_hz: Number | None = None
    stacks: str | None = None
    samples: int | None = None
    lost: int | None = None
    reading_s: Number | None = None
    counters: bool | None = None
    instructions: Number | None = None
    cycles: Number | None = None
    switch_period: int | None = None


class CountedArm(Frozen):
    """What an arm's processors counted per unit: the mean of its trials; the rest as in `FunctionArm`."""

    name: str
    stratum: str = ""
    count: float | None
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: TimeVerdict


class CountedEvent(Frozen):
    """An event of the processor's own counters, 'instructions' or 'cycles', in each arm."""

    event: str
    arms: tuple[CountedArm, ...]


class RenamedFunctions(Frozen):
    """By arm id the names that functions have in its control, by their names in the arm."""

    format: int = 1
    renamed: dict[str, dict[str, str]]


class FunctionArm(Frozen):
    """A function's time in one arm: the mean of its trials in µs per transaction, None in an arm without any.

    `ratio`: the time over the control's, below 1 is less; `interval` at the level at which it was judged. An
    end that the trials do not bound is 0 or infinite (null in JSON).
    """

    name: str
    stratum: str = ""
    us: float | None
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: TimeVerdict


class FunctionTimes(Frozen):
    """One function. `own`: the time within the function itself; False: including callees.

    `in_kernel`: it is the kernel's. `share`: of the time of all arms together.
    """

    name: str
    in_kernel: bool
    own: bool
    share: float
    arms: tuple[FunctionArm, ...]


class ServerFunction(Frozen):
    """One function of one server: its time in µs per unit; the rest as in `FunctionTimes`."""

    name: str
    in_kernel: bool
    own: bool
    share: float
    us: float


class ServerProfile(Frozen):
    """The functions of one server while a capture was replayed on it, compared with nothing.

    `unit`: what a time is of, as 'statement'; `us`: all CPU time of the server's processes per unit. The rest
    as in `ProfileResult`. `counted`: instructions and cycles per unit, {} on machines without counters.
    `waiting`: functions by the time that sessions waited in them, their `share` of all such time.
    """

    unit: str
    rate_hz: float
    event: str
    stacks: str
    samples: int
    lost: int
    us: float
    functions: tuple[ServerFunction, ...]
    callers: tuple[ServerFunction, ...]
    notes: tuple[str, ...]
    counted: dict[str, float] = Field(default_factory=dict, exclude_if=lambda counts: not counts)
    waiting: tuple[ServerFunction, ...] = Field(default=(), exclude_if=lambda functions: not functions)


class WaitMeaning(Frozen):
    """What a wait event is a wait for, and what relieves it."""

    means: str
    relief: str


class WaitTimes(Frozen):
    """A wait of the connections by name: µs per transaction by arm, in the order of the profile's arms.

    Estimated from samples of the trials that were judged, so it has no interval. None in an arm that was not
    observed.
    """

    event_type: str
    event: str
    us: tuple[float | None, ...]
    meaning: WaitMeaning | None = None


class ProfiledArm(Frozen):
    """An arm of the profile: its valid trials, their samples, and all its time in µs per transaction."""

    name: str
    stratum: str = ""
    trials: int
    samples: int
    us: float | None


class ProfileResult(Frozen):
    """The functions of a comparison. `unit`: what a time is of, as 'transaction'.

    `rounds`: complete blocks of trials in which perf sampled the servers, `rate_hz` times a second of running
    by its `event`. `stacks`: how callers were found, by arm where arms differ. `lost`: samples that perf
    could not keep. `functions`: those with most time of their own, in falling order; `callers`: those with
    most time in what they call. Each is one family with a false discovery rate of at most alpha (e-BH).
    `sentences`: what differs, the largest difference first; `notes`: what limits all of it. `counted`:
    instructions and cycles, where the machine has counters. `waiting`: functions by the time that sessions
    waited in them off their processors, the waits for clients left out; a family like the others, its
    `share` of all such time.
    """

    unit: str
    rounds: int
    rate_hz: float
    event: str
    stacks: tuple[str, ...]
    lost: int
    arms: tuple[ProfiledArm, ...]
    functions: tuple[FunctionTimes, ...]
    callers: tuple[FunctionTimes, ...]
    waits: tuple[WaitTimes, ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    counted: tuple[CountedEvent, ...] = Field(default=(), exclude_if=lambda events: not events)
    waiting: tuple[FunctionTimes, ...] = Field(default=(), exclude_if=lambda functions: not functions)
