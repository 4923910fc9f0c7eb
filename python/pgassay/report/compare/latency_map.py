"""Latencies over time: of each stretch of the trials how many transactions took how long."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.record import observations
from pgassay.record.experiment import StoredTrial

COLUMNS_MAX = 40
# Four steps of latency for each doubling would be more than can be told apart, one less than there is to see.
STEPS_PER_DOUBLING = 2
# Reading every second of a long experiment would take longer than measuring it: the latest trials do.
TRIALS_MAX = 20


@dataclass(frozen=True)
class MapCell:
    """Transactions of an arm that were due from `from_s` to `to_s`, and took from `low_ms` to `high_ms`.

    share: of all that were due in that stretch.
    """

    stratum: str
    group: str
    from_s: int
    to_s: int
    low_ms: float
    high_ms: float
    share: float
    transactions: int


def cells_of(stratum: str, group: str, trials: Sequence[StoredTrial], damaged: list[str]) -> list[MapCell]:
    """The cells of one arm, from all of its trials together; files that can't be read go to `damaged`."""
    counts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for trial in trials[-TRIALS_MAX:]:
        try:
            found = observations.latencies_by_second(trial.folder)
        except UsageError as error:
            damaged.append(str(error))
            continue
        for second, latencies in found.items():
            for latency_us, count in latencies:
                counts[second][_step(latency_us)] += count
    if not counts:
        return []
    seconds = max(counts) + 1
    width = -(-seconds // COLUMNS_MAX)
    cells = []
    for first in range(0, seconds, width):
        stretch: dict[int, int] = defaultdict(int)
        for second in range(first, min(first + width, seconds)):
            for step, count in counts.get(second, {}).items():
                stretch[step] += count
        whole = sum(stretch.values())
        for step, count in sorted(stretch.items()):
            low_ms, high_ms = (2 ** (each / STEPS_PER_DOUBLING) / 1000 for each in (step, step + 1))
            until = min(first + width, seconds)
            cells.append(MapCell(stratum, group, first, until, low_ms, high_ms, count / whole, count))
    return cells


def _step(latency_us: int) -> int:
    return math.floor(STEPS_PER_DOUBLING * math.log2(max(latency_us, 1)))
