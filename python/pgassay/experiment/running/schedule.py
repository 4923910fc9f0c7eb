"""What comes next: a pure function of the plan and the trials recorded so far.

So a resumed experiment goes on exactly where it stopped: a half-done block is finished in its own
order. A failed trial is repeated once within its block; a second failure voids the block, whatever
the arm.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pgassay.design.arms import with_load
from pgassay.design.blocks import block_order, trial_number
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord, TrialSpec

ATTEMPTS_MAX = 2


@dataclass(frozen=True)
class Step:
    """The next trial; `begins_block` says that no trial of its block has been recorded."""

    spec: TrialSpec
    begins_block: bool
    voided_in_a_row: int


def attempts_by_trial(records: Iterable[TrialRecord]) -> dict[int, list[TrialRecord]]:
    """The attempts of each trial, by number, in their order."""
    attempts: dict[int, list[TrialRecord]] = {}
    for record in records:
        attempts.setdefault(record.number, []).append(record)
    return attempts


def _failures(attempts: list[TrialRecord]) -> int:
    return sum(record.status in ("failed", "invalid") for record in attempts)


def next_step(experiment: Experiment, records: Iterable[TrialRecord]) -> Step:
    """The first trial that is still to be run, in the order of the plan."""
    attempts = attempts_by_trial(records)
    arms = {arm.id: arm for arm in experiment.arms}
    block = voided_in_a_row = 0
    while True:
        order = block_order(experiment.contract.seed, block, list(arms))
        numbers = [trial_number(block, position, len(arms)) for position in range(len(order))]
        if any(_failures(attempts.get(number, [])) >= ATTEMPTS_MAX for number in numbers):
            block, voided_in_a_row = block + 1, voided_in_a_row + 1
            continue
        for position, (number, arm_id) in enumerate(zip(numbers, order, strict=True)):
            earlier = attempts.get(number, [])
            if any(record.status == "ok" for record in earlier):
                continue
            spec = TrialSpec(
                number=number,
                attempt=max((record.attempt for record in earlier), default=0) + 1,
                block=block,
                position=position,
                arm=with_load(arms[arm_id], block % experiment.dataset_loads),
                protocol=experiment.protocol,
            )
            begins = not any(attempts.get(number) for number in numbers)
            return Step(spec, begins, voided_in_a_row)
        block, voided_in_a_row = block + 1, 0
