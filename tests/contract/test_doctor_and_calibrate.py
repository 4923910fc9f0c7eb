"""The pages and documents of `pgassay doctor` and `pgassay calibrate` say what is there."""

import argparse
import json
import re
from pathlib import Path

import jsonschema
import pytest

import analysis_samples as samples
from pgassay.analysis.calibration.calibrate import calibrate
from pgassay.cli import main
from pgassay.environment.doctor import registry
from pgassay.model.calibration import LedgerResult
from pgassay.model.machines.doctor import DoctorReport, Finding
from pgassay.options.table import options_for
from pgassay.report import calibration, schema

DOCS = Path(__file__).resolve().parents[2] / "docs"
_SPAN = re.compile(r"`([^`\n]+)`")


def rows(page: str) -> set[str]:
    """Every name in code in the first cell of a table of the page."""
    lines = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("| ")]
    return {name for line in lines for name in _SPAN.findall(line.split(" | ")[0])}


def options_of(command: str) -> set[str]:
    actions = main.parser()._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices
    return {name for each in commands[command]._actions for name in each.option_strings} - {"-h", "--help"}


def test_every_option_has_a_row_and_no_row_is_invented() -> None:
    assert {name for name in rows("doctor.md") if name.startswith("--")} == options_of("doctor")
    shared = {option.flag for option in options_for("calibrate")}
    documented = {name for name in rows("calibrate.md") if name.startswith("--")}
    assert documented == options_of("calibrate") - shared


@pytest.mark.server
@pytest.mark.shares_machine
def test_every_finding_has_a_row_and_is_what_the_machine_answers() -> None:
    report = registry.examine(0.2)
    names = [finding.name for finding in report.findings]
    assert len(names) == len(set(names))
    assert set(names) <= rows("doctor.md")
    # Where the system does not tell steal or turbo, their findings say so.
    assert rows("doctor.md") - set(names) <= options_of("doctor")
    assert all(finding.remedy for finding in report.findings if finding.status != "ok")
    words = set(_SPAN.findall((DOCS / "doctor.md").read_text("utf-8")))
    assert {*Finding.model_fields, "findings", "seconds", "hostname", "pgassay_version"} <= words
    assert set(DoctorReport.model_fields) == {
        "schema_", "pgassay_version", "hostname", "seconds", "findings",
    }  # fmt: skip


def test_the_calibrations_schema_is_up_to_date_and_obeyed() -> None:
    assert schema.CALIBRATION.file.read_text("utf-8") == schema.CALIBRATION.text(), (
        "run python -m pgassay.report.schema"
    )
    plan = samples.experiment(seed=1)
    for blocks in (0, 1, 12):
        records = [
            record.model_copy(update={"started_at": f"2026-01-01T00:{record.number:02d}:00+00:00"})
            for record in samples.simulate(plan, blocks)
        ]
        ledger = LedgerResult(experiments=1, evidence=float("inf"), alarm=True) if blocks else None
        result = calibrate(samples.stored(plan, records), ledger)
        document = json.loads(calibration.page_of(result).json())
        jsonschema.validate(document, schema.CALIBRATION.schema(), cls=jsonschema.Draft202012Validator)
        assert calibration.page_of(result).terminal(unicode=False).isascii()
