"""An experiment's folder, written and read by one format; it needs no server and nothing but the folder.

A file or a trial's folder is there whole, and on stable storage, or not at all.
"""

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from pgassay.durable import flush, sync
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.experiment import BLOCK_FORMAT, EXPERIMENT_FORMAT, BlockDesign, BlockPlan, Experiment
from pgassay.model.plans.executed_plan import WORK_PLANS_FORMAT, WorkPlan, WorkPlans
from pgassay.model.result import Stopped
from pgassay.model.trial import TRIAL_FORMAT, TrialRecord
from pgassay.record import layout
from pgassay.record.documents import damaged, read_json, read_model, recording_error, to_json, write_document

# Files by which a folder is known that is no experiment.
_OTHERS = {
    layout.GATE_FILE: "it belongs to a gate, which 'pgassay report {folder}' shows; each folder in it is an "
    "experiment",
    layout.FLEET_FILE: "it has results of several machines, each with an experiment in {folder}/machines; "
    "'pgassay report {folder}' shows all of it",
    layout.PROBE_FILE: "it is a probe, whose page is {folder}/report.html",
}


@dataclass(frozen=True)
class StoredTrial:
    """One attempt of a trial as it lies on disk; `plans` maps a statement to its EXPLAIN JSON.

    `work_plans`: the statements whose plans were to be executed after this trial; {} where none were.
    """

    record: TrialRecord
    plans: dict[str, object]
    folder: Path
    work_plans: Mapping[str, WorkPlan] = field(default_factory=dict)


@dataclass(frozen=True)
class Swap:
    """A swap of two servers' settings: the first block after it, what changed places, what did not."""

    at_block: int
    swapped: tuple[str, ...]
    stayed: tuple[str, ...]


@dataclass(frozen=True)
class StoredExperiment:
    """A plan and everything measured for it so far, in trial order.

    `stopped`: decided, max-time, blocks, interrupted, failed or running. `seconds_used`: the time
    spent measuring, over all sessions; `warnings`: what was said of the machine at its end. `block_plans`:
    by number what each block is made of, empty where the plan of the experiment says it all. `profile`: the
    further trials in which perf sampled the server, None without any.
    """

    folder: Path
    experiment: Experiment
    trials: tuple[StoredTrial, ...]
    stopped: str = "running"
    seconds_used: float = 0.0
    warnings: tuple[str, ...] = ()
    swap: Swap | None = None
    block_plans: Mapping[int, BlockPlan] = field(default_factory=dict)
    profile: "StoredExperiment | None" = None


def write_experiment(folder: Path, experiment: Experiment) -> None:
    """Write experiment.json; raises MeasurementError when the folder already holds another one."""
    path = folder / layout.EXPERIMENT_FILE
    if path.exists():
        raise MeasurementError(f"{folder} already holds an experiment: choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_document(path, experiment)


def write_design(stored: StoredExperiment, design: BlockDesign) -> StoredExperiment:
    """Write experiment.json anew with this design of its blocks, where it is another, before its first trial.

    Raises MeasurementError once there is one.
    """
    return _write_anew(stored, stored.experiment.model_copy(update={"design": design}))


def write_warnings(stored: StoredExperiment, sentences: Iterable[str]) -> StoredExperiment:
    """Write experiment.json anew with these warnings as well. Raises as `write_design`."""
    known = stored.experiment.warnings
    warnings = tuple(dict.fromkeys((*known, *sentences)))
    return _write_anew(stored, stored.experiment.model_copy(update={"warnings": warnings}))


def _write_anew(stored: StoredExperiment, experiment: Experiment) -> StoredExperiment:
    if experiment == stored.experiment:
        return stored
    if layout.attempt_folders(stored.folder) or stored.block_plans:
        raise MeasurementError(f"{stored.folder} already has trials, so its design can't change")
    write_document(stored.folder / layout.EXPERIMENT_FILE, experiment)
    return replace(stored, experiment=experiment)


def _what_instead(folder: Path) -> str:
    """What a folder without an experiment is, and what to type."""
    for file, words in _OTHERS.items():
        if (folder / file).is_file():
            return words.format(folder=shlex.quote(str(folder)))
    if (folder / layout.TUNE_FILE).is_file():
        typed = shlex.quote(str(folder))
        proof = folder / layout.PROOF_FOLDER
        found = f"it has the result of a tune, which 'pgassay report {typed}' shows"
        if not (proof / layout.EXPERIMENT_FILE).is_file():
            return f"{found}; it needed no trial"
        return f"{found} and 'pgassay tune {typed}' continues; its trials are in {proof}"
    if (folder / layout.SEARCH_FILE).is_file():
        return "it is from a tune that ended early: run tune again"
    return f"name a folder that has an {layout.EXPERIMENT_FILE}, as 'pgassay list' prints them"


def load_experiment(folder: Path) -> Experiment:
    """Read experiment.json; raises UsageError for a folder that holds none, or a newer one."""
    path = folder / layout.EXPERIMENT_FILE
    if not path.is_file():
        raise UsageError(f"{folder} has no experiment: {_what_instead(folder)}")
    return read_model(path, Experiment, EXPERIMENT_FORMAT)


def write_block_plan(folder: Path, plan: BlockPlan) -> None:
    """Write what a block is made of, before its first trial; raises MeasurementError."""
    path = layout.block_file(folder, plan.block)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            sync(folder)
    except OSError as error:
        raise recording_error(path, error) from error
    write_document(path, plan)


def load_block_plan(path: Path) -> BlockPlan:
    """Read one block's plan; raises UsageError when it is damaged or newer."""
    return read_model(path, BlockPlan, BLOCK_FORMAT)


class TrialWriter:
    """A trial's folder in the making; `finish` renames it into place, `discard` forgets it."""

    def __init__(self, folder: Path, number: int, attempt: int) -> None:
        """Open a temporary folder beside the final one; raises MeasurementError."""
        self.final = layout.attempt_folder(folder, number, attempt)
        try:
            self.final.parent.mkdir(parents=True, exist_ok=True)
            prefix = f".{self.final.name}."
            self.path = Path(tempfile.mkdtemp(prefix=prefix, suffix=".tmp", dir=self.final.parent))
            self.path.chmod(0o755)
        except OSError as error:
            raise recording_error(self.final, error) from error

    def add(self, name: str, content: bytes) -> None:
        """Write one file of the trial (`name` may hold a folder); raises MeasurementError."""
        path = self.path / name
        try:
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                file.write(content)
                flush(file)
        except OSError as error:
            raise recording_error(self.final, error) from error

    def finish(self, record: TrialRecord) -> Path:
        """Write trial.json last, sync everything and move the folder into place."""
        self.add(layout.TRIAL_FILE, to_json(record))
        try:
            for folder, _, _ in os.walk(self.path):
                sync(Path(folder))
            self.path.rename(self.final)
            sync(self.final.parent)
            sync(self.final.parent.parent)
        except OSError as error:
            raise recording_error(self.final, error) from error
        return self.final

    def discard(self) -> None:
        """Remove what was written so far; does nothing after `finish`."""
        shutil.rmtree(self.path, ignore_errors=True)


def load_trial(folder: Path) -> StoredTrial:
    """Read one attempt's folder; raises UsageError when it is damaged or newer."""
    record = read_model(folder / layout.TRIAL_FILE, TrialRecord, TRIAL_FORMAT)
    plans = _plans(folder / layout.PLANS_FILE)
    return StoredTrial(record, plans, folder, _work_plans(folder / layout.WORK_PLANS_FILE))


def _work_plans(path: Path) -> Mapping[str, WorkPlan]:
    return read_model(path, WorkPlans, WORK_PLANS_FORMAT).statements if path.is_file() else {}


def _plans(path: Path) -> dict[str, object]:
    try:
        plans = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    if not isinstance(plans, dict) or not all(isinstance(plan, dict) for plan in plans.values()):
        raise damaged(path, "it maps no statements to plans")
    return plans


def write_state(folder: Path, *, stopped: str, seconds_used: float, warnings: tuple[str, ...] = ()) -> None:
    """Say how the experiment ended, or that it is running; `seconds_used` sums over its sessions.

    `warnings` are sentences about the machine that the trials themselves can't hold.
    """
    state = {
        "format": 1,
        "stopped": stopped,
        "seconds_used": round(seconds_used, 3),
        "warnings": list(warnings),
    }
    write_document(folder / layout.STATE_FILE, state)


def load_state(folder: Path) -> tuple[str, float, tuple[str, ...]]:
    """How the experiment stopped, the seconds it has used, and what was said of its machine.

    ('running', 0, ()) before it says so.
    """
    path = folder / layout.STATE_FILE
    if not path.is_file():
        return "running", 0.0, ()
    state = read_json(path, 1)
    stopped, seconds_used = state.get("stopped", "running"), state.get("seconds_used", 0.0)
    warnings = state.get("warnings", [])
    if (
        not isinstance(stopped, str)
        or stopped not in get_args(Stopped)
        or not isinstance(seconds_used, int | float)
        or not isinstance(warnings, list)
    ):
        raise damaged(path, "it does not say how it ended")
    return stopped, float(seconds_used), tuple(str(sentence) for sentence in warnings)


def write_servers(folder: Path, servers: Mapping[str, object]) -> None:
    """Keep what remote servers say of themselves: their settings and extensions, by name."""
    write_document(folder / layout.SERVERS_FILE, {"format": 1, "servers": servers})


def load_servers(folder: Path) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """What remote servers said of themselves at the plan, by name; {} when there are none."""
    path = folder / layout.SERVERS_FILE
    servers = read_json(path, 1).get("servers") if path.is_file() else {}
    if not isinstance(servers, dict):
        raise damaged(path, "it holds no servers")
    return servers


def write_swap(folder: Path, swap: Mapping[str, object]) -> None:
    """Keep where the settings of two remote servers were swapped, and what changed places."""
    write_document(folder / layout.SWAP_FILE, {"format": 1, **swap})


def load_swap(folder: Path) -> Swap | None:
    """Where the servers' settings were swapped; None when they were not."""
    path = folder / layout.SWAP_FILE
    if not path.is_file():
        return None
    swap = read_json(path, 1)
    block, swapped, stayed = swap.get("at_block"), swap.get("swapped"), swap.get("stayed")
    if not isinstance(block, int) or not isinstance(swapped, list) or not isinstance(stayed, list):
        raise damaged(path, "it does not say what was swapped")
    return Swap(block, tuple(map(str, swapped)), tuple(map(str, stayed)))


def load(folder: Path) -> StoredExperiment:
    """Read a whole experiment; raises UsageError with what is wrong and where."""
    experiment = load_experiment(folder)
    trials = tuple(load_trial(path) for path in layout.attempt_folders(folder))
    stopped, seconds_used, warnings = load_state(folder)
    swap = load_swap(folder)
    plans = {number: load_block_plan(path) for number, path in layout.block_files(folder).items()}
    further = folder / layout.PROFILE_FOLDER
    profile = load(further) if (further / layout.EXPERIMENT_FILE).is_file() else None
    return StoredExperiment(folder, experiment, trials, stopped, seconds_used, warnings, swap, plans, profile)


def refuse_lost_blocks(stored: StoredExperiment) -> None:
    """Raise UsageError where a block has trials and its plan is gone.

    Which arms were to run in it is nowhere else, and so neither is which trial comes next.
    """
    if stored.experiment.design == BlockDesign():
        return
    lost = {trial.record.block for trial in stored.trials} - stored.block_plans.keys()
    if lost:
        path = layout.block_file(stored.folder, min(lost))
        raise UsageError(
            f"{path} is missing, without which the experiment can't be continued: restore it from a copy "
            f"('pgassay report {shlex.quote(str(stored.folder))}' needs none)"
        )


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files and folders that a killed run left in an experiment's folder.

    The caller holds the host's lock, so nobody else is writing there.
    """
    unfinished = (".*.tmp", f"{layout.BLOCKS_FOLDER}/.*.tmp", f"{layout.TRIALS_FOLDER}/*/.*.tmp")
    for path in (path for pattern in unfinished for path in folder.glob(pattern)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
