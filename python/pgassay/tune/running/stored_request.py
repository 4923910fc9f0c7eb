"""What a later run continues from: the request as it was understood, beside the search that it led to."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pgassay.model import experiment
from pgassay.model.arm import DatasetSpec
from pgassay.record.documents import write_file
from pgassay.record.layout import TUNE_REQUEST_FILE
from pgassay.tune.inputs.base import Start, workload_named
from pgassay.tune.tune_plan import PlannedTune, TuneRequest

FORMAT = 1


def keep_request(folder: Path, request: TuneRequest, planned: PlannedTune, *, rewrites: bool) -> None:
    """Write request.json: the statements and the data as planned, from wherever they were typed.

    `rewrites`: whether statements may be rewritten. Raises MeasurementError where it can't be written.
    """
    spec = planned.spec
    understood = replace(
        request,
        compare=replace(
            planned.request,
            workload=spec.workload.text,
            dataset=_typed(spec.dataset, planned.request.dataset),
            prepare=(),
            build=spec.build.bin_directory,
            out=None,
        ),
        out=None,
        locale=None,
        encoding=None,
        start=Start(workload_named(spec.workload.text, planned.statements), planned.statements, spec),
        began_at=None,
        clients=spec.workload.clients or None,
    )
    document = {
        "format": FORMAT,
        "rewrites": rewrites,
        "request": _adapter().dump_python(understood, mode="json"),
    }
    write_file(folder / TUNE_REQUEST_FILE, json.dumps(document, indent=1).encode() + b"\n")


def kept_request(folder: Path) -> tuple[TuneRequest, bool] | None:
    """The request and whether statements may be rewritten; None where a folder has none of this version."""
    try:
        document = json.loads((folder / TUNE_REQUEST_FILE).read_bytes())
        if document["format"] != FORMAT:
            return None
        # One that was kept before arms could take turns in one server means a trial of each.
        document["request"]["compare"].setdefault("restart", "each")
        return _adapter().validate_python(document["request"]), bool(document["rewrites"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None


def _typed(dataset: DatasetSpec, typed: str) -> str:
    """The data as --dataset takes them, with the whole path of their source."""
    if not dataset.source:
        return typed
    named = f",database={dataset.database}" if dataset.kind == "folder" and dataset.database else ""
    return f"{dataset.kind}:{dataset.source}{named}"


@cache
def _adapter() -> TypeAdapter[TuneRequest]:
    adapter = TypeAdapter(TuneRequest)
    # The options name their types where only a type checker reads them (`options/`).
    adapter.rebuild(_types_namespace={**vars(experiment), "Path": Path})
    return adapter
