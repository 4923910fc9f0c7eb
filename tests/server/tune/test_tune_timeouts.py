"""Tune begins with a statement that does not end: what makes it end is found, and proven as a lower bound."""

import math
from pathlib import Path

import pytest

import tune_samples as samples
from pgassay.environment.datasets import snapshots
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import NullProgress
from pgassay.record.experiment import load
from pgassay.tune.baseline import baseline_of
from pgassay.tune.candidate import StatementRewrite
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.read import read_facts
from pgassay.tune.finder_inputs import symptom_for
from pgassay.tune.proof.stages import remove_copies
from pgassay.tune.run_tune import TOOLS, run_tune, with_rewrites
from pgassay.tune.search.selection import FixSelection, SelectionStep, Tried
from pgassay.tune.stored_search import read_folder
from pgassay.tune.timeouts.rows import NOT_ON_DATA, compare_on_data
from pgassay.tune.tune_plan import plan_tune
from tuned_orders import index, request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

# Each row of one table asks for rows of the other one, which is fully read for it: minutes, and with an index
# on what it asks for some milliseconds.
DATA = """
CREATE TABLE parts (id int PRIMARY KEY, size int);
CREATE TABLE items (part int, quantity int, note text);
INSERT INTO parts SELECT n, n % 50 FROM generate_series(1, 20000) n;
INSERT INTO items SELECT n * 7919 % 20000, n % 97, repeat('x', 40) FROM generate_series(1, 60000) n;
CREATE TABLE visits (visitor int, page text);
INSERT INTO visits SELECT n, repeat('p', 30) FROM generate_series(1, 200000) n;
"""
ENDLESS = """-- name: endless
SELECT count(*) FROM parts
WHERE size > (SELECT avg(quantity) FROM items WHERE items.part = parts.id);
"""
# Its rows are made, and no index helps with them.
HOPELESS = """-- name: hopeless
SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b WHERE (a * b) % 7 = 3;
"""
QUICK = "-- name: quick\nSELECT 1;\n"
FIND = "-- name: find\nSELECT * FROM visits WHERE visitor = 4711;\n"


def tuned(folder: Path, statements: str, max_time_s: float) -> TuneResult:
    """Without rewrites, of which some would make it end as well."""
    return run_tune(
        request(
            folder, statements, max_time_s=max_time_s, data=f"{DATA}COMMENT ON TABLE parts IS '{folder}';"
        ),
        with_rewrites(TOOLS, wanted=False),
        NullProgress(),
        wait=True,
        isolates=False,
    )


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_statement_that_never_ends_is_made_to_end_by_an_index_and_another_one_is_left_out(
    tmp_path: Path,
) -> None:
    result = tuned(tmp_path, ENDLESS + HOPELESS + QUICK + FIND, 100)
    symptom = {each.name: each for each in result.symptom.statements}
    assert {name for name, each in symptom.items() if each.at_least} == {"endless", "hopeless"}
    assert result.symptom.at_least and symptom["endless"].plan.startswith(
        "by the planner's estimate: Seq Scan"
    )
    assert result.cause.cause == "did-not-end"
    (index,) = (each for each in result.fixes if each.id == "index:items(part)")
    assert index.reason.startswith("by the planner's estimate items was fully read: 1,200,000,000 rows")
    assert index.same_results == "not checked: endless did not finish before"
    assert index.at_least
    (endless,) = (each for each in index.statements if each.name == "endless")
    assert endless.at_least and endless.ratio > 2
    assert "hopeless" in result.verdict and "Nothing to do" not in result.verdict
    assert result.proof is not None and result.proof.left_out == ("hopeless",)
    # The proof ran without the one, and stopped the other where nothing was applied.
    proof = load(tmp_path / "out" / "proof")
    protocol = proof.experiment.protocol
    assert protocol.statement_limits.keys() == {"endless"} and protocol.statement_limits["endless"] < 3
    arms = {arm.id: arm.levels["fixes"] for arm in proof.experiment.arms}
    stopped = {
        (arms[trial.record.arm_id], each.name)
        for trial in proof.trials
        for each in trial.record.statements
        if each.stopped and each.elapsed_s == protocol.statement_limits[each.name]
    }
    assert ("as it is", "endless") in stopped and ("all chosen", "endless") not in stopped
    # All in one server: one that does not end keeps no other from being proven there.
    assert read_folder(tmp_path / "out")[0].shared is not None and proof.experiment.protocol.switched_indexes
    assert {each.name for trial in proof.trials for each in trial.record.statements} == {"endless", "find"}
    answers = {each.name: each for each in result.statements}
    assert answers["find"].verdict == "faster" and not answers["find"].at_least
    assert answers["endless"].verdict == "faster" and answers["endless"].at_least
    assert {fix.id for fix in result.fixes if fix.verdict == "recommended"} >= {"index:items(part)"}
    assert (
        result.proof.at_least
        and {each.name: each for each in result.proof.statements}["endless"].waited_s
        == protocol.statement_limits["endless"]
    )
    assert any("did not finish in" in each for each in result.warnings)
    # What was stored reads again, and says the same.
    search, again = read_folder(tmp_path / "out")
    assert again == result
    assert (search.endless, search.unsolved) == (("endless", "hopeless"), ("hopeless",))
    assert search.proof_limits == protocol.statement_limits


@pytest.mark.timeout(300)
def test_where_nothing_makes_it_end_that_is_said_and_nothing_is_proven(tmp_path: Path) -> None:
    result = tuned(tmp_path, HOPELESS, 40)
    assert not result.nothing_to_do and not result.apply_sql and result.proof is None
    assert result.verdict.startswith("Did not finish, and no fix was tried that concerns it: hopeless (")
    assert "Nothing to do" not in result.verdict
    (statement,) = result.symptom.statements
    assert statement.at_least and statement.share == 1


JOINED = """SELECT count(*) FROM parts
LEFT JOIN (SELECT part, avg(quantity) AS mean FROM items GROUP BY part) means ON means.part = parts.id
WHERE size {operator} mean"""


@pytest.mark.timeout(300)
def test_a_rewrite_is_compared_on_the_data_once_an_index_makes_both_end(tmp_path: Path) -> None:
    data = f"{DATA}COMMENT ON TABLE parts IS '{tmp_path}';"
    planned = plan_tune(request(tmp_path, ENDLESS, data=data), lambda *_: None).with_data_format()
    made = index("by_part", "CREATE INDEX by_part ON items (part)", statements=("endless",))
    same, other = (
        index(
            f"{operator} mean",
            sql=(),
            undo=(),
            statements=("endless",),
            rewrites=(
                StatementRewrite(
                    statement="endless", sql=JOINED.format(operator=operator), condition="", proof="by test"
                ),
            ),
        )
        for operator in (">", ">=")
    )
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        with TrialCopy(planned.spec, cache="as-is", statement_timeout_s=10, on_stage=lambda *_: None) as copy:
            # As of a server that was read: it is measured too, and not left out.
            measured = baseline_of(copy, planned.statements, goes_on=True)
            baseline = measured.baseline
            assert baseline.endless == ("endless",) and copy.endless.keys() == {"endless"}
            asked = symptom_for(planned, baseline, measured.plans, read_facts(copy.session), None, load_s=0.0)
            for chosen in (same, other):
                steps = (SelectionStep(chosen.id, 0.02, {"endless": 0.02}),)
                tried = {made.id: Tried(made.id, {"endless": 0.05})}
                run = samples.search_run(
                    copy, baseline, candidates=(made, same, other), tried=tried, selection=FixSelection(steps)
                )
                found = run.found
                compare_on_data(run, TOOLS, asked)
                rest = other if chosen is same else same
                assert found.notes[rest.id] == NOT_ON_DATA
                if chosen is same:
                    assert "compared on the data with 'index by_part' in place" in found.notes[same.id]
                    assert not found.unsafe and found.selection.ids == (same.id,)
                else:
                    assert found.unsafe[other.id].startswith("different: on the data")
                    assert found.selection.ids == ()
            # Without anything that makes it end as it is written, nothing is waited for.
            selection = FixSelection((SelectionStep(same.id, 0.02, {"endless": 0.02}),))
            run = samples.search_run(copy, baseline, candidates=(made, same), selection=selection)
            compare_on_data(run, TOOLS, asked)
            assert run.found.notes == {same.id: NOT_ON_DATA}
            # Waited for as long as it was as it is, it takes that; stopped before, how long is not known.
            (endless,), copy.endless["endless"].limit_s = measured.baseline.statements, 1.0
            assert copy.seconds(endless, "SELECT pg_sleep(60)", usual_s=1.0) == 1.0
            assert copy.seconds(endless, "SELECT pg_sleep(60)", usual_s=1.0, limit_s=0.2) == math.inf
    finally:
        remove_copies([planned.spec], before)
