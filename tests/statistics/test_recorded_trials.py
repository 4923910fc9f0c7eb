"""Real A/A trials, relabelled within their blocks: real noise raises no more alarms than simulated noise."""

import json
from pathlib import Path

import numpy as np
import pytest

from pgassay.analysis.statistics.eprocess import gather_evidence, log_evidence

RECORDED = json.loads(Path(__file__).with_name("aa_trials.json").read_text(encoding="utf-8"))
RELABELLINGS, ALPHA = 4000, 0.05


def log_speeds(name: str) -> np.ndarray:
    """(60 blocks, 3 trials), in run order within a block."""
    values = np.log(np.array(RECORDED[name]))
    return -values if name.endswith("elapsed_s") else values


@pytest.mark.parametrize("name", ["scan_elapsed_s", "transactions_per_s"])
@pytest.mark.parametrize("members", [2, 3], ids=["paired", "pooled"])
def test_relabelled_trials_raise_few_alarms(name, members):
    values = log_speeds(name)
    assert values.shape == (60, 3)
    random = np.random.default_rng([21, members])
    relabelled = random.permuted(np.broadcast_to(values, (RELABELLINGS, *values.shape)), axis=-1)
    path = log_evidence(gather_evidence(relabelled[..., :members]))
    assert (path.max(axis=-1) >= np.log(1 / ALPHA)).mean() <= 0.045


@pytest.mark.parametrize("name", ["scan_elapsed_s", "transactions_per_s"])
def test_an_effect_put_into_real_trials_is_found(name):
    values = log_speeds(name)
    random = np.random.default_rng(22)
    relabelled = random.permuted(np.broadcast_to(values, (500, *values.shape)), axis=-1).copy()
    spread = float(np.std(values[:, 0] - values[:, 1], ddof=1))
    relabelled[..., 0] += spread
    path = log_evidence(gather_evidence(relabelled))
    assert (path.max(axis=-1) >= np.log(1 / ALPHA)).mean() >= 0.95
