"""Trials of a load by their latencies: transactions that follow each other are alike, and tails are heavy."""

from dataclasses import dataclass, field

import numpy as np
from scipy.signal import lfilter

from pgassay.model.trial import TrialSpec, TrialStatus

TRANSACTIONS = 2000
# How much of a transaction's level the next one has, and by how much that level moves.
STAY, MOVES = 0.98, 0.12
KINDS = ("smooth", "stalls", "drift", "backlog")


@dataclass
class Latencies:
    """Latencies of one experiment's trials, in the order in which they are asked for.

    Each is exponential around a level that moves slowly. `kind`: with "stalls" a trial has a few stretches
    in which transactions wait for one thing, for times with a Pareto tail of index 1.5; with "drift" trials
    that follow each other are alike as well, by 0.9; with "backlog" a tenth of the trials, of whichever arm,
    can't hold their rate, so that each transaction waits longer than the one before. `effects`: log
    ratios of the speeds of arms by name.
    """

    kind: str
    random: np.random.Generator
    percentile: float = 99.0
    transactions: int = TRANSACTIONS
    effects: dict[str, float] = field(default_factory=dict)
    _level: float = 0.0

    def trial(self, spec: TrialSpec, _data: str, _copy: int) -> tuple[TrialStatus, float]:
        """What the next trial ends as, and the log of its speed: minus that of its percentile."""
        slower = -self.effects.get(spec.arm.name, 0.0)
        return "ok", -slower - float(np.log(np.percentile(self.latencies_ms(), self.percentile)))

    def latencies_ms(self) -> np.ndarray:
        """Those of one trial, in the order in which its transactions began."""
        count, random = self.transactions, self.random
        moved = lfilter([1.0], [1.0, -STAY], MOVES * random.standard_normal(count))
        found = random.exponential(size=count) * np.exp(moved)
        if self.kind == "stalls":
            for _ in range(random.poisson(2.0)):
                length, first = int(random.integers(5, 60)), int(random.integers(0, count))
                waits = 5.0 * (1.0 + random.pareto(1.5)) * np.linspace(1.0, 0.0, length)
                stretch = found[first : first + length]
                stretch += waits[: len(stretch)]
        if self.kind == "drift":
            self._level = 0.9 * self._level + np.sqrt(0.19) * 0.2 * float(random.standard_normal())
            found *= np.exp(self._level)
        if self.kind == "backlog" and random.random() < 0.1:
            found += np.linspace(0.0, 1000.0 * float(random.random()), count)
        return np.asarray(found)
