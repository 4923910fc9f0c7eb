"""The contract of a cause's rule.

A rule looks at the evidence of one trial and answers what it found, nothing, or what it would need to
know. It never guesses: where the record doesn't hold what the rule rests on, the answer is Missing.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pgassay.analysis.causes.ceilings import fractions
from pgassay.analysis.causes.evidence import Evidence
from pgassay.model.cause import CauseKind, Layer

# Names of what a remedy can make larger.
CAP = "cap"
_DEVICE = {
    "read_mb_s": "the bandwidth of its storage",
    "read_iops": "the requests per second of its storage",
}
DEVICE = frozenset(_DEVICE)


@dataclass(frozen=True)
class Found:
    """A cause in one trial.

    seconds: what it explains of the time of connections and parallel workers, None where that can't be told
    from other work. weight_s: the time by which limits compete, where it is another than `seconds`: a full
    resource also sets the time that is spent using it. figures: the evidence, by name with units. gain: how
    many times as fast it could be, about, without it. gain_bound: the most that the nearest other resource
    allows, infinite where none is known. next_limit: its name where it is what bounds the gain, else ''.
    gain_range: the least and the most of the gain where the record can't tell them apart; `gain` is then
    their geometric mean. remedy: where the figures allow another one than the rule's, else ''.
    """

    seconds: float | None
    figures: dict[str, float | str] = field(default_factory=dict)
    gain: float | None = None
    weight_s: float | None = None
    gain_bound: float = math.inf
    next_limit: str = ""
    remedy: str = ""
    gain_range: tuple[float, float] | None = None

    @property
    def rank_s(self) -> float:
        """The seconds by which limits are ranked."""
        return self.weight_s if self.weight_s is not None else self.seconds or 0.0


@dataclass(frozen=True)
class Missing:
    """What the rule would have to know, as words that follow 'not known:'."""

    what: str


Answer = Found | Missing | None


@dataclass(frozen=True)
class OnRunningServer:
    """What is said otherwise of a server that runs already, whose clients are not pgassay's.

    Each is None where it is the same as of a measured trial.
    """

    phrase: str | None = None
    layer: Layer | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class SettingRemedy:
    """A remedy that is a setting, which another arm may have tried.

    name: of the setting or the factor. to: 'higher', 'lower', or the words that are the remedy. words: what
    is done, as the beginning of a sentence.
    """

    name: str
    to: Literal["higher", "lower"] | tuple[str, ...]
    words: str


def raising(*names: str) -> tuple[SettingRemedy, ...]:
    """Higher values of these settings as remedies."""
    return tuple(SettingRemedy(name, "higher", f"Raising {name}") for name in names)


@dataclass(frozen=True)
class Rule:
    """One cause: how it is found, and all that is said of it.

    cause: its name in documents. layer: who can mend it. phrase: of a limit what follows 'was limited by', of
    a fault a clause of its own.
    remedy: what a person can do, in sentences. next_step: where to look next on a running server, and not yet
    what to change; one sentence. settings: those of the remedies that are settings; otherwise: what is left
    to advise where the experiment refutes these. gain_is_least: its gain is the least, and not the most,
    since the cause costs more than the record shows.
    """

    cause: str
    kind: CauseKind
    layer: Layer
    phrase: str
    remedy: str
    next_step: str
    find: Callable[[Evidence], Answer]
    on_running_server: OnRunningServer = OnRunningServer()
    settings: tuple[SettingRemedy, ...] = ()
    otherwise: str = ""
    gain_is_least: bool = False


def lifted(
    evidence: Evidence,
    seconds: float,
    figures: Mapping[str, float | str],
    *,
    gained_s: float | None = None,
    cpu_s: float = 0.0,
    lifts: frozenset[str] = frozenset(),
    reads_as_much: bool = True,
    others_stay: bool = True,
) -> Found:
    """A cause, and about how many times as fast the trial were without it: the rest stays as it is.

    gained_s: the part of the seconds that would not be spent, all of them by default. Each other resource
    bounds the gain, because its time per unit of work stays the same (the utilisation law, Denning and Buzen,
    "The Operational Analysis of Queueing Network Models", 1978): the processors but for `cpu_s`, the part of
    the seconds that was spent on them, and what others use of them where these stay; the device where the
    work reads as much as before. lifts: resources that the remedy makes larger, which bound nothing then:
    CAP, or of DEVICE.
    """
    left = evidence.times.total_s - (seconds if gained_s is None else gained_s)
    known = (*_of_processors(evidence, cpu_s, others_stay), *(_of_device(evidence) if reads_as_much else ()))
    bounds = [bound for bound in known if bound.resource not in lifts]
    nearest = min(bounds, key=lambda bound: bound.most, default=None)
    times = [evidence.times.total_s / left] if left > 0 else []
    if nearest is None:
        return Found(seconds, dict(figures), max(1.0, times[0]) if times else None)
    most = max(1.0, nearest.most)
    if times and times[0] <= most:
        return Found(seconds, dict(figures), max(1.0, times[0]), gain_bound=most)
    return Found(seconds, dict(figures), most, gain_bound=most, next_limit=nearest.words)


def between(one: Found, other: Found) -> Found:
    """The first with the gains of both as the ends of what it may be; as it is where one tells none."""
    if one.gain is None or other.gain is None or one.gain == other.gain:
        return one
    least, most = sorted((one, other), key=lambda found: found.gain or 0.0)
    low, high = least.gain or 1.0, most.gain or 1.0
    return replace(
        one,
        gain=math.sqrt(low * high),
        gain_range=(low, high),
        gain_bound=most.gain_bound,
        next_limit=most.next_limit,
    )


@dataclass(frozen=True)
class _Bound:
    """How many times as fast the trial could be before this resource is used up."""

    resource: str
    words: str
    most: float


def _of_processors(evidence: Evidence, cpu_s: float, others_stay: bool) -> Iterator[_Bound]:
    processors = evidence.machine.processors
    if processors is None or processors.own_s <= cpu_s:
        return
    own_s, most_s = processors.own_s - cpu_s, processors.count * evidence.server.elapsed_s
    if processors.available_s < most_s:
        yield _Bound(CAP, "the cap on its processors", processors.available_s / own_s)
    # Others keep what they use, but the scheduler shares processors among all who want them
    # (Documentation/scheduler/sched-eevdf.rst): whoever needs more gets half of them at least, about.
    left_s = max(most_s - processors.others_s, most_s / 2) if others_stay else most_s
    yield _Bound("processors", "the machine's processors", left_s / own_s)


def _of_device(evidence: Evidence) -> Iterator[_Bound]:
    flow = evidence.machine.device
    if flow is not None:
        # The device is as full as it was on average: it may have rested while nobody read.
        reading = min(1.0, flow.seconds / evidence.server.elapsed_s)
        for name, fraction in fractions(evidence).items():
            if fraction * reading > 0:
                yield _Bound(name, _DEVICE[name], 1 / (fraction * reading))
