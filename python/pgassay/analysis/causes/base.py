"""The contract of a cause's rule.

A rule looks at the evidence of one trial and answers what it found, nothing, or what it would need to
know. It never guesses: where the record doesn't hold what the rule rests on, the answer is Missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from pgassay.analysis.causes.evidence import Evidence
from pgassay.model.cause import CauseKind, Layer


@dataclass(frozen=True)
class Found:
    """A cause in one trial.

    seconds: what it explains of the time of connections and parallel workers, None where that can't be told
    from other work. weight_s: the time by which limits compete, where it is another than `seconds`: a full
    resource also sets the time that is spent using it. figures: the evidence, by name with units. gain: how
    many times as fast it could be, about, without it.
    """

    seconds: float | None
    figures: dict[str, float | str] = field(default_factory=dict)
    gain: float | None = None
    weight_s: float | None = None

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
class Rule:
    """One cause: how it is found, and all that is said of it.

    cause: its name in documents. layer: who can mend it. phrase: of a limit what follows 'was limited by', of
    a fault a clause of its own.
    remedy: what a person can do, in sentences. next_step: where to look next on a running server, and not yet
    what to change; one sentence.
    """

    cause: str
    kind: CauseKind
    layer: Layer
    phrase: str
    remedy: str
    next_step: str
    find: Callable[[Evidence], Answer]
    on_running_server: OnRunningServer = OnRunningServer()


def gain(evidence: Evidence, seconds: float, cpu_s: float = 0.0) -> float | None:
    """About how many times as fast, were these seconds not spent: the rest stays as it is.

    The processors bound it too: their time per unit of work stays the same (the utilisation law, Denning
    and Buzen, "The Operational Analysis of Queueing Network Models", 1978) but for `cpu_s`, the part of the
    seconds that was spent on them.
    """
    left = evidence.times.total_s - seconds
    bounds = [evidence.times.total_s / left] if left > 0 else []
    if evidence.processors is not None and evidence.processors.own_s > cpu_s:
        bounds.append(evidence.processors.available_s / (evidence.processors.own_s - cpu_s))
    return max(1.0, min(bounds)) if bounds else None
