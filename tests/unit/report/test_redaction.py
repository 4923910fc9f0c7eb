"""What `--redact` leaves out: every literal of statements, plans and preparation, in every output."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
import report_examples
from pgassay.analysis.redaction.redacted_experiment import redacted_result
from pgassay.analysis.redaction.redacted_sentences import sentence_without_literals
from pgassay.cli.outcome import analysed
from pgassay.model.experiment import Experiment
from pgassay.model.plans.executed_plan import WorkPlan
from pgassay.model.plans.explained_plan import ExplainResult
from pgassay.plans.explain_plan import read_plans
from pgassay.progress import WithoutLiterals
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of
from pgassay.report.explain import explain_page
from pgassay.report.page import json_text
from pgassay.terminal.progress import PlainProgress
from whole_tool import run_here

# As values they are in no name, file, figure or sentence.
SECRETS = ("Miller", "4711001", "2031-07-09", "hidden$$money", "0815.99")
SQL = (
    "SELECT count(*) /* of Miller */ FROM customers "
    "WHERE name = 'Miller' AND id = 4711001 AND born < DATE '2031-07-09'"
)
CONDITION = "((customers.name = 'Miller'::text) AND (customers.id = 4711001) AND (born < '2031-07-09'::date))"


def executed(condition: str) -> dict[str, Any]:
    figures = {"Actual Startup Time": 1.0, "Actual Total Time": 50.0, "Actual Rows": 100, "Actual Loops": 1}
    scan = {
        "Node Type": "Seq Scan", "Relation Name": "customers", "Alias": "customers", "Plan Rows": 100000,
        "Filter": condition, "Rows Removed by Filter": 900000, "Output": ["name", "('Miller'::text)"],
        "An Extension's": "E'hidden$$money'",
    }  # fmt: skip
    top = {"Node Type": "Sort", "Sort Key": ["(name || 'Miller'::text)"], "Sort Method": "external merge"}
    top |= {"Sort Space Used": 2048, "Sort Space Type": "Disk", "Plan Rows": 1000, "Plans": [scan | figures]}
    return {"Plan": top | figures, "Planning Time": 0.1, "Execution Time": 51.0, "Query Text": SQL}


def with_secrets() -> StoredExperiment:
    """An experiment whose arms differ in an index's condition, with secrets wherever SQL or errors stand."""
    made = report_examples.stored(
        levels=["none", "some"], blocks=8, failing=frozenset({2}),
        reason="statement q can't be run (invalid input syntax for type integer: \"Miller\"): correct it",
    )  # fmt: skip
    document = made.experiment.model_dump(mode="json", by_alias=True)
    levels = {"none": "CREATE INDEX ON customers (id) WHERE sum > 4711001"}
    levels["some"] = levels["none"].replace("4711001", "0815.99")
    document["command"] = ["pgassay", "compare", f"prepare={','.join(levels.values())}", "--prepare", SQL]
    for arm in document["arms"]:
        (level,) = arm["levels"].values()
        arm["levels"] = {"prepare": levels[level]}
        arm["name"] = f"prepare={levels[level]}"
        arm["spec"]["prepare"] = [levels[level]]
        for statement in arm["spec"]["workload"]["statements"]:
            statement["sql"] = SQL
    document["title"] = f"prepare={levels['none']} on full-scan"
    document["warnings"] = [f"'{SQL}' reads a table of its own"]
    experiment = Experiment.model_validate(document)
    trials = []
    for number, trial in enumerate(made.trials):
        work = {}
        if number < 3:
            plan = executed(CONDITION)
            work = {
                "count_accounts": WorkPlan(executed=True, seconds=0.06, cache="as-left", document=plan),
                "count_filler": WorkPlan(executed=False, reason='the server refused it: no "Miller" here'),
            }
        plans = {"count_accounts": [executed(CONDITION)], "count_filler": [executed(CONDITION)]}
        trials.append(replace(trial, plans=plans, work_plans=work))
    return replace(made, experiment=experiment, trials=tuple(trials))


def outputs(stored: StoredExperiment, *, redact: bool) -> dict[str, str]:
    shown, result = analysed(stored, redact=redact)
    return {
        "terminal": page_of(result, shown).terminal(width=100),
        "markdown": page_of(result, shown).markdown(),
        "page": page_of(result, shown).html(),
        "json": json_text(result),
    }


def test_no_literal_is_left_in_any_output_and_names_and_figures_are() -> None:
    stored = with_secrets()
    open_ones, hidden = outputs(stored, redact=False), outputs(stored, redact=True)
    for secret in SECRETS[:3]:
        assert secret in open_ones["page"], "the test shows it otherwise"
    for name, shown in hidden.items():
        joined = shown.replace("\n", "").replace(" ", "")
        for secret in SECRETS:
            assert secret not in shown and secret not in joined, (name, secret)
    for name in ("terminal", "markdown", "page"):
        assert "customers" in hidden[name]
    before, after = json.loads(open_ones["json"]), json.loads(hidden["json"])
    for key in ("ratio", "interval", "verdict", "median", "values", "levels"):
        if key != "levels":
            assert [arm[key] for arm in before["arms"]] == [arm[key] for arm in after["arms"]]
    names = [arm["name"] for arm in after["arms"]]
    assert len(set(names)) == len(names), "arms that differed in a literal alone are still apart"
    assert [each["execution_ms"] for each in before["plans"]] == [
        each["execution_ms"] for each in after["plans"]
    ]
    assert before["failures"] == after["failures"]


def shown_of(source: str, *, redact: bool) -> list[str]:
    result = ExplainResult(plans=tuple(read_plans(source, "x", redact=redact)))
    return [
        explain_page.page_of(result).terminal(width=300),
        explain_page.page_of(result).markdown(),
        explain_page.page_of(result).html(),
        explain_page.page_of(result).json(),
        explain_page.list_page(result, "x").terminal(width=300),
    ]


TEXT = f"""Sort  (cost=1.00..2.00 rows=1000 width=8) (actual time=1.000..50.000 rows=100.00 loops=1)
  Sort Key: (name || 'Miller'::text)
  Sort Method: external merge  Disk: 2048kB
  ->  Seq Scan on customers  (cost=0.00..1.00 rows=100000 width=8) (actual time=1.0..50.0 rows=100 loops=1)
        Filter: {CONDITION}
        Rows Removed by Filter: 900000
Planning Time: 0.100 ms
Execution Time: 51.000 ms
"""
LOG = (
    "2026-11-21 10:00:00.123 UTC [4712] me@shop LOG:  duration: 51.000 ms  plan:\n"
    "\tQuery Text: {}\n\tQuery Parameters: $1 = 'Miller', $2 = '4711001'\n\t{}"
)


def test_explain_shows_none_whichever_form_a_plan_has() -> None:
    forms = {
        "json": json.dumps([executed(CONDITION)]),
        "text": TEXT,
        "log": LOG.format(SQL, TEXT.replace("\n", "\n\t")),
    }
    for form, source in forms.items():
        assert any("Miller" in shown for shown in shown_of(source, redact=False)), form
        for shown in shown_of(source, redact=True):
            assert not [secret for secret in SECRETS if secret in shown], (form, shown)
            if "plans. --plan 1" not in shown:
                assert "customers" in shown and "external merge" in shown
    same = [read_plans(forms[form], "x", redact=True)[0].nodes for form in ("text", "log")]
    assert [node.conditions for node in same[0]] == [node.conditions for node in same[1]]
    filtered = same[0][1]
    assert (
        filtered.conditions["Filter"]
        == "((customers.name = ?::text) AND (customers.id = ?) AND (born < ?::date))"
    )
    assert filtered.rows_removed == 900000


LITERALS = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=10).map(
        lambda value: "'§" + value.replace("'", "''").replace("\\", "") + "§'::text"
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=10).map(
        lambda value: "E'§" + value.replace("\\", "\\\\").replace("'", "''") + "§'::text"
    ),
)


@given(st.lists(LITERALS, min_size=1, max_size=4))
def test_no_literal_of_a_generated_condition_survives(found: list[str]) -> None:
    condition = " AND ".join(f"(t.a{number} = {literal})" for number, literal in enumerate(found))
    document = executed(f"({condition})")
    (plan,) = read_plans(json.dumps([document]), "x", redact=True)
    shown = explain_page.page_of(ExplainResult(plans=(plan,))).json()
    assert "§" not in shown
    assert all(f"t.a{number} = ?::text" in shown for number in range(len(found)))


def test_an_arm_without_a_fix_is_shown_without_the_literals_of_its_index() -> None:
    stored = with_secrets()
    document = stored.experiment.model_dump(mode="json", by_alias=True)
    for number, arm in enumerate(document["arms"]):
        left_out = f"without index:customers(id) where (name = 'Miller') AND (id = {4711001 + number})"
        arm["levels"], arm["name"] = {"fixes": left_out}, f"fixes={left_out}"
    stored = replace(stored, experiment=Experiment.model_validate(document))
    for shown in outputs(stored, redact=True).values():
        assert "Miller" not in shown and "4711001" not in shown and "4711002" not in shown
    _, result = analysed(stored, redact=False)
    shown_lines = io.StringIO()
    progress = WithoutLiterals(PlainProgress(shown_lines), sentence_without_literals, redacted_result)
    progress.estimate(result, None)
    assert "without index:customers(id)" in shown_lines.getvalue()
    assert "Miller" not in shown_lines.getvalue()


def test_the_command_line_has_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.txt"
    file.write_text(TEXT)
    finished = run_here(capsys, "explain", file, "--redact")
    assert finished.returncode == 0 and "Miller" not in finished.stdout and "customers" in finished.stdout
    assert "Miller" in run_here(capsys, "explain", file).stdout


def test_a_stored_experiment_is_shown_without_literals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = replay.recorded(tmp_path / "results", blocks=2)
    file = folder / "experiment.json"
    document = json.loads(file.read_bytes())
    for arm in document["arms"]:
        for statement in arm["spec"]["workload"]["statements"]:
            statement["sql"] = SQL
    file.write_text(json.dumps(document))
    assert "Miller" in run_here(capsys, "report", folder, "--markdown").stdout + page_in(folder)
    finished = run_here(capsys, "report", folder, "--redact", "--json")
    assert finished.returncode == 0, finished.stderr
    assert "Miller" not in finished.stdout + page_in(folder)
    assert "customers" in page_in(folder)
    assert "Miller" in file.read_text(), "what was recorded stays"


def page_in(folder: Path) -> str:
    return (folder / "report.html").read_text("utf-8")
