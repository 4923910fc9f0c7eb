"""gate.json: the result of a gate in its folder, beside the experiments that it ran."""

import json
from pathlib import Path

from pydantic import ValidationError

from pgassay.errors import UsageError
from pgassay.model.gates.gate import GATE_FORMAT, GateResult
from pgassay.record.experiment import write_file

GATE_FILE = "gate.json"


def write_gate(folder: Path, result: GateResult) -> None:
    """Write gate.json; raises MeasurementError when the disk is full or refuses."""
    write_file(folder / GATE_FILE, (result.model_dump_json(indent=1, by_alias=True) + "\n").encode())


def load_gate(folder: Path) -> GateResult:
    """Read a gate's result; raises UsageError for a folder that holds none, a newer or a damaged one."""
    path = folder / GATE_FILE
    try:
        document: object = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name a gate's folder") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}): restore it from a copy") from error
    found = document.get("format") if isinstance(document, dict) else None
    if not isinstance(found, int):
        raise UsageError(f"{path} was not written by pgassay: name a gate's folder")
    if found > GATE_FORMAT:
        raise UsageError(
            f"{path} has format {found}, written by a newer pgassay; this one reads up to {GATE_FORMAT}: "
            "install the newer version to read it"
        )
    try:
        return GateResult.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path} is damaged ({where}: {first['msg']}): restore it from a copy") from error


def gate_folders(parent: Path) -> list[Path]:
    """The folders of all gates directly below `parent`, or `parent` itself; in the order of their names."""
    if (parent / GATE_FILE).is_file():
        return [parent]
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if (path / GATE_FILE).is_file())


def load_gates(parent: Path) -> list[GateResult]:
    """All gates directly below `parent` that came to their end, oldest first; raises as `load_gate`.

    An interrupted one is no run: whoever stops what looks bad would choose what counts.
    """
    gates = (load_gate(folder) for folder in gate_folders(parent))
    return sorted((gate for gate in gates if gate.outcome != "interrupted"), key=lambda gate: gate.created_at)
