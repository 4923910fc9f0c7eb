"""The page and the schema of `pgassay diagnose` say what is there."""

import argparse
import re
from pathlib import Path

from pgassay.cli import main
from pgassay.report import schema

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "diagnose.md").read_text("utf-8")
_SPAN = re.compile(r"`([^`\n]+)`")


def test_every_option_has_a_row_and_no_row_is_invented() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    documented = {name for line in lines for name in _SPAN.findall(line.split(" | ")[0])}
    actions = main.parser()._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices
    known = {name for each in commands["diagnose"]._actions for name in each.option_strings}
    assert {name for name in documented if name.startswith("--")} == known - {"-h", "--help"}


def test_the_schema_is_up_to_date() -> None:
    assert schema.DIAGNOSIS.file.read_text("utf-8") == schema.DIAGNOSIS.text(), (
        "run python -m pgassay.report.schema"
    )
