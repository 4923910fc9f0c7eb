"""The page and the schema of `pgassay watch` say what is there."""

import argparse
import json
import re
from pathlib import Path

import jsonschema
import pytest

from pgassay.cli import main
from pgassay.report import schema
from pgassay.report.page import json_text
from pgassay.watch.reading.waiting_statements import QUERY_CHARACTERS_MAX, STATEMENTS_MAX
from watch_samples import HOSTILE, experiment, sample, server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "watch.md").read_text("utf-8")
_SPAN = re.compile(r"`([^`\n]+)`")


def test_every_option_has_a_row_and_no_row_is_invented() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `--")]
    documented = {name for line in lines for name in _SPAN.findall(line.split(" | ")[0])}
    actions = main.parser()._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices
    known = {name for each in commands["watch"]._actions for name in each.option_strings}
    assert documented == known - {"-h", "--help"}


def test_the_documented_bounds_are_those_of_the_code() -> None:
    said = schema.meanings_of_keys()["ServerSample"]["statements"]
    assert f"at most {QUERY_CHARACTERS_MAX} characters" in said
    assert said.endswith(f"at most {STATEMENTS_MAX}")


def test_the_schema_is_up_to_date_and_obeyed() -> None:
    assert schema.WATCH.file.read_text("utf-8") == schema.WATCH.text(), "run python -m pgassay.report.schema"
    jsonschema.Draft202012Validator.check_schema(schema.WATCH.schema())
    open_ended = experiment().estimates[0].model_copy(update={"interval": (0.9, float("inf"))})
    bare = server(connections=None, waits=None, threads=None, throughput=None, aios=None, statements=None)
    for made in (
        sample(),
        sample(server=bare, device=None, host=None, missing=(HOSTILE,)),
        sample(server=None, experiment=experiment(estimates=(open_ended,), trial=None, title=HOSTILE)),
    ):
        line = json_text(made, is_line=True)
        assert line.count("\n") == 1
        assert line.isascii()
        document = json.loads(line)
        jsonschema.validate(document, schema.WATCH.schema(), cls=jsonschema.Draft202012Validator)
    document["server"] = {"name": 1}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema.WATCH.schema(), cls=jsonschema.Draft202012Validator)
