"""Names of the files and folders of an experiment."""

import re
from pathlib import Path

EXPERIMENT_FILE = "experiment.json"
STATE_FILE = "state.json"
SERVERS_FILE = "servers.json"
SWAP_FILE = "swap.json"
TRIALS_FOLDER = "trials"
BLOCKS_FOLDER = "blocks"
TRIAL_FILE = "trial.json"
PLANS_FILE = "plans.json"
WORK_PLANS_FILE = "work_plans.json"
# What `pgassay tune` writes into the folder of its results: its answer, and what its search came to.
TUNE_FILE = "tune.json"
SEARCH_FILE = "search.json"
# The request that both follow from, for whoever continues.
TUNE_REQUEST_FILE = "request.json"
# Of an earlier search of the same folder, each in a folder of its own: 1, 2, …
EARLIER_FOLDER = "earlier"
# The experiments of its proof: of all that was chosen, and of what was left of that.
PROOF_FOLDER, CONFIRMATION_FOLDER = "proof", "confirmation"
# The further trials of an experiment in which perf samples the server: an experiment of their own.
PROFILE_FOLDER = "profile"
# What `pgassay compare --fleet` writes beside the machines' own folders.
FLEET_FILE = "fleet.json"
# What `pgassay gate` found, beside the experiments that it ran.
GATE_FILE = "gate.json"
# What `pgassay probe --out` measured.
PROBE_FILE = "probe.json"
HISTOGRAM_FILE = "latency.hdr"
HISTOGRAM_LOG_FILE = "latency.hlog"
SERVER_LOG_FILE = "server.log"
OBSERVATIONS_FOLDER = "observations"

_ATTEMPT = re.compile(r"attempt-(\d+)")
_NUMBER = re.compile(r"\d{6}")
_BLOCK = re.compile(r"(\d{6})\.json")


def holds(folder: Path, name: str) -> bool:
    """Whether this file is in a folder; not where this account may not look into it, as in lost+found."""
    try:
        return (folder / name).is_file()
    except PermissionError:
        return False


def attempt_folder(folder: Path, number: int, attempt: int) -> Path:
    """Where attempt `attempt` (from 1) of trial `number` (from 0) lives in an experiment's folder."""
    return folder / TRIALS_FOLDER / f"{number:06d}" / f"attempt-{attempt}"


def attempt_folders(folder: Path) -> list[Path]:
    """Every whole attempt of an experiment, ordered by trial number, then attempt."""
    found: list[Path] = []
    trials = folder / TRIALS_FOLDER
    if not trials.is_dir():
        return []
    for trial in sorted(trials.iterdir()):
        if not _NUMBER.fullmatch(trial.name):
            continue
        attempts = [
            (int(match.group(1)), path)
            for path in trial.iterdir()
            if (match := _ATTEMPT.fullmatch(path.name)) and (path / TRIAL_FILE).is_file()
        ]
        found.extend(path for _, path in sorted(attempts))
    return found


def block_file(folder: Path, block: int) -> Path:
    """Where the plan of block `block` (from 0) lies in an experiment's folder."""
    return folder / BLOCKS_FOLDER / f"{block:06d}.json"


def block_files(folder: Path) -> dict[int, Path]:
    """The plans of an experiment's blocks by number, in their order; {} where it has none."""
    blocks = folder / BLOCKS_FOLDER
    names = sorted(path.name for path in blocks.iterdir()) if blocks.is_dir() else []
    return {int(match.group(1)): blocks / name for name in names if (match := _BLOCK.fullmatch(name))}
