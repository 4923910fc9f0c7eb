"""gate.json: the result of a gate in its folder, beside the experiments that it ran."""

from pathlib import Path

from pgassay.model.gates.gate import GATE_FORMAT, GateResult
from pgassay.record.documents import read_model, write_document
from pgassay.record.layout import GATE_FILE, holds


def write_gate(folder: Path, result: GateResult) -> None:
    """Write gate.json; raises MeasurementError when the disk is full or refuses."""
    write_document(folder / GATE_FILE, result)


def load_gate(folder: Path) -> GateResult:
    """Read a gate's result; raises UsageError for a folder that holds none, a newer or a damaged one."""
    return read_model(folder / GATE_FILE, GateResult, GATE_FORMAT, "name a gate's folder")


def gate_folders(parent: Path) -> list[Path]:
    """The folders of all gates directly below `parent`, or `parent` itself; in the order of their names."""
    if (parent / GATE_FILE).is_file():
        return [parent]
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if holds(path, GATE_FILE))


def load_gates(parent: Path) -> list[GateResult]:
    """All gates directly below `parent` that came to their end, oldest first; raises as `load_gate`.

    An interrupted one is no run: whoever stops what looks bad would choose what counts.
    """
    gates = (load_gate(folder) for folder in gate_folders(parent))
    return sorted((gate for gate in gates if gate.outcome != "interrupted"), key=lambda gate: gate.created_at)
