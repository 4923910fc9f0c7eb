"""Copies of the data that a run makes, and removes whatever happens."""

import contextlib
from collections.abc import Iterator, Sequence

from pgassay.environment.datasets import snapshots
from pgassay.model.arm import ArmSpec
from pgassay.tune.proof.arms import arm_of
from pgassay.tune.proof.stages import remove_copies
from pgassay.tune.running.look import Known
from pgassay.tune.statements import measured


@contextlib.contextmanager
def removed_afterwards(runs: Sequence[Known]) -> Iterator[None]:
    """Remove every copy of the data that was not there before, however the runs end; more may be added."""
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        yield
    finally:
        for known in runs:
            remove_copies([known.planned.spec, *_made_for(known)], before)


def _made_for(known: Known) -> list[ArmSpec]:
    specs = known.proving.specs() if known.proving is not None else []
    specs += [known.handed_over] if known.handed_over is not None else []
    for each in known.gathered.to_try:
        if each.build is not None or each.storage is not None:
            specs.append(arm_of(known.planned.spec, measured(known.planned.statements), [each]))
    return specs
