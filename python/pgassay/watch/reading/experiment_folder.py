"""The state of a stored experiment, read from its folder alone, again and again while it runs."""

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import interim_result
from pgassay.design.schedule import trial_place
from pgassay.model.experiment import BlockPlan
from pgassay.model.running_server.watch import ArmEstimate, ExperimentState, RunningTrial
from pgassay.model.trial import TrialStatus
from pgassay.record import layout
from pgassay.record.experiment import (
    StoredExperiment,
    StoredTrial,
    load_block_plan,
    load_experiment,
    load_state,
    load_swap,
    load_trial,
)
from pgassay.record.experiment_lock import is_held

REPORT_FILE = "report.html"
# A trial that runs: the temporary folder that `record.experiment.TrialWriter` opens at its beginning.
_IN_THE_MAKING = re.compile(r"\.attempt-(\d+)\..*\.tmp")


_Stamp = tuple[int, int] | None


@dataclass(frozen=True)
class UnfinishedTrial:
    """A trial that has begun and is not recorded; `began_s` by the wall clock."""

    number: int
    attempt: int
    began_s: float


class FolderWatch:
    """Reads an experiment's folder; what was read once is not read again.

    Raises UsageError, here and later, for a folder that holds no experiment or a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stored = StoredExperiment(folder, load_experiment(folder), ())
        self._trials: dict[Path, StoredTrial] = {}
        self._estimated: tuple[int, tuple[ArmEstimate, ...]] = (-1, ())
        self._blocks = 0
        self._begun: tuple[Path, UnfinishedTrial] | None = None
        self._read_of: tuple[_Stamp, _Stamp] | None = None

    @property
    def is_remote(self) -> bool:
        """Whether its servers are somebody else's."""
        return any(arm.spec.server is not None for arm in self._stored.experiment.arms)

    def state(self) -> ExperimentState:
        """Where the experiment stands now."""
        # Asked first: what a run writes at its end is there once it has let go.
        is_running = is_held(self.folder)
        self._read()
        stored = self._stored
        unfinished = self.unfinished_trial() if is_running else None
        report = self.folder / REPORT_FILE
        return ExperimentState(
            folder=str(self.folder),
            title=stored.experiment.title,
            stopped="running" if is_running else stored.stopped,
            is_running=is_running,
            blocks=self._blocks,
            blocks_max=self._blocks_max(),
            arms=len(stored.experiment.arms),
            margin=stored.experiment.contract.margin,
            trials=self._counts(),
            trial=self._running(unfinished) if unfinished else None,
            time_left_s=self._time_left_s(unfinished) if is_running else None,
            estimates=self._estimated[1],
            report=str(report) if report.is_file() and not is_running else None,
        )

    def _blocks_max(self) -> int:
        """The most blocks that there can be, of all strata together."""
        experiment = self._stored.experiment
        strata = len({arm.stratum for arm in experiment.arms})
        return experiment.contract.blocks_max * (strata if experiment.design.strata == "apart" else 1)

    def unfinished_trial(self) -> UnfinishedTrial | None:
        """The trial that has begun; None between two of them."""
        if self._begun is not None and self._begun[0].is_dir():
            # Its time of modification moves when its files are written: the first one that was seen counts.
            return self._begun[1]
        found = []
        for path in (self.folder / layout.TRIALS_FOLDER).glob("*/.attempt-*.tmp"):
            match = _IN_THE_MAKING.fullmatch(path.name)
            try:
                began_s = path.stat().st_mtime
            except OSError:
                continue  # it was renamed at this moment
            if match and path.parent.name.isdigit():
                trial = UnfinishedTrial(int(path.parent.name), int(match.group(1)), began_s)
                found.append((path, trial))
        # One that a killed run left is older.
        self._begun = max(found, key=lambda each: each[1].began_s, default=None)
        return self._begun[1] if self._begun else None

    def ended_s(self) -> float:
        """When state.json was last written, by the wall clock; 0 when there is none."""
        try:
            return (self.folder / layout.STATE_FILE).stat().st_mtime
        except OSError:
            return 0.0

    def _place_of(self, number: int) -> tuple[BlockPlan, int]:
        # A block's plan is written before its first trial begins.
        self._read_plans()
        return trial_place(self._stored.experiment, self._stored.block_plans, number)

    def _read_plans(self) -> None:
        known = self._stored.block_plans
        found = layout.block_files(self.folder)
        if found.keys() - known.keys():
            plans = {block: known.get(block) or load_block_plan(path) for block, path in found.items()}
            self._stored = replace(self._stored, block_plans=plans)

    def _read(self) -> None:
        """Take up trials that have been recorded since, and the estimates once there are more of them.

        state.json is written after each trial: while it stays, nothing needs to be looked through.
        """
        now_of = (_stamp(self.folder / layout.STATE_FILE), _stamp(self.folder / layout.TRIALS_FOLDER))
        if now_of == self._read_of:
            return
        self._read_of = now_of
        paths = layout.attempt_folders(self.folder)
        for path in paths:
            if path not in self._trials:
                self._trials[path] = load_trial(path)
        stopped, seconds_used, warnings = load_state(self.folder)
        self._stored = replace(
            self._stored,
            trials=tuple(self._trials[path] for path in paths),
            stopped=stopped,
            seconds_used=seconds_used,
            warnings=warnings,
            swap=load_swap(self.folder),
        )
        self._read_plans()
        if len(self._trials) != self._estimated[0]:
            now = interim_result(self._stored)
            self._blocks = now.blocks
            self._estimated = (len(self._trials), now.arms)

    def _counts(self) -> dict[str, int]:
        counts: dict[TrialStatus, int] = {}
        for trial in self._stored.trials:
            counts[trial.record.status] = counts.get(trial.record.status, 0) + 1
        return {str(status): count for status, count in sorted(counts.items())}

    def _running(self, unfinished: UnfinishedTrial) -> RunningTrial:
        plan, position = self._place_of(unfinished.number)
        walls = [trial.record.took_s for trial in self._stored.trials if trial.record.status == "ok"]
        return RunningTrial(
            number=unfinished.number,
            attempt=unfinished.attempt,
            block=plan.block,
            position=position,
            arm_id=plan.arm_ids[position],
            elapsed_s=max(0.0, time.time() - unfinished.began_s),
            expected_s=sum(walls) / len(walls) if walls else None,
        )

    def _time_left_s(self, unfinished: UnfinishedTrial | None) -> float | None:
        """Until the plan's limit of time. What earlier trials used is recorded at the end of each."""
        used_s = self._stored.seconds_used
        if unfinished is not None:
            used_s += max(0.0, time.time() - unfinished.began_s)
        return max(0.0, self._stored.experiment.contract.time_max_s - used_s)


def _stamp(path: Path) -> _Stamp:
    """What changes whenever a file is replaced, or a folder gets another entry; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
