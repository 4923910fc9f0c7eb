"""Whole comparisons of a file with transactions: by one session, and by clients some of which fail."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
TRANSACTIONS = """
-- name: transfer
BEGIN;
-- name: take
UPDATE pgbench_accounts SET abalance = abalance - 1 WHERE aid = 1;
SAVEPOINT taken;
-- name: give
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 2;
RELEASE taken;
COMMIT;
-- name: look
SELECT abalance FROM pgbench_accounts WHERE aid = 1;
"""
# A key that is drawn from four: in every trial some are there already.
SOME_FAIL = """
-- name: enter
BEGIN;
INSERT INTO pgbench_branches (bid, bbalance) SELECT 90 + (random() * 3)::int, 0;
COMMIT;
"""


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


def compared(file: Path, options: str, out: Path, home: Path) -> tuple[str, list[dict]]:
    """What the comparison says, and its trials."""
    words = (
        *("compare", "work_mem=4MB,8MB", "--workload", f"sql:{file}{options}", *whole_tool.SMALL),
        *("--blocks", "1", "--quiet", "--details", "--out", out),
    )
    done = whole_tool.run(*words, *whole_tool.build(), home=home)
    assert done.returncode == 0, done.stderr
    paths = sorted(out.glob("trials/*/attempt-*/trial.json"))
    return done.stdout, [json.loads(path.read_text()) for path in paths]


def test_a_transaction_is_timed_whole_and_its_statements_singly(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "transfer.sql"
    file.write_text(TRANSACTIONS)
    said, trials = compared(file, "", tmp_path / "out", home)
    assert len(trials) == 3 and {trial["status"] for trial in trials} == {"ok"}
    for trial in trials:
        transfer, look = trial["statements"]
        parts = ["BEGIN", "take", "SAVEPOINT taken", "give", "RELEASE taken", "COMMIT"]
        assert (transfer["name"], list(transfer["parts_s"])) == ("transfer", parts)
        assert 0 < sum(transfer["parts_s"].values()) <= transfer["elapsed_s"]
        assert look["name"] == "look" and "parts_s" not in look
        # It committed, and each trial began with the data as they were at first.
        assert trial["verification"]["wal_bytes"] > 0
    assert "Within the transactions" in said and "the whole" in said
    assert "Failed executions" not in said


def test_refused_executions_are_counted_by_sqlstate(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "enter.sql"
    file.write_text(SOME_FAIL)
    said, trials = compared(file, ",clients=2,executions=30", tmp_path / "out", home)
    assert {trial["status"] for trial in trials} == {"ok"}
    for trial in trials:
        (enter,) = trial["statements"]
        # Four keys at most go in, and every trial has its own copy of the data.
        assert 1 <= enter["at_once"] <= 4
        assert enter["failures"] == {"23505": 30 - enter["at_once"]}
    assert "Failed executions" in said and "23505" in said


def test_a_statement_that_always_fails_is_an_error_with_its_place(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.sql"
    file.write_text(
        "BEGIN; -- name: shrink\nSELECT 1; -- name: divide\nSELECT aid / 0 FROM pgbench_accounts; COMMIT;"
    )
    words = (
        *("compare", "work_mem=4MB,8MB", "--workload", f"sql:{file}", *whole_tool.SMALL),
        *("--blocks", "1", "--quiet", "--out", tmp_path / "out"),
    )
    done = whole_tool.run(*words, *whole_tool.build(), home=home)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert 'statement "transaction-1": its statement "divide": division by zero' in said


def test_a_slip_in_a_transaction_is_told_with_file_and_line_before_any_trial(
    home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "slip.sql"
    slip = TRANSACTIONS.replace("UPDATE pgbench_accounts SET abalance = abalance + 1", "DELETE FROM acounts")
    file.write_text(slip)
    words = ("compare", "work_mem=4MB,8MB", "--workload", f"sql:{file}", *whole_tool.SMALL)
    done = whole_tool.run(*words, *whole_tool.build(), "--quiet", "--out", tmp_path / "out", home=home)
    said = whole_tool.assert_one_sentence(done, 2)
    assert f'{file}, line 8: relation "acounts" does not exist: correct the SQL of transfer' in said
