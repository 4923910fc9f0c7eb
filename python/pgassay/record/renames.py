"""Functions of a profile's arms that have another name in their control: a file beside the profile's plan."""

from collections.abc import Mapping
from pathlib import Path

from pgassay.model.profile.result import RenamedFunctions
from pgassay.record.documents import read_model, to_json, write_file

RENAMES_FILE = "renames.json"
# By arm id: the function's name in the control by its name in the arm.
Renames = Mapping[str, Mapping[str, str]]


def write_renames(folder: Path, renamed: Renames) -> None:
    """Write the file, whole or not at all."""
    names = {arm_id: dict(each) for arm_id, each in renamed.items()}
    write_file(folder / RENAMES_FILE, to_json(RenamedFunctions(renamed=names)))


def renames_of(folder: Path) -> Renames:
    """What a profile's folder says; {} where there is no such file. Raises UsageError for a damaged one."""
    path = folder / RENAMES_FILE
    return read_model(path, RenamedFunctions, 1).renamed if path.is_file() else {}
