"""The ledger of this machine: what its experiments said of copies, positions and neighbours.

Its detectors are in `analysis/verdicts/checks/ledger.py`. Who writes home()/ledger.json holds the lock of
the host.
"""

import json
from pathlib import Path

from pgassay.analysis.verdicts.checks.ledger import (
    CLEAN,
    Alarm,
    LedgerState,
    experiment_evidence,
    ledger_of_twins,
    ledger_state,
    ledger_update,
)
from pgassay.environment.home import home
from pgassay.environment.linux.machine import machine_id
from pgassay.model.calibration import LedgerResult
from pgassay.record.documents import write_document, write_file
from pgassay.record.experiment import StoredExperiment

FORMAT = 2
FORMAT_OF_TWINS = 1
_WORDS = {
    "copy": "which copy of the data a trial ran on",
    "position": "whether a trial ran first or last in its block",
    "predecessor": "which trial ran before",
}


def add_evidence(stored: StoredExperiment) -> str | None:
    """Add an experiment's final evidence; a sentence while an alarm lasts, else None.

    A file that can't be understood is set aside as ledger.json.unreadable, and one of a later version of
    pgassay is left alone.
    """
    path = _file()
    ledger = _read(path)
    if ledger is None:
        return None
    identity = f"{stored.experiment.created_at} {stored.experiment.contract.seed}"
    ledger = ledger_update(ledger, machine_id(), identity, experiment_evidence(stored))
    write_document(path, {**ledger, "format": FORMAT})
    return _sentence(ledger_state(ledger, machine_id()))


def summary() -> LedgerResult:
    """What this machine's ledger says so far."""
    state = ledger_state(_read(_file()) or {}, machine_id())
    return LedgerResult(
        experiments=state.experiments,
        # Without an experiment nothing speaks for either side.
        evidence=state.evidence if state.experiments else 1.0,
        alarm=bool(state.alarms),
        detectors=state.detectors if state.experiments else {},
        alarm_kinds=tuple(alarm.kind for alarm in state.alarms),
        alarm_since=min((_moment(alarm) for alarm in state.alarms), default=None),
    )


def _file() -> Path:
    return home() / "ledger.json"


def _read(path: Path) -> dict[str, object] | None:
    """The stored ledger; a new one where there is none; None for one of a later version."""
    if not path.is_file():
        return {}
    content = path.read_bytes()
    try:
        stored = json.loads(content)
        number = stored["format"]
        if number == FORMAT_OF_TWINS:
            return ledger_of_twins(stored)
        if number == FORMAT:
            ledger_state(stored, machine_id())
            return {"machines": stored["machines"]}
        if isinstance(number, int) and number > FORMAT:
            return None
    except (ValueError, TypeError, KeyError):
        pass  # cut short, or not ours: its content is kept for a person to look at
    write_file(path.with_name(f"{path.name}.unreadable"), content)
    return {}


def _sentence(state: LedgerState) -> str | None:
    if not state.alarms:
        return None
    matters = " and ".join(
        f"{_WORDS[alarm.kind]} (since {_moment(alarm)}, evidence that it has ended: {alarm.clean:,.1f} of "
        f"{CLEAN:.0f})"
        for alarm in state.alarms
    )
    return (
        f"over several experiments on this machine it has mattered, more than chance explains, {matters}: "
        "find the reason before you trust small effects; the alarm ends when later experiments give "
        "evidence against it"
    )


def _moment(alarm: Alarm) -> str:
    """When the experiment was made that raised an alarm: its identity begins with that."""
    return alarm.since.partition(" ")[0]
