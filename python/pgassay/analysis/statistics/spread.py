"""How much trials of one block differ: what a pilot tells a later experiment's plan."""

import math

import numpy as np

from pgassay.analysis.statistics.planner import PILOT_BLOCKS_MIN, upper_spread
from pgassay.analysis.verdicts.study import gather_study
from pgassay.record.read import StoredExperiment


def single_trial_spread(stored: StoredExperiment) -> float | None:
    """The upper bound (80 %) of the spread of a single trial's log speed, from control and twin.

    Both are the same arm, so their difference is noise alone: √2 times a single trial's. The largest
    over the strata; None with fewer than three complete blocks, or without a twin.
    """
    study = gather_study(stored)
    spreads = []
    for contrast in study.experiment.contrasts:
        if contrast.twin_id is None or study.blocks < PILOT_BLOCKS_MIN:
            continue
        columns = study.columns
        pairs = study.logs[0][:, columns[contrast.twin_id]] - study.logs[0][:, columns[contrast.control_id]]
        spreads.append(upper_spread(np.asarray(pairs)) / math.sqrt(2))
    return max(spreads, default=None)
