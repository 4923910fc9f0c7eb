"""Reading a stored experiment: needs no server and nothing but its folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from pgassay.errors import UsageError
from pgassay.model.experiment import BLOCK_FORMAT, EXPERIMENT_FORMAT, BlockPlan, Experiment
from pgassay.model.plans.work import WORK_PLANS_FORMAT, WorkPlan, WorkPlans
from pgassay.model.result import Stopped
from pgassay.model.trial import TRIAL_FORMAT, TrialRecord
from pgassay.record import layout

# Files by which a folder is known that is no experiment.
_OTHERS = {
    "gate.json": "it is a gate's, which 'pgassay report {folder}' shows; each folder in it is an experiment",
    layout.FLEET_FILE: "it is of several machines, each of which has an experiment in {folder}/machines; "
    "'pgassay report {folder}' shows all of it",
    layout.PROBE_FILE: "it is a probe's, whose page is {folder}/report.html",
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
    by number what each block is made of, empty where the plan of the experiment says it all.
    """

    folder: Path
    experiment: Experiment
    trials: tuple[StoredTrial, ...]
    stopped: str = "running"
    seconds_used: float = 0.0
    warnings: tuple[str, ...] = ()
    swap: Swap | None = None
    block_plans: Mapping[int, BlockPlan] = field(default_factory=dict)


def _json(path: Path, newest: int) -> dict[str, object]:
    """Parse a file and refuse a format newer than this version can read."""
    try:
        value: object = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name an experiment's folder") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}): restore it from a copy") from error
    found = value.get("format") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(found, int):
        raise UsageError(f"{path} was not written by pgassay: name an experiment's folder")
    if found > newest:
        raise UsageError(
            f"{path} has format {found}, written by a newer pgassay; this one reads up to "
            f"{newest}: install the newer version to read it"
        )
    return value


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _what_instead(folder: Path) -> str:
    """What a folder without an experiment is, and what to type."""
    for file, words in _OTHERS.items():
        if (folder / file).is_file():
            return words.format(folder=folder)
    if (folder / layout.TUNE_FILE).is_file():
        proof = folder / "proof"
        found = f"it has the answer of a tune, which 'pgassay report {folder}' shows"
        if not (proof / layout.EXPERIMENT_FILE).is_file():
            return f"{found}; it needed no trial"
        return f"{found} and 'pgassay tune {folder}' goes on with; its trials are in {proof}"
    if (folder / layout.SEARCH_FILE).is_file():
        return "it is of a tune that ended before its answer: run tune again"
    return f"name a folder that has an {layout.EXPERIMENT_FILE}, as 'pgassay list' prints them"


def load_experiment(folder: Path) -> Experiment:
    """Read experiment.json; raises UsageError for a folder that holds none, or a newer one."""
    path = folder / layout.EXPERIMENT_FILE
    if not path.is_file():
        raise UsageError(f"{folder} holds no experiment: {_what_instead(folder)}")
    try:
        return Experiment.model_validate(_json(path, EXPERIMENT_FORMAT))
    except ValidationError as error:
        raise UsageError(f"{path} is damaged ({_first_error(error)}): restore it from a copy") from error


def load_trial(folder: Path) -> StoredTrial:
    """Read one attempt's folder; raises UsageError when it is damaged or newer."""
    path = folder / layout.TRIAL_FILE
    try:
        record = TrialRecord.model_validate(_json(path, TRIAL_FORMAT))
    except ValidationError as error:
        raise UsageError(f"{path} is damaged ({_first_error(error)}): restore it from a copy") from error
    plans = _plans(folder / layout.PLANS_FILE)
    return StoredTrial(record, plans, folder, _work_plans(folder / layout.WORK_PLANS_FILE))


def _work_plans(path: Path) -> Mapping[str, WorkPlan]:
    if not path.is_file():
        return {}
    try:
        return WorkPlans.model_validate(_json(path, WORK_PLANS_FORMAT)).statements
    except ValidationError as error:
        raise UsageError(f"{path} is damaged ({_first_error(error)}): restore it from a copy") from error


def _plans(path: Path) -> dict[str, object]:
    try:
        plans = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged ({error}): restore it from a copy") from error
    if not isinstance(plans, dict) or not all(isinstance(plan, dict) for plan in plans.values()):
        raise UsageError(f"{path} is damaged (it maps no statements to plans): restore it from a copy")
    return plans


def load_state(folder: Path) -> tuple[str, float, tuple[str, ...]]:
    """How the experiment stopped, the seconds it has used, and what was said of its machine.

    ('running', 0, ()) before it says so.
    """
    path = folder / layout.STATE_FILE
    if not path.is_file():
        return "running", 0.0, ()
    state = _json(path, 1)
    stopped, seconds_used = state.get("stopped", "running"), state.get("seconds_used", 0.0)
    warnings = state.get("warnings", [])
    if (
        not isinstance(stopped, str)
        or stopped not in get_args(Stopped)
        or not isinstance(seconds_used, int | float)
        or not isinstance(warnings, list)
    ):
        raise UsageError(f"{path} is damaged (it does not say how it ended): restore it from a copy")
    return stopped, float(seconds_used), tuple(str(sentence) for sentence in warnings)


def load_servers(folder: Path) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """What remote servers said of themselves at the plan, by name; {} when there are none."""
    path = folder / layout.SERVERS_FILE
    servers = _json(path, 1).get("servers") if path.is_file() else {}
    if not isinstance(servers, dict):
        raise UsageError(f"{path} is damaged (it holds no servers): restore it from a copy")
    return servers


def load_swap(folder: Path) -> Swap | None:
    """Where the servers' settings were swapped; None when they were not."""
    path = folder / layout.SWAP_FILE
    if not path.is_file():
        return None
    swap = _json(path, 1)
    block, swapped, stayed = swap.get("at_block"), swap.get("swapped"), swap.get("stayed")
    if not isinstance(block, int) or not isinstance(swapped, list) or not isinstance(stayed, list):
        raise UsageError(f"{path} is damaged (it does not say what was swapped): restore it from a copy")
    return Swap(block, tuple(map(str, swapped)), tuple(map(str, stayed)))


def load_block_plan(path: Path) -> BlockPlan:
    """Read one block's plan; raises UsageError when it is damaged or newer."""
    try:
        return BlockPlan.model_validate(_json(path, BLOCK_FORMAT))
    except ValidationError as error:
        raise UsageError(f"{path} is damaged ({_first_error(error)}): restore it from a copy") from error


def load(folder: Path) -> StoredExperiment:
    """Read a whole experiment; raises UsageError with what is wrong and where."""
    experiment = load_experiment(folder)
    trials = tuple(load_trial(path) for path in layout.attempt_folders(folder))
    stopped, seconds_used, warnings = load_state(folder)
    swap = load_swap(folder)
    plans = {number: load_block_plan(path) for number, path in layout.block_files(folder).items()}
    return StoredExperiment(folder, experiment, trials, stopped, seconds_used, warnings, swap, plans)
