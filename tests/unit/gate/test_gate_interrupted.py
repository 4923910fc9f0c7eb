"""An interrupted gate: what is known is kept and said, and it is no run of any history."""

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from pgassay.analysis.gate.judge_gate import Gated, gate_result
from pgassay.cli import main
from pgassay.model.gates.gate import GateResult
from pgassay.record.gates import load_gate, load_gates, write_gate
from pgassay.report import schema
from pgassay.report.gate import gate_page, junit
from simulated_gates import SIDE, Nights, workload_of

PLANNED = 12


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    workload = workload_of(tmp_path_factory.mktemp("gate"), statements=3)
    return Nights(workload, seed=3, statements=3, spread=0.01, blocks=20)


def interrupted(line: Nights, slower: dict[str, float]) -> GateResult:
    """A night of which the first workload of several was measured."""
    line.night(slower)
    assert line.last is not None
    stored = line.stored.pop()
    return gate_result(
        [Gated("simulated", line.last)],
        systems=(SIDE, SIDE),
        earlier=(),
        created_at=stored.created_at,
        file="gate.toml",
        folder=".",
        interrupted_of=PLANNED,
    )


def test_what_was_found_by_then_is_said_and_nothing_is_decided(line: Nights) -> None:
    found = interrupted(line, {"q01": -0.1})
    assert (found.outcome, found.exit_code) == ("interrupted", 130)
    # The threshold is that of the gate as planned: to stop early finds nothing more easily.
    assert found.rule.units == PLANNED
    first, *slow = found.verdict.splitlines()
    assert first == f"Interrupted: 4 units of {PLANNED} had been measured, and nothing is decided."
    assert [sentence for sentence in slow if sentence.startswith("simulated/q01 is ")]
    assert gate_page.page_of(found).markdown().startswith("**Interrupted**")
    document = json.loads(gate_page.page_of(found).json())
    jsonschema.validate(document, schema.GATE.schema(), cls=jsonschema.Draft202012Validator)


def test_where_all_was_well_so_far_junit_does_not_pass(line: Nights) -> None:
    found = interrupted(line, {})
    assert not [unit for unit in found.units if unit.finding == "slow-down"]
    suites = ElementTree.fromstring(junit.render(found))
    assert (suites.get("errors"), suites.get("tests")) == ("1", "5")
    (error,) = suites.iter("error")
    assert error.get("type") == "interrupted" and "4 units of 12" in str(error.get("message"))
    assert sum(int(suite.get("tests") or 0) for suite in suites) == 5


def test_it_counts_as_no_run(line: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, gate in (("a", line.night()), ("b", interrupted(line, {"q01": -0.1})), ("c", line.night())):
        (tmp_path / name).mkdir()
        write_gate(tmp_path / name, gate)
    assert load_gate(tmp_path / "b").outcome == "interrupted"
    assert [gate.outcome for gate in load_gates(tmp_path)] == ["none found", "none found"]
    assert main.main(["history", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in document["runs"]] == ["a", "c"]
    assert document["skipped"] == ["b was interrupted, so it is left out."]
