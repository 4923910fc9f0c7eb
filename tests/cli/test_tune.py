"""`pgassay tune` before anything is started: what is refused, and how; and what it stored, shown again."""

import json
from pathlib import Path

import pytest

import tune_samples as samples
import whole_experiments
from pgassay.cli.commands import tune
from pgassay.cli.main import parser
from pgassay.record.experiment import write_experiment
from pgassay.tune.stored_search import write_result
from whole_tool import assert_one_sentence, run_here

# More than a file's name may have.
LONG = 300 * "x"


@pytest.fixture
def statements(tmp_path: Path) -> Path:
    file = tmp_path / "slow.sql"
    file.write_text("SELECT 1;\n")
    return file


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "write --workload sql:FILE, or --demo"),
        (("/nowhere",), "there is no folder /nowhere: name the results of an earlier tune"),
        (("shop",), "such as dbname=shop"),
        (("/nowhere", "--set", "work_mem=1MB"), "--set cannot be used with a FOLDER"),
        (("{folder}",), "holds no results of pgassay: tune continues from"),
        (("{file}", "--dataset", "pgbench"), "is a file but not a diagnosis"),
        (("--workload", "sql:{file}", "--arm", "x"), "--arm needs the FOLDER of an experiment"),
        (("--demo", "--dataset", "pgbench"), "--dataset cannot be used with --demo"),
        (("--statements", "5", "--demo"), "--statements needs a running server, pgassay tune DSN"),
        (("dbname=shop", "--demo"), "--demo cannot be used with a DSN"),
        (("dbname=shop", "--workload", "sql:{file}"), "--workload cannot be used with a DSN"),
        (
            ("postgresql://localhost/shop", "--statements", "0"),
            "--statements: '0' is not a whole number of 1 or more",
        ),
        (("postgresql://localhost/shop", "--only", "login"), "--only 'login' is not a queryid of"),
        (("postgresql://localhost/shop", "--only", "7", "--statements", "2"), "leave --statements out"),
        (("--only", "7", "--demo"), "--only needs a running server, pgassay tune DSN"),
        (("host=/nowhere dbname=shop user=me",), "correct the connection string"),
        (("postgresql://me:s3cret@localhost:1/shop",), "correct the connection string"),
        (("postgresql://me:x@s3cret@localhost:1/shop",), "a %, @ or / within a value"),
        (("postgresql://me:12/s3cret@localhost:1/shop",), "DSN is not a connection string"),
        (("postgresql://me:s3cret/x@localhost:1/shop",), "DSN is not a connection string"),
        ((f"host=/nowhere dbname=shop user=me options='-c {LONG}=1'",), "correct the connection string"),
        ((LONG,), "File name too long: name another path"),
        (("--workload", "sql:{file}", "--dataset", f"dump:{LONG}"), "File name too long: name another path"),
        (("--workload", "sql:{file}", "--dataset", "dump:~nobody.is.there/x"), "there is no "),
        (("user=me host=/nowhere", "--out", "{file}"), "is a file: name a new folder"),
        (("user=me host=/nowhere", "--values", "/nowhere.sql"), "can't read the SQL file /nowhere.sql"),
        (("user=me host=/nowhere", "--values", "{file}"), "has no line '-- parameters: …' above it"),
        (("user=me host=/nowhere", "--log", "/nowhere.log"), "--log /nowhere.log can't be read"),
        (("--workload", "tpcb"), "write --workload sql:FILE"),
        (("--workload", "sql:/nowhere.sql"), "can't read the SQL file /nowhere.sql"),
        (("--workload", "sql:{file}", "--max-time", "5s"), "--max-time 5 s is too short"),
        (("--workload", "sql:{file}", "--dataset", "dump:/nowhere"), "there is no /nowhere"),
        (("--workload", "sql:{file}", "--set", "work_mem"), "write --set NAME=VALUE"),
        (("--workload", "sql:{file}", "--margin", "0.9"), "--margin: '0.9' is out of range"),
    ],
)
def test_what_cannot_be_tuned_is_one_sentence(
    words: tuple[str, ...], complaint: str, statements: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = [word.format(file=statements, folder=statements.parent) for word in words]
    said = assert_one_sentence(run_here(capsys, "tune", *typed), 2)
    assert complaint in said
    assert "s3cret" not in said


def test_a_server_is_dumped_unless_its_data_are_given() -> None:
    for words, dataset in (((), ""), (("--dataset", "pgbench"), "pgbench")):
        typed = parser().parse_args(["tune", "dbname=shop", *words])
        typed.words = []
        asked = tune.server_request_of(typed)
        assert (asked.connection_string, asked.request.compare.dataset) == ("dbname=shop", dataset)


def test_without_the_parser_it_says_what_to_install(
    statements: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "PARSER_LIBRARY", "a_library_that_is_not_there")
    said = assert_one_sentence(run_here(capsys, "tune", "--workload", f"sql:{statements}"), 2)
    assert said.endswith("type pip install a_library_that_is_not_there")


def test_results_that_are_there_already_are_not_overwritten(
    statements: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").write_text("")
    words = ("--workload", f"sql:{statements}", "--out", tmp_path / "out")
    assert "is not empty" in assert_one_sentence(run_here(capsys, "tune", *words), 2)


def test_the_exit_status_tells_an_end_before_its_time_and_nothing_of_the_answer() -> None:
    answer = samples.answer()
    assert answer.proof is not None
    failed = answer.model_copy(update={"proof": answer.proof.model_copy(update={"stopped": "failed"})})
    stopped = answer.model_copy(update={"interrupted": True})
    nothing = samples.answer(samples.judged(proved=None))
    assert [tune.status_of(each) for each in (answer, nothing, failed, stopped)] == [0, 0, 1, 130]


def test_a_stored_answer_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_result(tmp_path, samples.answer())
    finished = run_here(capsys, "report", tmp_path, "--json")
    assert finished.returncode == 0
    assert json.loads(finished.stdout) == json.loads((tmp_path / "tune.json").read_text())
    assert "From symptom to proof" in (tmp_path / "report.html").read_text()
    hidden = run_here(capsys, "report", tmp_path, "--markdown", "--redact")
    assert "Jane" not in hidden.stdout + (tmp_path / "report.html").read_text()
    assert "Jane" in (tmp_path / "apply.sql").read_text()
    (tmp_path / "tune.json").write_text("{}")
    assert "run tune again" in assert_one_sentence(run_here(capsys, "report", tmp_path), 2)


def test_an_experiment_is_gone_on_from_and_its_record_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "compared"
    planned = whole_experiments.planned("work_mem=4MB,64MB", seed=1, workload="full-scan")
    write_experiment(folder, planned)
    for words, complaint in (
        (("--cache", "cold"), "--cache cannot be used with"),
        (("--set", "jit=on"), "--set cannot be used with"),
        (("--storage", "loop"), "--storage cannot be used with"),
        (("--arm", "none"), "has no arm 'none': name one with --arm, of 'work_mem=4MB', 'work_mem=64MB'"),
    ):
        assert complaint in assert_one_sentence(run_here(capsys, "tune", folder, *words), 2)
    typed = parser().parse_args(["tune", str(folder), "--max-time", "5m", "--margin", "0.1"])
    typed.words = []
    request = tune.request_of(typed)
    assert request.start is not None and request.start.spec is not None
    assert (request.compare.max_time_s, request.compare.margin) == (300.0, 0.1)
    assert (request.compare.workload, request.compare.cache) == ("full-scan", "warm-pages")
