"""Are the machines equally fast? Readings of each, compared by what they differ by among themselves; pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pgassay.words import byte_rate, percent_rounded

Readings = Mapping[str, Sequence[float]]
_MEGABYTE = 1e6
# The chance that of equal machines any is told in anything.
LEVEL = 0.05
# What matters to no comparison is not told, however surely it is so.
TOLD_MIN = 0.02
# A few readings that agree by chance must not make the tolerance narrow: what those of a quiet machine differ
# by, as a logarithm.
_SPREAD_MIN = 0.01


@dataclass(frozen=True)
class _Quantity:
    """One kind of reading: what it is called, the rate that a reading stands for, the rate in words."""

    subject: str
    called: str
    rate: Callable[[float], float]
    words: Callable[[float], str]


def _per_second(rate: float) -> str:
    return f"{float(f'{rate:.2g}'):,.0f}/s"


def _of_megabytes(megabytes: int) -> Callable[[float], float]:
    return lambda seconds: megabytes * (1 << 20) / seconds


_QUANTITIES = {
    # What the tasks of `trial.before_and_after.machine_speed` go through.
    "processor_s": _Quantity("speed", "processor (hashing)", _of_megabytes(64), byte_rate),
    "memory_s": _Quantity("speed", "fresh memory", _of_megabytes(64), byte_rate),
    "disk_s": _Quantity("speed", "disk", _of_megabytes(32), byte_rate),
    "sequential_read_mb_s": _Quantity(
        "storage", "sequential reads", lambda rate: rate * _MEGABYTE, byte_rate
    ),
    "random_read_per_s": _Quantity("storage", "random reads, one at a time", lambda rate: rate, _per_second),
    "deep_random_read_per_s": _Quantity(
        "storage", "random reads, 32 at a time", lambda rate: rate, _per_second
    ),
    "fdatasync_per_s": _Quantity("storage", "fdatasync", lambda rate: rate, _per_second),
}


def speed_facts(readings: Mapping[str, Readings]) -> dict[str, dict[tuple[str, str], str]]:
    """By machine, each quantity's (subject, name) and what it is there; the same where none stands apart.

    The spread is that of the readings of one machine, of all machines together. The machine in the middle is
    what others are compared with, by Student's t at LEVEL shared among all pairs of machines and quantities
    (Bonferroni), for any of them may be in the middle.
    """
    found: dict[str, dict[tuple[str, str], str]] = {machine: {} for machine in readings}
    shared = {
        name: {machine: np.log([quantity.rate(value) for value in own[name]])
               for machine, own in readings.items() if len(own.get(name, ())) > 1}
        for name, quantity in _QUANTITIES.items()
    }  # fmt: skip
    compared = {name: logs for name, logs in shared.items() if len(logs) > 1}
    pairs = sum(math.comb(len(logs), 2) for logs in compared.values())
    for name, logs in compared.items():
        quantity = _QUANTITIES[name]
        freedom = sum(len(own) - 1 for own in logs.values())
        squares = sum(float(((own - own.mean()) ** 2).sum()) for own in logs.values())
        spread = max(math.sqrt(squares / freedom), _SPREAD_MIN)
        reach = float(stdtrit(freedom, 1 - LEVEL / (2 * pairs))) * spread
        middle = sorted(logs, key=lambda machine: logs[machine].mean())[len(logs) // 2]
        usual = float(logs[middle].mean())
        for machine, own in logs.items():
            change = float(own.mean()) - usual
            told = max(reach * math.sqrt(1 / len(own) + 1 / len(logs[middle])), math.log1p(TOLD_MIN))
            word = f"about {quantity.words(math.exp(usual))}"
            if abs(change) > told:
                size = percent_rounded(abs(math.expm1(change)))
                direction = "faster" if change > 0 else "slower"
                word = f"{size} {direction} ({quantity.words(math.exp(float(own.mean())))})"
            found[machine][quantity.subject, quantity.called] = word
    return found
