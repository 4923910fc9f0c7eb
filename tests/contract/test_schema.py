"""The JSON for scripts: its schema in the project is what the model gives, and documents obey it."""

import json
import math
import tempfile
from pathlib import Path

import jsonschema
import pytest

import report_examples as examples
from frozen import archive
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.result import SecondaryArmResult, SecondaryResult, TwinResult
from pgassay.report import schema
from pgassay.report.page import json_text


def test_the_schema_file_is_up_to_date() -> None:
    assert schema.COMPARE.file.read_text(encoding="utf-8") == schema.COMPARE.text(), (
        "run python -m pgassay.report.schema"
    )


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.COMPARE.schema())


def check(document: str) -> dict:
    """Parse a document strictly and validate it against the schema."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert document.endswith("}\n")
    value = json.loads(document, parse_constant=refuse)
    jsonschema.validate(value, schema.COMPARE.schema(), cls=jsonschema.Draft202012Validator)
    return value


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"blocks": 0, "stopped": "running"},
        {"failing": frozenset({2, 5}), "reason": examples.HOSTILE},
        {"blocks": 3, "strata": ["1", "8"], "levels": ["größe", examples.HOSTILE, "\x1b[2J"]},
    ],
)
def test_analysed_experiments_obey_the_schema(changes: dict) -> None:
    result = analyse(examples.stored(**changes))
    value = check(json_text(result))
    assert value["schema"] == 1
    assert [arm["name"] for arm in value["arms"]] == [arm.name for arm in result.arms]
    assert list(value)[:4] == ["schema", "folder", "workload", "metric"]


def test_numbers_that_are_not_finite_are_null() -> None:
    stored = examples.stored()
    arms = examples.result(stored).arms
    open_ended = arms[1].model_copy(update={"interval": (0.9, math.inf), "median": math.nan})
    secondary = SecondaryResult(
        name="server CPU", unit="s", arms=(SecondaryArmResult(**(dict(arms[1]) | {"verdict": "less"})),)
    )
    result = examples.result(
        stored,
        arms=(arms[0], open_ended),
        twin=TwinResult(ratio=1.0, interval=(0.0, math.inf), ok=None, evidence=math.inf),
        secondary=(secondary,),
    )
    value = check(json_text(result))
    assert value["arms"][1]["interval"] == [0.9, None]
    assert value["arms"][1]["median"] is None
    assert value["twin"] == {
        "ratio": 1.0,
        "interval": [0.0, None],
        "ok": None,
        "evidence": None,
        "stratum": "",
    }


def test_the_schema_refuses_a_wrong_word() -> None:
    value = check(json_text(examples.result(examples.stored())))
    value["arms"][0]["verdict"] = "better"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema.COMPARE.schema(), cls=jsonschema.Draft202012Validator)


def test_the_document_is_the_same_every_time_and_pure_ascii() -> None:
    stored = examples.stored(levels=["größe", "worker"])
    first = json_text(analyse(stored))
    assert first == json_text(analyse(stored))
    assert first.isascii()


def test_every_meaning_is_of_a_key_that_exists_and_stands_in_its_schema() -> None:
    described: dict[str, dict[str, str]] = {}
    for published in (*schema.PUBLISHED, *schema.STORED):
        whole = published.schema()
        for part in (whole, *whole.get("$defs", {}).values()):
            said = {key: value.get("description") for key, value in part.get("properties", {}).items()}
            described.setdefault(part.get("title", ""), {}).update(said)
    for model, meanings in schema.meanings_of_keys().items():
        assert described[model].items() >= meanings.items(), model


@pytest.mark.parametrize("published", (*schema.PUBLISHED, *schema.STORED), ids=lambda each: each.name)
def test_every_object_of_a_document_is_described(published: schema.Published) -> None:
    parts = (published.schema(), *published.schema().get("$defs", {}).values())
    assert not [part["title"] for part in parts if "properties" in part and not part.get("description")]


def test_stored_files_obey_their_schemas() -> None:
    for published in schema.STORED:
        assert published.file.read_text(encoding="utf-8") == published.text(), (
            "run python -m pgassay.report.schema"
        )
    experiment, trial = (jsonschema.Draft202012Validator(published.schema()) for published in schema.STORED)
    with tempfile.TemporaryDirectory() as folder:
        archive.unpack(Path(folder))
        plans = list(Path(folder).glob("*/experiment.json"))
        trials = list(Path(folder).glob("*/trials/*/*/trial.json"))
        assert len(plans) > 10 and len(trials) > 50
        for validator, files in ((experiment, plans), (trial, trials)):
            for file in files:
                validator.validate(json.loads(file.read_text("utf-8")))
