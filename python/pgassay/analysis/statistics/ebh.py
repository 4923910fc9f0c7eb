"""e-BH: the false discovery rate over a family of e-values, whatever their dependence.

Wang and Ramdas, "False discovery rate control with e-values", JRSS B 2022.
"""

from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray


@dataclass(frozen=True)
class EbhSelection:
    """selected: which members are discoveries, of the family's shape; count: k* = how many; size: M."""

    selected: BoolArray
    count: int
    size: int


def select(log_evidences: FloatArray, alpha: float, *, true_max: int | None = None) -> EbhSelection:
    """k* = max{k: E_(k) ≥ M/(k·α)}; selects the k* largest. M: all members, or `true_max`.

    Takes the *current* evidences, one dimension; the running maximum of an e-process is no e-value.
    `true_max`: how many of the hypotheses can be true at once, where that is known to be fewer than all. The
    false discovery rate is at most α·(true hypotheses)/M, since a selected one has k*·E·α/M ≥ 1.
    """
    size = log_evidences.shape[-1] if true_max is None else true_max
    if log_evidences.shape[-1] == 0:
        return EbhSelection(np.zeros(0, dtype=np.bool_), 0, size)
    order = np.argsort(-log_evidences, kind="stable")
    ranks = np.arange(1, log_evidences.shape[-1] + 1)
    holds = log_evidences[order] >= np.log(size) - np.log(ranks * alpha)
    count = int(ranks[holds].max()) if holds.any() else 0
    selected = np.zeros(log_evidences.shape[-1], dtype=np.bool_)
    selected[order[:count]] = True
    return EbhSelection(selected, count, size)


def selected_level(alpha: float, selection: EbhSelection) -> float:
    """The level α·k*/M at which the intervals of the selected members are drawn, at most α."""
    return alpha * min(1.0, selection.count / selection.size)
