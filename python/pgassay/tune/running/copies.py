"""Copies of the data that a run makes, and removes whatever happens."""

import contextlib
from collections.abc import Iterator, Sequence

from pgassay.environment.datasets import snapshots
from pgassay.model.arm import ArmSpec
from pgassay.tune.proof.proof_arms import arm_of
from pgassay.tune.proof.stages import remove_copies
from pgassay.tune.running.look import TuneRun
from pgassay.tune.tuned_statements import measured


@contextlib.contextmanager
def removed_afterwards(runs: Sequence[TuneRun]) -> Iterator[None]:
    """Remove every copy of the data that was not there before, however the runs end; more may be added."""
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        yield
    finally:
        for run in runs:
            remove_copies([run.planned.spec, *_made_for(run)], before)


def _made_for(run: TuneRun) -> list[ArmSpec]:
    specs = run.proof.specs() if run.proof is not None else []
    specs += [run.handed_over] if run.handed_over is not None else []
    for each in run.found.to_try:
        if each.build is not None or each.storage is not None:
            specs.append(arm_of(run.planned.spec, measured(run.planned.statements), [each]))
    return specs
