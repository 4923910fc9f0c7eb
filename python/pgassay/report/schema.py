"""The JSON schemas (2020-12) of all that is printed with --json, and of an experiment's two main files.

They are made from the models: `python -m pgassay.report.schema` writes them to schemas/ of the checkout; a
test checks that the files there are what the models give. A new document is one line of `PUBLISHED`. What a
key means is a line of schemas/meanings.toml.
"""

import json
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgassay.analysis.causes.registry import cause_names
from pgassay.model.base import Frozen
from pgassay.model.calibration import CALIBRATION_SCHEMA, CalibrationResult
from pgassay.model.experiment import Experiment
from pgassay.model.further_results.bisection import BISECTION_SCHEMA, BisectionResult
from pgassay.model.further_results.claims import CLAIMS_SCHEMA, ClaimsResult
from pgassay.model.gates.gate import GATE_SCHEMA, GateResult
from pgassay.model.gates.history import HISTORY_SCHEMA, HistoryResult
from pgassay.model.machines.combined import COMBINED_SCHEMA, CombinedResult
from pgassay.model.machines.fleet import FLEET_SCHEMA, FleetStatus
from pgassay.model.plans.explained_plan import EXPLAIN_SCHEMA, ExplainResult
from pgassay.model.probe import PROBE_SCHEMA, ProbeResult
from pgassay.model.result import PLANNED_SCHEMA, RESULT_SCHEMA, CompareResult, Planned
from pgassay.model.running_server.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis
from pgassay.model.running_server.diagnosis_change import DIAGNOSIS_CHANGE_SCHEMA, DiagnosisChange
from pgassay.model.running_server.load_progress import (
    PGBENCH_PROGRESS_SCHEMA,
    SYSBENCH_PROGRESS_SCHEMA,
    PgbenchProgressSample,
    SysbenchProgressSample,
)
from pgassay.model.running_server.pgbench_run import PGBENCH_SCHEMA, PgbenchResult
from pgassay.model.running_server.sysbench_run import SYSBENCH_SCHEMA, SysbenchResult
from pgassay.model.running_server.watch import WATCH_SCHEMA, WatchSample
from pgassay.model.traffic.replay_result import REPLAY_SCHEMA, ReplayResult
from pgassay.model.trial import TrialRecord
from pgassay.model.tuning.tune_answer import TUNE_SCHEMA, TuneResult
from pgassay.model.upgrades.upgrade_answer import UPGRADE_SCHEMA, UpgradeResult
from pgassay.model.volumes.offer import VOLUMES_SCHEMA, VolumesResult
from pgassay.model.volumes.size import SIZE_SCHEMA, SizeResult

FOLDER = Path(__file__).resolve().parents[3] / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# A plain number in the model that can overflow: the twin's evidence is a product without a bound.
_NULL_WHEN_INFINITE = ("evidence", "twin_evidence")


@dataclass(frozen=True)
class Published:
    """A document with a schema of its own: the model it is made from, and the number of its format.

    `has_causes`: it names causes, and which there are is part of the schema.
    """

    name: str
    model: type[Frozen]
    number: int
    has_causes: bool = False

    @property
    def file(self) -> Path:
        """Where the schema is published."""
        return FOLDER / f"{self.name}.schema.json"

    def schema(self) -> dict[str, Any]:
        """The schema, as JSON Schema has it."""
        schema = self.model.model_json_schema(by_alias=True, mode="serialization")
        meanings = meanings_of_keys()
        for part in (schema, *schema.get("$defs", {}).values()):
            _tighten(part)
            _explain(part, meanings.get(part.get("title", ""), {}))
        if self.has_causes:
            _close_causes(schema, self.file)
        schema["properties"]["schema"]["const"] = self.number
        return {"$schema": _DIALECT, **schema}

    def text(self) -> str:
        """The schema as its file holds it."""
        return json.dumps(self.schema(), indent=2) + "\n"


@dataclass(frozen=True)
class Stored(Published):
    """A file of the results folder. Keys that earlier versions did not write are not required."""

    def schema(self) -> dict[str, Any]:
        """The schema of what is read, older files included."""
        schema = self.model.model_json_schema(by_alias=True, mode="validation")
        meanings = meanings_of_keys()
        for part in (schema, *schema["$defs"].values()):
            _explain(part, meanings.get(part.get("title", ""), {}))
        return {"$schema": _DIALECT, **schema}


COMPARE = Published("compare", CompareResult, RESULT_SCHEMA, has_causes=True)
PLANNED = Published("planned", Planned, PLANNED_SCHEMA)
COMBINED = Published("combine", CombinedResult, COMBINED_SCHEMA)
CALIBRATION = Published("calibration", CalibrationResult, CALIBRATION_SCHEMA)
PROBE = Published("probe", ProbeResult, PROBE_SCHEMA)
DIAGNOSIS = Published("diagnose", Diagnosis, DIAGNOSIS_SCHEMA, has_causes=True)
DIAGNOSIS_CHANGE = Published("diagnose-change", DiagnosisChange, DIAGNOSIS_CHANGE_SCHEMA)
WATCH = Published("watch", WatchSample, WATCH_SCHEMA)
EXPLAIN = Published("explain", ExplainResult, EXPLAIN_SCHEMA)
VOLUMES = Published("volumes", VolumesResult, VOLUMES_SCHEMA)
SIZE = Published("size", SizeResult, SIZE_SCHEMA)
TUNE = Published("tune", TuneResult, TUNE_SCHEMA)
GATE = Published("gate", GateResult, GATE_SCHEMA)
FLEET = Published("fleet", FleetStatus, FLEET_SCHEMA)
HISTORY = Published("history", HistoryResult, HISTORY_SCHEMA)
PGBENCH = Published("pgbench", PgbenchResult, PGBENCH_SCHEMA)
SYSBENCH = Published("sysbench", SysbenchResult, SYSBENCH_SCHEMA)
PGBENCH_PROGRESS = Published("pgbench-progress", PgbenchProgressSample, PGBENCH_PROGRESS_SCHEMA)
SYSBENCH_PROGRESS = Published("sysbench-progress", SysbenchProgressSample, SYSBENCH_PROGRESS_SCHEMA)
REPLAY = Published("replay", ReplayResult, REPLAY_SCHEMA)
UPGRADE = Published("upgrade", UpgradeResult, UPGRADE_SCHEMA)
CLAIMS = Published("claims", ClaimsResult, CLAIMS_SCHEMA)
BISECT = Published("bisect", BisectionResult, BISECTION_SCHEMA)
PUBLISHED = (
    COMPARE,
    PLANNED,
    COMBINED,
    CALIBRATION,
    PROBE,
    DIAGNOSIS,
    DIAGNOSIS_CHANGE,
    WATCH,
    EXPLAIN,
    VOLUMES,
    SIZE,
    TUNE,
    GATE,
    HISTORY,
    FLEET,
    PGBENCH,
    SYSBENCH,
    PGBENCH_PROGRESS,
    SYSBENCH_PROGRESS,
    REPLAY,
    UPGRADE,
    CLAIMS,
    BISECT,
)
STORED = (Stored("experiment", Experiment, 1), Stored("trial", TrialRecord, 1))


def _close_causes(schema: dict[str, Any], published: Path) -> None:
    """A cause is one of the registry's: in the order of the published schema, new ones behind them."""
    known = json.loads(published.read_text(encoding="utf-8")) if published.is_file() else {}
    before = known.get("$defs", {}).get("Cause", {}).get("properties", {}).get("cause", {}).get("enum", [])
    names = sorted(cause_names(), key=lambda name: before.index(name) if name in before else len(before))
    properties = schema["$defs"]["Cause"]["properties"]
    properties["cause"] = {"enum": names, **properties["cause"]}


# Keys that are written only where there is something, by the model: documents before them had none.
_WHERE_KNOWN = {
    "Activity": ("device_write_mb_s",),
    **dict.fromkeys(("ArmResult", "SecondaryArmResult"), ("starts", "assumption")),
    "Cause": ("gain_range",),
    "CompareResult": (
        "profile",
        "capacities",
        "errors",
        "poolers",
        "connections",
        "load_statements",
        "checkpoints",
        "iostat",
        "plan_changes",
        "layouts",
    ),
    "WorkResult": ("server_times", "phases"),
    "ArmVolumes": ("price_given", "work_price_ratio", "work_price_interval"),
    "ArmLatency": ("latency_stddev_ratio", "latency_stddev_interval"),
    "PgbenchResult": ("errors", "error_examples"),
    "SysbenchResult": ("error_examples", "ended_by", "reconnects"),
    "ProbeResult": ("proof",),
    "GateUnit": ("starts",),
    "BisectionResult": ("profile", "machine", "built_with"),
    **dict.fromkeys(("ProfileResult", "ServerProfile"), ("counted", "waiting")),
    "ReplayResult": ("profile",),
    "UpgradeResult": ("traffic", "pg_upgrade", "states", "interrupted"),
    "UpgradedStatement": ("calls",),
}


def _tighten(part: dict[str, Any]) -> None:
    """Every key is always written but those, so all others are required; defaults say nothing to a reader."""
    properties = part.get("properties", {})
    optional = _WHERE_KNOWN.get(part.get("title", ""), ())
    part["required"] = [name for name in properties if name not in optional]
    for name, value in properties.items():
        value.pop("default", None)
        if name in _NULL_WHEN_INFINITE and value.get("type") == "number":
            value["type"] = ["number", "null"]


def meanings_of_keys() -> dict[str, dict[str, str]]:
    """What keys mean, by the name of their model."""
    return tomllib.loads((FOLDER / "meanings.toml").read_text(encoding="utf-8"))


def _explain(part: dict[str, Any], meanings: dict[str, str]) -> None:
    for name, value in part.get("properties", {}).items():
        if name in meanings:
            part["properties"][name] = {"description": meanings[name], **value}


def main() -> int:
    """Write the schemas into the checkout and say where."""
    FOLDER.mkdir(exist_ok=True)
    for document in (*PUBLISHED, *STORED):
        document.file.write_text(document.text(), encoding="utf-8")
        print(document.file, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
