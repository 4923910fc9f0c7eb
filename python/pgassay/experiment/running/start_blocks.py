"""Blocks that are one start of a server each: the trials of all their arms at once, and what a kill leaves.

A start counts for all arms of its block or for none. Its records are written one after the other when its
last round has ended, so a run that is killed just then leaves some of them: these are removed when the
experiment goes on, whatever they say, and the block gets another start.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pgassay.analysis.statistics.contrasts import member_ids
from pgassay.analysis.statistics.start_rounds import is_exact_enough, start_logs, start_seconds
from pgassay.design.schedule import round_order
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.trial.measure.work_plans import PlanWork
from pgassay.trial.shared_start import RoundSeconds, Turns, run_start
from pgassay.trial.target import Target
from pgassay.trial.trial_state import OnStep

# No start has longer rounds together, nor such as take more than this share of the time: one proves nothing.
ROUNDS_S_MAX, ROUNDS_S_MIN, ROUNDS_SHARE = 20.0, 2.0, 1 / 8


class StartTrials:
    """Runs a start when the first trial of a block is asked for, and has the others' records then."""

    def __init__(self, experiment: Experiment, target: Target, folder: Path) -> None:
        self._experiment = experiment
        self._target = target
        self._folder = folder
        self._ended: dict[int, tuple[Path, TrialRecord]] = {}
        self._is_first = True

    def run(
        self,
        spec: TrialSpec,
        arms: Sequence[Arm],
        recorded: Sequence[StoredTrial],
        work_of: Callable[[str], PlanWork | None],
        on_step: OnStep,
    ) -> tuple[Path, TrialRecord]:
        """The record of `spec`, or that of the arm of its block which failed; `arms` are the block's."""
        if spec.number not in self._ended:
            specs = specs_of_block(spec, arms, recorded)
            turns = turns_of(self._experiment, spec.block, arms)
            works = [work_of(each.arm.id) for each in specs]
            # The first may follow copies that were just made.
            settles, self._is_first = self._is_first, False
            found = run_start(specs, self._target, self._folder, turns, works, on_step, settles=settles)
            self._ended = {record.number: (path, record) for path, record in found}
            if spec.number not in self._ended:
                return found[0]
        return self._ended.pop(spec.number)


def specs_of_block(
    spec: TrialSpec, arms: Sequence[Arm], recorded: Sequence[StoredTrial]
) -> tuple[TrialSpec, ...]:
    """The trials of the block of `spec`, in the order of its arms, each with the attempt that it is."""
    attempts: dict[int, int] = {}
    for trial in recorded:
        number = trial.record.number
        attempts[number] = max(trial.record.attempt, attempts.get(number, 0))
    first = spec.number - spec.position
    return tuple(
        spec.model_copy(
            update={
                "number": first + position,
                "position": position,
                "attempt": attempts.get(first + position, 0) + 1,
                "arm": arm,
            }
        )
        for position, arm in enumerate(arms)
    )


def turns_of(experiment: Experiment, block: int, arms: Sequence[Arm]) -> Turns:
    """How the arms of a block take turns: an order drawn for each round from the seed, block and round."""
    contract = experiment.contract
    columns = {arm.id: place for place, arm in enumerate(arms)}
    members = [member_ids(each, pool_twin=contract.pool_twin) for each in experiment.contrasts]
    contrasts = [
        (columns[names[0]], [columns[name] for name in names[1:]])
        for names in members
        if columns.keys() >= set(names)
    ]

    def are_enough(rounds_s: RoundSeconds, before_s: float, round_s: float) -> bool:
        return is_exact_enough(start_logs(rounds_s), contrasts, before_s, round_s)

    return Turns(
        lambda number: round_order(contract.seed, block, number, len(arms)),
        start_seconds,
        are_enough,
        min(ROUNDS_S_MAX, max(ROUNDS_S_MIN, contract.time_max_s * ROUNDS_SHARE)),
    )


def without_half_starts(stored: StoredExperiment) -> StoredExperiment:
    """The experiment without the trials of starts whose records a killed run did not all write.

    They are removed from the folder. The caller holds the host's lock.
    """
    if stored.experiment.contract.unit != "start":
        return stored
    good: dict[int, set[str]] = {}
    for trial in stored.trials:
        if trial.record.status == "ok":
            good.setdefault(trial.record.block, set()).add(trial.record.arm_id)
    half = {block for block, ids in good.items() if ids != set(stored.block_plans[block].arm_ids)}
    removed = [trial for trial in stored.trials if trial.record.block in half and trial.record.status == "ok"]
    for trial in removed:
        shutil.rmtree(trial.folder)
    return replace(stored, trials=tuple(trial for trial in stored.trials if trial not in removed))
