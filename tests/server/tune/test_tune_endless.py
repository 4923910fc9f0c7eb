"""Tune begins with a statement that does not end: what makes it end is found, and proven as a lower bound."""

from pathlib import Path

import pytest

from pgassay.model.tuning.answer import TuneResult
from pgassay.record.experiment import load
from pgassay.terminal.progress import NullProgress
from pgassay.tune.run import TOOLS, run_tune, with_rewrites
from pgassay.tune.stored import read_folder
from tuned_orders import request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

# Each row of one table asks for rows of the other one, which is read whole for it: minutes, and with an index
# on what it asks for some milliseconds.
DATA = """
CREATE TABLE parts (id int PRIMARY KEY, size int);
CREATE TABLE items (part int, quantity int, note text);
INSERT INTO parts SELECT n, n % 50 FROM generate_series(1, 20000) n;
INSERT INTO items SELECT n * 7919 % 20000, n % 97, repeat('x', 40) FROM generate_series(1, 60000) n;
"""
ENDLESS = """-- name: endless
SELECT count(*) FROM parts
WHERE size > (SELECT avg(quantity) FROM items WHERE items.part = parts.id);
"""
# Its rows are made, and no index helps with them.
HOPELESS = """-- name: hopeless
SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b WHERE (a * b) % 7 = 3;
"""
QUICK = "-- name: quick\nSELECT count(*) FROM parts WHERE size = 7;\n"


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
def test_a_statement_that_never_ends_is_made_to_end_by_an_index_and_another_one_is_left_out(
    tmp_path: Path,
) -> None:
    result = tuned(tmp_path, ENDLESS + HOPELESS + QUICK, 100)
    symptom = {each.name: each for each in result.symptom.statements}
    assert {name for name, each in symptom.items() if each.at_least} == {"endless", "hopeless"}
    assert result.symptom.at_least and symptom["endless"].plan.startswith(
        "by the planner's estimate: Seq Scan"
    )
    assert result.cause.cause == "did-not-end"
    (index,) = (each for each in result.fixes if each.id == "index:items(part)")
    assert index.reason.startswith("by the planner's estimate items was read whole: 1,200,000,000 rows")
    assert index.same_results == "not checked: endless did not end before"
    assert index.at_least and index.gain is not None and index.gain > 2
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
    assert {each.name for trial in proof.trials for each in trial.record.statements} == {"endless", "quick"}
    assert (
        result.proof.at_least and result.proof.statements[0].waited_s == protocol.statement_limits["endless"]
    )
    assert any("did not end in" in each for each in result.warnings)
    # What was stored reads again, and says the same.
    search, again = read_folder(tmp_path / "out")
    assert again == result
    assert (search.endless, search.unsolved) == (("endless", "hopeless"), ("hopeless",))
    assert search.proof_limits == protocol.statement_limits


@pytest.mark.timeout(300)
def test_where_nothing_makes_it_end_that_is_said_and_nothing_is_proven(tmp_path: Path) -> None:
    result = tuned(tmp_path, HOPELESS, 40)
    assert result.nothing_to_do and result.proof is None
    assert result.verdict.startswith("Did not end with anything that was tried: hopeless (")
    assert "Nothing to do" not in result.verdict
    (statement,) = result.symptom.statements
    assert statement.at_least and statement.share == 1
