"""The whole of tune on a real server: a missing index is found, proven, applied and taken back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool
from pgassay.analysis.verdicts.blocks import statement_measures
from pgassay.environment.datasets import snapshots
from pgassay.environment.server.enclosure import is_enclosing
from pgassay.errors import UsageError
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import NullProgress
from pgassay.record.experiment import load
from pgassay.tune.candidate import Candidate, StatementRewrite, Symptom
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.read import read_facts
from pgassay.tune.finders.registry import find
from pgassay.tune.run_tune import TOOLS, run_tune
from pgassay.tune.running.resume import resume_tune
from pgassay.tune.tools import TuneTools
from pgassay.tune.tune_plan import TuneRequest, plan_tune
from pgassay.tune.tuned_statements import measured
from server_helpers import run_script
from tuned_orders import SLOW, data_of_its_own, index, kept_data, request

pytestmark = pytest.mark.server

PLANTED = """
CREATE TABLE orders AS SELECT n AS id FROM generate_series(1, 100) n;
CREATE FUNCTION reaching() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN COPY (SELECT 1) TO PROGRAM 'touch {reached}'; RETURN 1; END $$;
DO $$ BEGIN PERFORM reaching(); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END $$;
"""
MAKING = """
CREATE TABLE orders AS SELECT n AS id FROM generate_series(1, 100) n;
CREATE FUNCTION making() RETURNS int LANGUAGE plpgsql AS $$
BEGIN EXECUTE $x$CREATE FUNCTION made() RETURNS int LANGUAGE sql AS 'SELECT 1'$x$; RETURN 1; END $$;
"""
Finder = Callable[[Symptom], tuple[Candidate, ...]]


def tuned(folder: Path, finder: Finder, **changes: object) -> TuneResult:
    return run_tune(
        request(folder, **changes),  # type: ignore[arg-type]  # by name
        TuneTools(read_facts, finder),
        NullProgress(),
        wait=True,
        isolates=False,
    )


@pytest.mark.shares_machine
def test_a_missing_index_is_found_proven_applied_and_taken_back(tmp_path: Path) -> None:
    own_data = data_of_its_own(tmp_path)
    asked = []

    def finders(symptom: Symptom) -> tuple[Candidate, ...]:
        """The project's own but for settings, with one that the planner does not use and one that fails.

        On top of the index `random_page_cost` gains next to nothing, and may be proven or not.
        """
        asked.append(symptom)
        unused = index("unused", "CREATE INDEX unused ON orders (id) WHERE note IS NULL")
        own = (each for each in find(symptom) if not each.settings)
        return (*own, unused, index("wrong", "CREATE INDEX wrong ON orders (nothing)"))

    result = tuned(tmp_path, finders, data=own_data)
    verdicts = {fix.id: fix.verdict for fix in result.fixes}
    best = result.fixes[0]
    assert (best.verdict, best.evidence, best.rank) == ("recommended", "proof", 1)
    assert "(customer" in best.sql
    assert (verdicts["index:unused"], verdicts["index:wrong"]) == ("screened out", "screened out")
    assert best.gain is not None and best.interval is not None and best.interval[0] is not None
    assert best.gain > best.interval[0] > 1
    assert best.same_results == "equal on 1 instance"
    assert best.cost.bytes is not None and best.cost.bytes > 0
    assert (asked[0].share, asked[0].has_physical_state) == ({"slow": 1.0}, True)
    # The facts are those of the data, not of what measuring them has read since.
    (orders,) = (table for table in asked[0].facts.tables if table.name == "orders")
    assert (orders.sequential_scans or 0) <= 2
    assert not result.nothing_to_do
    # What was stored is what was said, and the prediction is older than the first trial.
    stored = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert stored == json.loads(result.model_dump_json(by_alias=True))
    search = tmp_path / "out" / "search.json"
    first_trial = min((tmp_path / "out" / "proof" / "trials").glob("*/attempt-*/trial.json"))
    assert json.loads(search.read_text())["predicted"] == {best.id: best.predicted_gain}
    assert search.stat().st_mtime < first_trial.stat().st_mtime
    check_executions(tmp_path / "out")
    assert kept_data(tmp_path) == [], "nothing was there before, so nothing is left"
    apply_and_undo(tmp_path, result, own_data)
    assert kept_data(tmp_path) == []


def check_executions(folder: Path) -> None:
    """All arms take turns in each start of the server, equally often, and the median of the rounds counts."""
    stored = load(folder / "proof")
    assert stored.experiment.contract.unit == "start"
    measures = statement_measures(stored.experiment)
    rounds: dict[int, set[int]] = {}
    for trial in stored.trials:
        (statement,) = trial.record.statements
        assert len(statement.rounds_s) > 1
        rounds.setdefault(trial.record.block, set()).add(len(statement.rounds_s))
        assert measures[0].value(trial.record) == statement.elapsed_s
        assert min(statement.rounds_s) <= statement.elapsed_s <= max(statement.rounds_s)
    assert len(rounds) >= 3 and all(len(counts) == 1 for counts in rounds.values())


def reached(copy: TrialCopy) -> dict[str, object]:
    """How psql reaches the copy's server."""
    info = copy.session.info
    return {"host": info.host, "port": info.port, "user": info.user, "dbname": info.dbname}


def apply_and_undo(folder: Path, result: TuneResult, data: str) -> None:
    """Both scripts, as they are, on a copy: the index is there, valid and used, and gone again."""
    compare = request(folder, data=data).compare
    planned = plan_tune(TuneRequest(compare), lambda *_: None).with_data_format()
    with TrialCopy(planned.spec, cache="as-is", statement_timeout_s=60, on_stage=lambda *_: None) as copy:
        assert kept_data(folder) == [copy.snapshot.key]

        def indexes() -> list[tuple[object, ...]]:
            query = "SELECT indisvalid FROM pg_index WHERE indrelid = 'orders'::regclass"
            return copy.session.execute(query).fetchall()

        before = copy.session.execute(SLOW.encode()).fetchall()
        run_script(copy.spec.build, result.apply_sql, reached(copy))
        assert indexes() == [(True,)]
        plan = copy.estimate(SLOW, "slow")
        assert any(node.index for node in plan.nodes)
        assert copy.session.execute(SLOW.encode()).fetchall() == before
        run_script(copy.spec.build, result.undo_sql, reached(copy))
        assert indexes() == []
    snapshots.remove(copy.snapshot.key)


@pytest.mark.shares_machine
def test_nothing_to_do_is_an_answer_and_needs_no_proof(tmp_path: Path) -> None:
    result = tuned(tmp_path, lambda _symptom: (), statements="SELECT count(*) FROM orders;\n")
    assert (result.nothing_to_do, result.fixes, result.proof) == (True, (), None)
    assert result.verdict.startswith("Nothing to do: ")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["tune.json"]


@pytest.mark.shares_machine
def test_a_statement_that_fails_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"statement slow fails .*nothing.* does not exist"):
        tuned(tmp_path, lambda _symptom: (), statements="-- name: slow\nSELECT nothing FROM orders;\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.shares_machine
def test_what_the_data_would_do_outside_of_the_copy_is_refused(
    tmp_path: Path, require: Callable[[str], None]
) -> None:
    """The script that makes the data tries it while they are loaded, and a function when it is called."""
    require("enclosure")
    asked = request(tmp_path, "-- name: slow\nSELECT reaching() FROM orders WHERE id = 1;\n")
    reached = Path("/tmp") / f"pgassay-reached-{tmp_path.parent.name}-{tmp_path.name}"
    (tmp_path / "data.sql").write_text(PLANTED.format(reached=reached))
    with pytest.raises(UsageError, match=r"statement slow fails .*sees no file, program or server"):
        run_tune(asked, TuneTools(read_facts, lambda _symptom: ()), NullProgress(), wait=True, isolates=False)
    assert not reached.exists() and not is_enclosing()


@pytest.mark.shares_machine
def test_what_a_query_calls_changes_nothing_on_the_copy(tmp_path: Path) -> None:
    asked = request(tmp_path, "-- name: slow\nSELECT making() FROM orders WHERE id = 1;\n")
    (tmp_path / "data.sql").write_text(MAKING)
    planned = plan_tune(asked, lambda *_: None).with_data_format()
    (statement,) = measured(planned.statements)
    with TrialCopy(
        planned.spec, cache="warm-buffers", statement_timeout_s=60, on_stage=lambda *_: None
    ) as copy:
        with pytest.raises(UsageError, match="CREATE FUNCTION in a read-only transaction"):
            copy.seconds(statement, statement.sql)
        assert copy.session.execute("SELECT to_regproc('made')").fetchone() == (None,)
    snapshots.remove(copy.snapshot.key)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fixes_of_several_layers_are_proven_together_and_one_that_is_not_needed_is_told(
    tmp_path: Path,
) -> None:
    often = SLOW.replace("slow\n", "slow\n-- weight: 40\n")
    statements = (
        f"{often}-- name: sorted\nSELECT note, id FROM orders ORDER BY note, id DESC OFFSET 149990;\n"
    )

    def finders(_symptom: Symptom) -> tuple[Candidate, ...]:
        other = StatementRewrite(
            statement="sorted", sql="SELECT note, id FROM orders ORDER BY note DESC, id LIMIT 10",
            condition="made up", proof="proven",
        )  # fmt: skip
        return (
            index("by_customer", "CREATE INDEX by_customer ON orders (customer)"),
            index("by_customer_id", "CREATE INDEX by_customer_id ON orders (customer, id)"),
            index("rewritten", sql=(), undo=(), statements=("sorted",), rewrites=(other,)),
            index(
                "memory", sql=(), undo=(), statements=("sorted",), layer="infrastructure",
                settings={"work_mem": "64MB"},
            ),
            index("analysed", "ANALYZE orders", undo=(), undoable=False, layer="operations"),
        )  # fmt: skip

    result = tuned(tmp_path, finders, statements=statements, max_time_s=540)
    verdicts = {fix.id: (fix.verdict, fix.evidence) for fix in result.fixes}
    assert verdicts["index:rewritten"] == ("recommended", "proof")
    # Of two indexes that do the same, one at most is chosen.
    assert result.proof is not None
    assert len({"index:by_customer", "index:by_customer_id"} & set(result.proof.members)) == 1
    assert verdicts["index:analysed"][0] != "recommended"
    assert set(result.proof.members) >= {"index:rewritten"}
    assert "Replace the statement sorted" in result.apply_sql


@pytest.mark.slow
def test_a_proof_without_a_verdict_goes_on_and_the_answer_follows(tmp_path: Path) -> None:
    def finders(_symptom: Symptom) -> tuple[Candidate, ...]:
        return (index("by_customer", "CREATE INDEX by_customer ON orders (customer)"),)

    waits = "-- name: waits\n-- weight: 0.001\nSELECT pg_sleep(1.2);\n"
    first = tuned(tmp_path, finders, statements=SLOW + waits, max_time_s=20)
    assert first.fixes[0].predicted_gain is not None
    # A proof that can't end in the time that is left is not begun.
    assert any(words.startswith("the proof was not started: it takes about ") for words in first.warnings)
    assert first.go_on.startswith(f"pgassay tune {tmp_path / 'out'} --max-time ")
    assert f"Continue with {first.go_on}." in first.verdict
    assert first.proof is None and first.fixes[0].verdict == "not decided"
    again = resume_tune(tmp_path / "out", 240, NullProgress(), TOOLS, wait=True, isolates=False)
    assert again.proof is not None and again.fixes[0].verdict == "recommended"
    # What was said of too little time is over with more of it.
    assert not any("proof was not started" in words for words in again.warnings)
    assert "CREATE INDEX CONCURRENTLY" in (tmp_path / "out" / "apply.sql").read_text()


@pytest.mark.slow
def test_the_command_leaves_what_is_known_when_it_is_interrupted(tmp_path: Path) -> None:
    compare = request(tmp_path).compare
    process = whole_tool.start(
        "tune", "--dataset", compare.dataset, "--workload", compare.workload, "--set", "shared_buffers=64MB",
        "--max-time", "10m", "--out", tmp_path / "out", "--margin", "0.0011", "--json", *whole_tool.build(),
    )  # fmt: skip
    trials = tmp_path / "out" / "proof" / "trials"
    whole_tool.wait_for(
        lambda: trials.is_dir() and len(list(trials.iterdir())) > 1, "trials", process=process
    )
    process.send_signal(2)
    said, complaint = process.communicate(timeout=whole_tool.TIMEOUT_S)
    assert process.returncode == 130, complaint
    assert "Traceback" not in complaint
    document = json.loads(said)
    assert document["interrupted"]
    assert document["fixes"]
    assert json.loads((tmp_path / "out" / "tune.json").read_text())["interrupted"]
