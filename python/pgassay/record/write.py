"""Atomic writes: a file or a trial's folder is there whole, and on stable storage, or not at all."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pgassay.durable import replace_file, sync
from pgassay.errors import MeasurementError
from pgassay.model.experiment import BlockPlan, Experiment
from pgassay.model.trial import TrialRecord
from pgassay.record import layout


def write_file(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, whole or not at all; raises MeasurementError, and the old file stays."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise recording_error(path, error) from error


def recording_error(path: Path, error: OSError) -> MeasurementError:
    """The sentence for a record that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MeasurementError(
            f"no space left to record {path}: what was recorded before is whole; "
            "free some space and continue with 'pgassay resume'"
        )
    return MeasurementError(
        f"can't write {path} ({error.strerror}): what was recorded before is whole; "
        "make the folder writable and continue with 'pgassay resume'"
    )


def to_json(value: object) -> bytes:
    """JSON bytes of a plain value, readable by a person."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_experiment(folder: Path, experiment: Experiment) -> None:
    """Write experiment.json; raises MeasurementError when the folder already holds another one."""
    path = folder / layout.EXPERIMENT_FILE
    if path.exists():
        raise MeasurementError(f"{folder} already holds an experiment: choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_file(path, (experiment.model_dump_json(indent=1) + "\n").encode())


def write_block_plan(folder: Path, plan: BlockPlan) -> None:
    """Write what a block is made of, before its first trial; raises MeasurementError."""
    path = layout.block_file(folder, plan.block)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            sync(folder)
    except OSError as error:
        raise recording_error(path, error) from error
    write_file(path, (plan.model_dump_json(indent=1) + "\n").encode())


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
    write_file(folder / layout.STATE_FILE, to_json(state))


def write_servers(folder: Path, servers: Mapping[str, object]) -> None:
    """Keep what remote servers say of themselves: their settings and extensions, by name."""
    write_file(folder / layout.SERVERS_FILE, to_json({"format": 1, "servers": servers}))


def write_swap(folder: Path, swap: Mapping[str, object]) -> None:
    """Keep where the settings of two remote servers were swapped, and what changed places."""
    write_file(folder / layout.SWAP_FILE, to_json({"format": 1, **swap}))


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
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise recording_error(self.final, error) from error

    def finish(self, record: TrialRecord) -> Path:
        """Write trial.json last, sync everything and move the folder into place."""
        self.add(layout.TRIAL_FILE, (record.model_dump_json(indent=1) + "\n").encode())
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
