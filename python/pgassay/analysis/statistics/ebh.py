"""e-BH: the false discovery rate over a family of e-values, whatever their dependence.

Wang and Ramdas, "False discovery rate control with e-values", JRSS B 2022.
"""

from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray


@dataclass(frozen=True)
class Selection:
    """selected: which members are discoveries, of the family's shape; count: k* = how many."""

    selected: BoolArray
    count: int


def select(log_evidences: FloatArray, alpha: float) -> Selection:
    """k* = max{k: E_(k) ≥ M/(k·α)} over all M members; selects the k* largest.

    Takes the *current* evidences, one dimension; the running maximum of an e-process is no e-value.
    """
    size = log_evidences.shape[-1]
    if size == 0:
        return Selection(np.zeros(0, dtype=np.bool_), 0)
    order = np.argsort(-log_evidences, kind="stable")
    ranks = np.arange(1, size + 1)
    holds = log_evidences[order] >= np.log(size) - np.log(ranks * alpha)
    count = int(ranks[holds].max()) if holds.any() else 0
    selected = np.zeros(size, dtype=np.bool_)
    selected[order[:count]] = True
    return Selection(selected, count)


def selected_level(alpha: float, selection: Selection) -> float:
    """The level α·k*/M at which the intervals of the selected members are drawn."""
    return alpha * selection.count / len(selection.selected)
