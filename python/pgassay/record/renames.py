"""Functions of a profile's arms that have another name in their control: a file beside the profile's plan."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgassay.durable import replace_file
from pgassay.record.documents import damaged, read_json

RENAMES_FILE = "renames.json"
FORMAT = 1
# By arm id: the function's name in the control by its name in the arm.
Renames = Mapping[str, Mapping[str, str]]


def write_renames(folder: Path, renamed: Renames) -> None:
    """Write the file, whole or not at all."""
    content = json.dumps({"format": FORMAT, "renamed": renamed}, indent=1, sort_keys=True)
    replace_file(folder / RENAMES_FILE, f"{content}\n".encode())


def renames_of(folder: Path) -> Renames:
    """What a profile's folder says; {} where there is no such file. Raises UsageError for a damaged one."""
    path = folder / RENAMES_FILE
    if not path.is_file():
        return {}
    document: Any = read_json(path, FORMAT)
    try:
        return {
            str(arm): {str(new): str(old) for new, old in names.items()}
            for arm, names in document["renamed"].items()
        }
    except (KeyError, AttributeError) as error:
        raise damaged(path, error) from error
