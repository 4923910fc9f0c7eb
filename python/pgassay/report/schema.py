"""The JSON schemas: of comparisons, calibrations, probes, diagnoses, watches, plans, volumes and tune.

They are made from the models: `python -m pgassay.report.schema` writes them to schemas/ of the checkout; a
test checks that the files there are what the models give.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pgassay.analysis.causes.registry import cause_names
from pgassay.model.calibration import CALIBRATION_SCHEMA, CalibrationResult
from pgassay.model.live.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis
from pgassay.model.live.watch import WATCH_SCHEMA, WatchSample
from pgassay.model.plans.plan import EXPLAIN_SCHEMA, ExplainResult
from pgassay.model.probe import PROBE_SCHEMA, ProbeResult
from pgassay.model.result import RESULT_SCHEMA, CompareResult
from pgassay.model.tuning.answer import TUNE_SCHEMA, TuneResult
from pgassay.model.volumes.offer import VOLUMES_SCHEMA, VolumesResult

SCHEMA_FILE = Path(__file__).resolve().parents[3] / "schemas" / "compare.schema.json"
CALIBRATION_FILE = SCHEMA_FILE.with_name("calibration.schema.json")
PROBE_FILE = SCHEMA_FILE.with_name("probe.schema.json")
DIAGNOSIS_FILE = SCHEMA_FILE.with_name("diagnose.schema.json")
WATCH_FILE = SCHEMA_FILE.with_name("watch.schema.json")
EXPLAIN_FILE = SCHEMA_FILE.with_name("explain.schema.json")
VOLUMES_FILE = SCHEMA_FILE.with_name("volumes.schema.json")
TUNE_FILE = SCHEMA_FILE.with_name("tune.schema.json")

# A plain number in the model that can overflow: the twin's evidence is a product without a bound.
_NULL_WHEN_INFINITE = ("evidence", "twin_evidence")


def calibration_schema() -> dict[str, Any]:
    """The schema of what `report.calibration.render_json` writes."""
    schema = CalibrationResult.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    schema["properties"]["schema"]["const"] = CALIBRATION_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def probe_schema() -> dict[str, Any]:
    """The schema of what `report.probe.render_json` writes of a result."""
    schema = ProbeResult.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    schema["properties"]["schema"]["const"] = PROBE_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def diagnosis_schema() -> dict[str, Any]:
    """The schema of what `report.diagnose.render_json` writes."""
    schema = Diagnosis.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    _close_causes(schema, DIAGNOSIS_FILE)
    schema["properties"]["schema"]["const"] = DIAGNOSIS_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def watch_schema() -> dict[str, Any]:
    """The schema of each line that `pgassay watch --json` writes."""
    schema = WatchSample.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    schema["properties"]["schema"]["const"] = WATCH_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def explain_schema() -> dict[str, Any]:
    """The schema of what `pgassay explain --json` prints."""
    schema = ExplainResult.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    schema["properties"]["schema"]["const"] = EXPLAIN_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def volumes_schema() -> dict[str, Any]:
    """The schema of what `pgassay volumes --json` prints."""
    schema = VolumesResult.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    schema["properties"]["schema"]["const"] = VOLUMES_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def tune_schema() -> dict[str, Any]:
    """The schema of what `pgassay tune --json` prints."""
    schema = TuneResult.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    schema["properties"]["schema"]["const"] = TUNE_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def compare_schema() -> dict[str, Any]:
    """The schema (JSON Schema 2020-12) of what `report.json.render` writes."""
    schema = CompareResult.model_json_schema(by_alias=True, mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        _tighten(part)
    _close_causes(schema, SCHEMA_FILE)
    schema["properties"]["schema"]["const"] = RESULT_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _close_causes(schema: dict[str, Any], published: Path) -> None:
    """A cause is one of the registry's: in the order of the published schema, new ones behind them."""
    known = json.loads(published.read_text(encoding="utf-8")) if published.is_file() else {}
    before = known.get("$defs", {}).get("Cause", {}).get("properties", {}).get("cause", {}).get("enum", [])
    names = sorted(cause_names(), key=lambda name: before.index(name) if name in before else len(before))
    properties = schema["$defs"]["Cause"]["properties"]
    properties["cause"] = {"enum": names, **properties["cause"]}


def _tighten(part: dict[str, Any]) -> None:
    """Every key is always written, so all are required; defaults say nothing to a reader."""
    properties = part.get("properties", {})
    part["required"] = list(properties)
    for name, value in properties.items():
        value.pop("default", None)
        if name in _NULL_WHEN_INFINITE and value.get("type") == "number":
            value["type"] = ["number", "null"]


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(compare_schema(), indent=2) + "\n"


def calibration_schema_text() -> str:
    """The schema of calibrations as the file holds it."""
    return json.dumps(calibration_schema(), indent=2) + "\n"


def probe_schema_text() -> str:
    """The schema of probes as the file holds it."""
    return json.dumps(probe_schema(), indent=2) + "\n"


def diagnosis_schema_text() -> str:
    """The schema of diagnoses as the file holds it."""
    return json.dumps(diagnosis_schema(), indent=2) + "\n"


def watch_schema_text() -> str:
    """The schema of watch's lines as the file holds it."""
    return json.dumps(watch_schema(), indent=2) + "\n"


def explain_schema_text() -> str:
    """The schema of plans as the file holds it."""
    return json.dumps(explain_schema(), indent=2) + "\n"


def volumes_schema_text() -> str:
    """The schema of volumes as the file holds it."""
    return json.dumps(volumes_schema(), indent=2) + "\n"


def tune_schema_text() -> str:
    """The schema of tune as the file holds it."""
    return json.dumps(tune_schema(), indent=2) + "\n"


def main() -> int:
    """Write the schemas into the checkout and say where."""
    SCHEMA_FILE.parent.mkdir(exist_ok=True)
    made = (
        (SCHEMA_FILE, schema_text()),
        (CALIBRATION_FILE, calibration_schema_text()),
        (PROBE_FILE, probe_schema_text()),
        (DIAGNOSIS_FILE, diagnosis_schema_text()),
        (WATCH_FILE, watch_schema_text()),
        (EXPLAIN_FILE, explain_schema_text()),
        (VOLUMES_FILE, volumes_schema_text()),
        (TUNE_FILE, tune_schema_text()),
    )
    for file, content in made:
        file.write_text(content, encoding="utf-8")
        print(file, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
