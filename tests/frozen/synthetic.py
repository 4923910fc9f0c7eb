"""Experiments of replayed trials, for verdicts that real runs reach only in many minutes.

Decided, equivalent, a twin that makes verdicts be withheld, an arm that changes the noise's shape, blocks
that are void, a run that failed. The loop, the record and the analysis are the product's; only the trials'
outcomes are drawn (tests/replay.py).
"""

import contextlib
import random
from collections.abc import Collection
from pathlib import Path

from frozen import entry_points
from replay import Replay, new_experiment

Attempts = Collection[tuple[int, int]]


class Shaped(Replay):
    """A replay whose twin is slower by a factor, or whose arms have two speeds with the same median about."""

    def __init__(self, *, twin: float = 1.0, two_speeds: bool = False, spread: float = 0.02) -> None:
        super().__init__(1, spread=spread)
        self.twin = twin
        self.two_speeds = two_speeds

    def _record(self, spec):  # type: ignore[no-untyped-def]  # the base's own types
        record = super()._record(spec)
        factor = self.twin if spec.arm.role == "twin" else 1.0
        if self.two_speeds and spec.arm.role == "arm":
            factor = 2.5 if random.Random(f"speed {spec.number}").random() < 0.4 else 0.8
        statements = tuple(
            each.model_copy(update={"elapsed_s": each.elapsed_s * factor}) for each in record.statements
        )
        return record.model_copy(update={"statements": statements})


def _both(trials: range) -> Attempts:
    return {(number, attempt) for number in trials for attempt in (1, 2)}


def runners() -> dict[str, tuple[Replay, int]]:
    """Name → the trials' outcomes, and the limit of blocks."""
    return {
        "replayed-faster": (Replay(1, speed_up=1.3, spread=0.02), 30),
        "replayed-slower": (Replay(2, speed_up=0.6), 30),
        "replayed-equivalent": (Replay(3, spread=0.004), 40),
        "replayed-open": (Replay(4, spread=0.4), 12),
        "replayed-twin-differs": (Shaped(twin=1.4), 40),
        "replayed-shape-changed": (Shaped(two_speeds=True), 40),
        "replayed-failures": (Replay(5, failing_fraction=0.1), 12),
        "replayed-void-block": (Replay(6, failing={(4, 1), (4, 2), (9, 1)}), 6),
        "replayed-failed": (Replay(7, failing=_both(range(8, 40))), 20),
        "replayed-interrupted": (Replay(8, interrupted_at=11), 20),
    }


def make(results: Path) -> None:
    """Run them all below `results`."""
    for name, (runner, blocks) in runners().items():
        if (results / name).exists():
            continue
        folder = new_experiment(results / name, seed=7)
        with contextlib.suppress(KeyboardInterrupt):
            entry_points.run_replayed(folder, runner, blocks)
