"""A gate's result as text, Markdown, JSON and JUnit XML; gate.json in its folder."""

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from pgassay.errors import UsageError
from pgassay.model.gates.gate import GatedSystem, GateResult, GateUnit
from pgassay.record.gates import load_gate, load_gates, write_gate
from pgassay.record.layout import GATE_FILE
from pgassay.report import schema
from pgassay.report.gate import gate_page, junit
from simulated_gates import Nights, workload_of

HOSTILE = "q|<script>&\x1b[2J\x00 `@user` ## ü"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> GateResult:
    """A night with a slow-down, one unit in doubt, and a name that nobody should trust."""
    workload = workload_of(tmp_path_factory.mktemp("gate"), statements=4)
    found = Nights(workload, seed=3, statements=4, spread=0.01, blocks=20).night({"q02": -0.06})
    doubted = {"finding": "undecided", "note": "the effect moved", "statement": HOSTILE, "interval": None}
    units = (*found.units[:-1], found.units[-1].model_copy(update=doubted))
    side = GatedSystem(kind="revision", name="v1", revision="0123456789abcdef+", versions=("18.6 (apt)",))
    return found.model_copy(update={"units": units, "baseline": side})


def rendered(result: GateResult) -> str:
    return gate_page.page_of(result).terminal(width=120)


def test_what_must_be_seen_stands_first(result: GateResult) -> None:
    shown = rendered(result)
    assert shown.splitlines()[0].startswith("simulated/q02 is 5.")
    names = [line.split()[0] for line in shown.splitlines() if line.strip().startswith("simulated")]
    assert names[1] == "simulated/q02"
    assert "v1 at 0123456789ab+ on PostgreSQL 18.6 (apt)" in shown
    assert "\x1b" not in shown
    assert "at most 2 false alarms in expectation" in " ".join(shown.split())


def test_markdown_folds_what_is_as_it_was(result: GateResult) -> None:
    shown = gate_page.page_of(result).markdown()
    assert shown.startswith("**Slow-down of 1 unit**")
    opened, folded = shown.split("<details>")
    assert "simulated/q02" in opened
    assert "simulated/q01" in folded
    assert "<script>" not in shown
    assert "@user" not in shown


def test_junit_has_a_case_for_each_unit(result: GateResult) -> None:
    root = ElementTree.fromstring(junit.render(result))
    (suite,) = root.findall("testsuite")
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "1")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "1")
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    assert len(cases) == 5
    assert cases["q02"].find("failure").get("message").startswith("simulated/q02 is 5.")
    assert cases["(whole workload)"].find("failure") is None
    assert [name for name, case in cases.items() if case.find("error") is not None] == [
        "q|<script>&?[2J? `@user` ## ü"
    ]


def test_the_json_document_obeys_its_schema(result: GateResult) -> None:
    document = json.loads(gate_page.page_of(result).json())
    jsonschema.validate(document, schema.GATE.schema(), cls=jsonschema.Draft202012Validator)
    assert document["schema"] == 1
    assert document["exit_code"] == 1
    document["units"][0]["finding"] = "slow"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema.GATE.schema(), cls=jsonschema.Draft202012Validator)


def test_the_schemas_are_up_to_date() -> None:
    assert schema.GATE.file.read_text("utf-8") == schema.GATE.text()
    assert schema.HISTORY.file.read_text("utf-8") == schema.HISTORY.text()


def test_a_gate_is_read_as_it_was_written(result: GateResult, tmp_path: Path) -> None:
    for name, moment in (("b", "2026-02-01"), ("a", "2026-03-01")):
        (tmp_path / name).mkdir()
        write_gate(tmp_path / name, result.model_copy(update={"created_at": moment}))
    assert load_gate(tmp_path / "a") == result.model_copy(update={"created_at": "2026-03-01"})
    assert [gate.created_at for gate in load_gates(tmp_path)] == ["2026-02-01", "2026-03-01"]
    assert load_gates(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "was not written by pgassay"),
        ('{"format": 9}', "newer pgassay"),
        ('{"format": 1}', "is damaged"),
    ],
)
def test_a_file_that_is_no_gate_is_told_so(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / GATE_FILE).write_text(content)
    with pytest.raises(UsageError, match=complaint):
        load_gate(tmp_path)


def test_a_unit_without_a_block_has_its_row(result: GateResult) -> None:
    empty = GateUnit(
        workload="w", statement="", unit="tps", better="higher", margin=0.03, ratio=None, interval=None,
        finding="undecided", blocks=0, note="no block is complete",
    )  # fmt: skip
    alone = result.model_copy(update={"units": (empty,), "outcome": "undecided"})
    assert "undecided" in rendered(alone)
    counted = empty.model_copy(update={"starts": True, "blocks": 6})
    assert "6 starts" in rendered(alone.model_copy(update={"units": (counted,)}))
    assert gate_page.headline(alone) == "Undecided"
    assert b"no block is complete" in junit.render(replace_workload(alone))


def replace_workload(result: GateResult) -> GateResult:
    own = result.workloads[0].model_copy(update={"name": "w", "seconds": float("inf")})
    return result.model_copy(update={"workloads": (own,)})


def test_a_gate_in_which_nothing_differs_says_so(result: GateResult) -> None:
    changes = {"units": (), "workloads": (), "outcome": "none found", "verdict": "Nothing differs."}
    nothing = result.model_copy(update=changes)
    assert rendered(nothing).startswith("Nothing differs.")
    assert gate_page.page_of(nothing).markdown().startswith("**No slow-down found**")
    assert ElementTree.fromstring(junit.render(nothing)).get("tests") == "0"
