"""The recorded stream of real A/A trials (`tests/samples/record_stream.py`), to be measured in again."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgassay.model.trial import TrialSpec, TrialStatus

PATH = Path(__file__).parent.parent / "statistics" / "aa_stream.json"


def recorded_log_speeds() -> NDArray[np.float64]:
    """(slots, copies), in the order of time: what a trial of that moment on that copy ran at."""
    return np.array(json.loads(PATH.read_text(encoding="utf-8"))["log_speed"], dtype=np.float64)


@dataclass
class Recorded:
    """A source of trials: each takes the next slot of the stream, on the copy that it asks for.

    `effect` is put into the trials of the arms, `each_third` into every third trial of the stream.
    """

    log_speeds: NDArray[np.float64]
    slot: int
    effect: float = 0.0
    each_third: float = 0.0

    def trial(self, spec: TrialSpec, data: str, copy: int) -> tuple[TrialStatus, float]:
        """A recorded trial: it always ended well. Equal data lie on two copies, of which any is one."""
        del data
        place = copy % self.log_speeds.shape[1]
        speed = float(self.log_speeds[self.slot, place]) + self.each_third * (self.slot % 3 == 0)
        self.slot += 1
        return "ok", speed + (self.effect if spec.arm.role == "arm" else 0.0)
