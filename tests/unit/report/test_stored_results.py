"""What tune, gate and probe left in their folders: listed, indexed, shown again, or told apart."""

import json
import re
from pathlib import Path

import pytest

from load_records import write_load
from pgassay.analysis.gate.detector import rule_of
from pgassay.cli.main import parser
from pgassay.errors import UsageError
from pgassay.model.gates.gate import GatedSystem, GateResult, GateWorkload
from pgassay.model.plans.executed_plan import WorkPlan, WorkPlans
from pgassay.record.gates import write_gate
from pgassay.report.tune import tune_page as tune_text
from tune_samples import answer

GATE_VERDICT = "No slow-down was found in 1 unit."


def main(words: list[str]) -> int:
    """One command without the entry point, which would take over this process's signals."""
    arguments = parser().parse_args(words)
    status: int = arguments.run(arguments)
    return status


def gate() -> GateResult:
    """A gate of one workload that came to its end."""
    workload = GateWorkload(
        name="w", workload="sql:w.sql", folder="w", margin=0.03, time_max_s=60, blocks=9, trials=27,
        seconds=60, stopped="max-time", promise="", baseline="a",
    )  # fmt: skip
    sides = [GatedSystem(kind="revision", name=name) for name in ("main", "HEAD")]
    return GateResult(
        schema=1, pgassay_version="0", created_at="2026-01-01T00:00:00+00:00", file="gate.toml", folder=".",
        baseline=sides[0], change=sides[1], rule=rule_of(2), outcome="none found", exit_code=0,
        verdict=GATE_VERDICT, units=(), workloads=(workload,),
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An experiment, and beside it a tune, one that was killed, a gate, and a probe that can't be read."""
    write_load(tmp_path / "one", strata=[""], blocks=2)
    for name in ("tuned", "killed", "gated", "probed"):
        (tmp_path / name).mkdir()
    (tmp_path / "tuned" / "tune.json").write_text(answer().model_dump_json(by_alias=True))
    (tmp_path / "tuned" / "search.json").write_text("{}")
    (tmp_path / "tuned" / "report.html").write_text("made by tune")
    (tmp_path / "killed" / "search.json").write_text("{}")
    write_gate(tmp_path / "gated", gate())
    (tmp_path / "probed" / "probe.json").write_text("{}")
    return tmp_path


def test_results_of_every_kind_are_listed(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", str(results)]) == 0
    printed = capsys.readouterr().out
    heads = {Path(line.split()[0]).name: line for line in printed.splitlines() if not line.startswith(" ")}
    assert set(heads) == {"one", "tuned", "killed", "gated", "probed"}
    assert "tune sql:slow.sql" in heads["tuned"] and "6 blocks" in heads["tuned"]
    assert answer().verdict.splitlines()[0] in printed
    assert "not ended" in heads["killed"] and "unreadable" in heads["probed"]
    assert "gate gate.toml: HEAD" in heads["gated"] and "no slow-down found" in heads["gated"]
    assert GATE_VERDICT in printed
    assert main(["list", str(results / "tuned")]) == 0
    assert "tune sql:slow.sql" in capsys.readouterr().out


def test_without_a_folder_gates_are_listed_too(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results)
    (results / "pgassay-gates").mkdir()
    (results / "gated").rename(results / "pgassay-gates" / "gated")
    assert main(["list"]) == 0
    assert "pgassay-gates/gated" in capsys.readouterr().out


def test_the_page_has_results_of_every_kind(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", str(results)]) == 0
    capsys.readouterr()
    page = (results / "index.html").read_text()
    assert "5 results" in page and GATE_VERDICT in page
    links = re.findall(r'href="(\./[^"]*)"', page)
    assert sorted(links) == ["./one/report.html", "./tuned/report.html"]
    assert (results / "tuned" / "report.html").read_text() == "made by tune"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tuned", r"'pgassay report .*tuned' shows; it needed no trial"),
        ("killed", r"ended early: run tune again"),
        ("gated", r"'pgassay report .*gated' shows; each folder in it is an experiment"),
        ("probed", r"whose page is .*probed/report\.html"),
        ("", r"name a folder that has an experiment\.json"),
    ],
)
def test_a_folder_of_another_kind_says_what_to_type(results: Path, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        main(["resume", str(results / name)])
    with pytest.raises(UsageError, match=words):
        main(["diff", str(results / "one"), str(results / name)])


def test_a_tune_with_a_proof_names_it(results: Path) -> None:
    write_load(results / "tuned" / "proof", strata=[""], blocks=2)
    with pytest.raises(UsageError, match=r"'pgassay tune .*tuned' continues; its trials are in .*proof"):
        main(["resume", str(results / "tuned")])


def test_explain_reads_the_plans_that_a_tunes_proof_kept(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = results / "tuned"
    with pytest.raises(UsageError, match="it has the result of a tune, which 'pgassay report"):
        main(["explain", str(folder)])
    stored = write_load(folder / "proof", strata=[""], blocks=2)
    with pytest.raises(UsageError, match="proof has no statement plans: name a file that has one"):
        main(["explain", str(folder)])
    name = next(arm.name for arm in stored.experiment.arms if arm.role == "control")
    estimated: dict[str, object] = {"Node Type": "Seq Scan", "Relation Name": "accounts", "Plan Rows": 9}
    document: dict[str, object] = {"Plan": {**estimated, "Actual Rows": 7, "Actual Loops": 1}}
    for trial in stored.trials:
        (trial.folder / "plans.json").write_text(json.dumps({"listed": {"Plan": estimated}}))
    assert main(["explain", str(folder)]) == 0
    # Wherever the folder's path makes the line wrap.
    listed = " ".join(capsys.readouterr().out.split())
    assert "has 2 plans" in listed and f"listed, {name}" in listed and "not executed" in listed
    # What was executed goes before what was estimated, and stands alone.
    for trial in stored.trials:
        work = WorkPlans(statements={"listed": WorkPlan(executed=True, document=document)})
        (trial.folder / "work_plans.json").write_text(work.model_dump_json())
    assert main(["explain", str(folder)]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert "has 2 plans" in listed and "not executed" not in listed
    assert main(["explain", str(folder), "--plan", "1", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    assert plan["nodes"][0]["rows"] == 7 and plan["statement"].startswith("listed, ")


def test_a_gate_is_shown_again(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(results / "gated")]) == 0
    printed = capsys.readouterr().out
    assert GATE_VERDICT in printed and str(results / "gated" / "w") in printed
    page = results / "page.html"
    assert main(["report", str(results / "gated"), "--html", str(page)]) == 0
    assert f"report: {page}" in capsys.readouterr().out
    assert GATE_VERDICT in page.read_text("utf-8")
    assert main(["report", str(results / "gated"), "--text"]) == 0
    printed = capsys.readouterr().out
    assert GATE_VERDICT in printed and printed.isascii()
    with pytest.raises(UsageError, match="neither plots nor literals"):
        main(["report", str(results / "gated"), "--png", str(results)])


def test_what_has_no_room_in_tunes_table_stands_below_it() -> None:
    wide = tune_text.page_of(answer()).terminal(width=120)
    narrow = tune_text.page_of(answer()).terminal(width=70)
    assert "1. index good: takes 2.500 s, on disk 7.81 MB, writes unchanged" in narrow
    assert "1. index good: takes" not in wide and "7.81 MB" in wide
    for words in ("recommended", "1.67 to 2.5", "unchanged"):
        assert words in wide and words in narrow
    table = narrow[narrow.index("What helps") : narrow.index("apply.sql")]
    assert all(len(line) <= 70 for line in table.splitlines())


@pytest.mark.parametrize("width", [70, 80, 90, 100, 110, 120, 160])
def test_tunes_table_breaks_no_name_within_a_word_and_no_figure(width: int) -> None:
    title = "index on public.order_items (customer_reference, created_at) including quantity"
    found = answer()
    fixes = tuple(fix.model_copy(update={"title": title}) for fix in found.fixes)
    shown = tune_text.page_of(found.model_copy(update={"fixes": fixes})).terminal(width=width)
    section = shown[shown.index("What helps") : shown.index("apply.sql")]
    table = [line.split() for line in section[: section.index("\n\n", 20)].splitlines()]
    words = {word for line in table for word in line}
    assert {*title.split(), "recommended", "1.67"} <= words
    assert all(len(line) <= width for line in section.splitlines())
    # A column is there whole, with its figures, or told below.
    for heading, figure in (("takes", "2.500 s"), ("writes", "unchanged")):
        assert (heading in words) is (f"{heading} {figure}" not in " ".join(section.split()))
        assert figure in section
