"""The ledger of twins: the evidence of a machine's experiments against their twins, multiplied.

A single experiment's gate is weak; a machine that favours a position or a copy of the data shows it
over many experiments. home()/ledger.json keeps each experiment's last word.
"""

import json

from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.twin import ledger_alarm, ledger_evidence, ledger_update
from pgassay.environment.home import home
from pgassay.environment.linux.machine import machine_id
from pgassay.model.calibration import LedgerResult
from pgassay.record.read import StoredExperiment
from pgassay.record.write import to_json, write_file

FORMAT = 1
EVIDENCE_MAX = 1e300  # JSON knows no infinity
ALARM = (
    "over many experiments on this machine the twin has differed from its control more than chance "
    "allows: something favours one copy of the data or one moment; look for it before believing small effects"
)


def add_evidence(stored: StoredExperiment) -> str | None:
    """Add an experiment's final evidence; the alarm's sentence when the machine's product is too high."""
    path = home() / "ledger.json"
    ledger = _read(path.read_bytes() if path.is_file() else b"")
    identity = f"{stored.experiment.created_at} {stored.experiment.contract.seed}"
    ledger = ledger_update(ledger, machine_id(), identity, min(analyse(stored).twin.evidence, EVIDENCE_MAX))
    write_file(path, to_json({**ledger, "format": FORMAT}))
    return ALARM if ledger_alarm(ledger, machine_id()) else None


def _read(content: bytes) -> dict[str, object]:
    """The stored ledger; a new one where there is none, or one that another version wrote."""
    try:
        stored = json.loads(content)
    except ValueError:
        return {}
    return stored if isinstance(stored, dict) and stored.get("format") == FORMAT else {}


def _experiments(stored: dict[str, object]) -> int:
    """How many experiments of this machine the ledger has."""
    machines = stored.get("machines")
    entry = machines.get(machine_id()) if isinstance(machines, dict) else None
    return len(entry.get("experiments", {})) if isinstance(entry, dict) else 0


def summary() -> LedgerResult:
    """What this machine's ledger says so far."""
    path = home() / "ledger.json"
    stored = _read(path.read_bytes() if path.is_file() else b"")
    return LedgerResult(
        experiments=_experiments(stored),
        evidence=ledger_evidence(stored, machine_id()),
        alarm=ledger_alarm(stored, machine_id()),
    )
