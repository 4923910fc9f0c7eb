"""What a machine would have measured: the log speed of each trial, drawn, and what goes wrong there.

A world has noise in time, effects of the arms, copies of the data that differ, a trace that a trial leaves
for the next one, and trials that break a rule because they were slow. It knows what a trial is, never what
the design means by it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgassay.model.trial import TrialSpec, TrialStatus

FloatArray = NDArray[np.float64]
NOISES = ("normal", "t2.5", "cauchy", "drift", "walk", "wave", "two-speed", "two-speed-persistent")
# A slow state of a machine with two speeds: by so much, in so much of its time.
SLOW, SLOW_FRACTION, STAY = 0.2, 0.3, 0.9
WAVE = 0.9


def noise_in_time(kind: str, count: int, spread: float, random: np.random.Generator) -> FloatArray:
    """Log speeds of `count` trials one after another, of one arm on one copy.

    `spread` is the standard deviation of a trial; of Cauchy noise, which has none, its scale. What drifts
    has independent noise of that spread as well; what walks has half of it, a wave a fifth. A wave is an
    autoregressive process whose neighbours correlate by 0.9.
    """
    white = random.standard_normal(count)
    if kind == "normal":
        return spread * white
    if kind == "t2.5":
        # The variance of t with 2.5 degrees of freedom is 2.5/0.5 = 5.
        return spread * random.standard_t(2.5, count) / np.sqrt(5)
    if kind == "cauchy":
        return spread * random.standard_cauchy(count)
    if kind == "drift":
        return spread * white - 0.25 * spread * np.arange(count)
    if kind == "walk":
        return spread * (white / 2 + np.cumsum(random.standard_normal(count)) / 2)
    if kind == "wave":
        return spread * white / 5 + autoregressive(count, spread, random)
    if kind == "two-speed":
        return spread * white - SLOW * (random.random(count) < SLOW_FRACTION)
    if kind == "two-speed-persistent":
        changes = np.cumsum(random.random(count) < 1 - STAY)
        states = random.random(count + 1) < SLOW_FRACTION
        return spread * white - SLOW * states[changes]
    raise ValueError(f"there is no noise called {kind}")


def autoregressive(count: int, spread: float, random: np.random.Generator) -> FloatArray:
    """A process of first order with the standard deviation `spread` at every time."""
    values = spread * random.standard_normal(count)
    for place in range(1, count):
        values[place] = WAVE * values[place - 1] + np.sqrt(1 - WAVE**2) * values[place]
    return values


@dataclass
class World:
    """The log speeds of one experiment's trials, in the order in which they are asked for.

    `effects`: log ratios of arms by name. `copy_spread`: the standard deviation of the effect of a copy, by
    (data, copy); `copy_difference`: by how much copy 1 of any data is faster than copy 0, if not drawn.
    `carry_over`: by how much a trial right after one of an arm with an effect of its own on the machine is
    slower (`leaving` names those arms). `failing`: with this probability a trial of an arm in `failing_arms`
    is invalid, if it is among the slowest fifth.
    """

    noise: str
    spread: float
    random: np.random.Generator
    effects: dict[str, float] = field(default_factory=dict)
    copy_spread: float = 0.0
    copy_difference: float = 0.0
    carry_over: float = 0.0
    leaving: frozenset[str] = frozenset()
    failing: float = 0.0
    failing_arms: frozenset[str] = frozenset()
    trials_max: int = 4000

    def __post_init__(self) -> None:
        self._values = noise_in_time(self.noise, self.trials_max, self.spread, self.random)
        self._slow = float(np.quantile(self._values, 0.2))
        self._copies: dict[tuple[str, int], float] = {}
        self._before: str | None = None
        self._count = 0

    def trial(self, spec: TrialSpec, data: str, copy: int) -> tuple[TrialStatus, float]:
        """What the next trial ends as, and its log speed; `data` is what the copy is one of."""
        noise = float(self._values[self._count])
        self._count += 1
        speed = noise + self.effects.get(spec.arm.name, 0.0) + self._copy_effect(data, copy)
        if self._before in self.leaving:
            speed -= self.carry_over
        self._before = spec.arm.name if spec.arm.role == "arm" else None
        slow = noise <= self._slow and spec.arm.name in self.failing_arms
        if slow and self.random.random() < self.failing:
            return "invalid", speed
        return "ok", speed

    def _copy_effect(self, data: str, copy: int) -> float:
        if (data, copy) not in self._copies:
            drawn = self.copy_spread * float(self.random.standard_normal()) if self.copy_spread else 0.0
            self._copies[data, copy] = drawn + self.copy_difference * (copy % 2)
        return self._copies[data, copy]
