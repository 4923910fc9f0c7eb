"""JSON documents of a results folder: written whole or not at all, read with a sentence for what is wrong."""

import errno
import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from pgassay.durable import replace_file
from pgassay.errors import MeasurementError, UsageError

_Model = TypeVar("_Model", bound=BaseModel)
_EXPERIMENT = "name an experiment's folder"


def write_file(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, whole or not at all; raises MeasurementError, and the old file stays."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise recording_error(path, error) from error


def write_document(path: Path, value: object) -> None:
    """Write a model or a plain value as JSON; raises as `write_file`."""
    content = to_json(value)
    write_file(path, content)


def recording_error(path: Path, error: OSError) -> MeasurementError:
    """The sentence for a record that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MeasurementError(
            f"no space left to record {path}: earlier records are complete; "
            "free some space and continue with 'pgassay resume'"
        )
    return MeasurementError(
        f"can't write {path} ({error.strerror}): earlier records are complete; "
        "make the folder writable and continue with 'pgassay resume'"
    )


def to_json(value: object) -> bytes:
    """JSON bytes of a model or of a plain value, readable by a person."""
    if isinstance(value, BaseModel):
        return (value.model_dump_json(by_alias=True, indent=1) + "\n").encode()
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def damaged(path: Path, why: object) -> UsageError:
    """The sentence for a stored file that can't be understood."""
    return UsageError(f"{path} is damaged ({why}): restore it from a copy")


def read_json(path: Path, newest: int, remedy: str = _EXPERIMENT) -> dict[str, object]:
    """A document's keys; raises UsageError for one that is none of ours, or of a later format than `newest`.

    remedy: what to do where the file is missing or somebody else's.
    """
    try:
        value: object = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): {remedy}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}): restore it from a copy") from error
    found = value.get("format") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(found, int):
        raise UsageError(f"{path} was not written by pgassay: {remedy}")
    if found > newest:
        raise UsageError(
            f"{path} has format {found}, written by a newer pgassay; this one reads up to "
            f"{newest}: install the newer version to read it"
        )
    return value


def read_model(path: Path, model: type[_Model], newest: int, remedy: str = _EXPERIMENT) -> _Model:
    """A document as its model; raises UsageError as `read_json`, and where it is damaged."""
    try:
        return model.model_validate(read_json(path, newest, remedy))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise damaged(path, f"{where}: {first['msg']}") from error


def read_result(path: Path, model: type[_Model], name: str, remedy: str) -> _Model:
    """A result that this version wrote or printed; raises UsageError for what it can't read as that.

    It has no promise for later versions: it is made again. name, remedy: "diagnosis", "run diagnose again".
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file: {remedy}") from error
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): {remedy}") from error
    except ValidationError as error:
        raise UsageError(
            f"{path} can't be read as this version's {name} ({type(error).__name__}): {remedy}"
        ) from error
