"""Transactions in a file of statements: what becomes one unit, how it is named, and what is refused."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pgassay.errors import UsageError
from pgassay.factors import sql as sql_factor
from pgassay.tune.tuned_statements import statements_of
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.statements import refused_sql
from pgassay.workloads.transactions import rolls_back, with_transactions

TRANSFER = """
-- name: read
SELECT 1;
-- name: transfer
BEGIN ISOLATION LEVEL SERIALIZABLE;
-- name: take
UPDATE a SET x = x - 1 WHERE i = 1;
SAVEPOINT before;
UPDATE a SET x = x + 1 WHERE i = 2;
ROLLBACK TO SAVEPOINT before;
release "before";
END;
START TRANSACTION;
SELECT 2;
ROLLBACK;
"""


def test_from_begin_to_its_end_is_one_unit_with_its_statements() -> None:
    read, transfer, second = with_transactions(TRANSFER, "file")
    assert (read.name, read.parts) == ("read", ())
    assert transfer.name == "transfer" and second.name == "transaction-2"
    assert [part.name for part in transfer.parts] == [
        *("BEGIN", "take", "SAVEPOINT before", "statement-5", "ROLLBACK TO SAVEPOINT"),
        *("RELEASE", "END"),
    ]
    assert transfer.sql.startswith("BEGIN ISOLATION LEVEL SERIALIZABLE;\nUPDATE a")
    assert transfer.sql.endswith("END;")
    assert not rolls_back(transfer) and rolls_back(second) and not rolls_back(read)


def test_names_of_one_transaction_are_apart() -> None:
    (made,) = with_transactions("BEGIN; SAVEPOINT a; RELEASE a; SAVEPOINT a; COMMIT", "file")
    assert [part.name for part in made.parts] == [
        "BEGIN",
        "SAVEPOINT a",
        "RELEASE a",
        "SAVEPOINT a'",
        "COMMIT",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("BEGIN; SELECT 1;", "transaction-1 is not closed: write COMMIT; after its last statement"),
        ("SELECT 1; COMMIT;", "statement 2: COMMIT is outside a transaction: write BEGIN; before it"),
        ("SAVEPOINT a;", "SAVEPOINT is outside a transaction"),
        ("BEGIN; BEGIN; COMMIT;", "statement 2: BEGIN within a transaction: write COMMIT; before it"),
        ("BEGIN; COMMIT AND CHAIN; COMMIT;", "write COMMIT; BEGIN;"),
        ("BEGIN; PREPARE TRANSACTION 'x';", "belongs to two-phase commit"),
        ("-- name: a\nSELECT 1;\n-- name: a\nBEGIN; COMMIT;", "two statements are named 'a'"),
        ("BEGIN;\n-- name: a\nSELECT 1;\n-- name: a\nSELECT 2; COMMIT;", "two statements of transaction-1"),
        ("-- nothing", "has no SQL statement"),
    ],
)
def test_transactions_that_do_not_match_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        with_transactions(text, "file")


def test_a_file_with_a_transaction_writes_only_what_its_statements_write(tmp_path: Path) -> None:
    reading, writing = tmp_path / "reading.sql", tmp_path / "writing.sql"
    reading.write_text("BEGIN READ ONLY; SAVEPOINT a; SELECT 1; ROLLBACK TO a; COMMIT;")
    writing.write_text("BEGIN; MERGE INTO a USING b ON a.i = b.i WHEN MATCHED THEN DO NOTHING; COMMIT;")
    assert not parse_workload(f"sql:{reading}").writes
    workload = parse_workload(f"sql:{writing}")
    assert workload.writes and workload.has_transactions
    with pytest.raises(UsageError, match="leave out BEGIN and COMMIT"):
        statements_of(workload)
    with pytest.raises(UsageError, match="has a transaction, whose rows can't be compared"):
        sql_factor.apply("sql", str(reading), SimpleNamespace(workload=workload))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            'statement "pay": its statement "statement-4": relation "acounts" does not exist (42P01)',
            ', line 6: relation "acounts" does not exist: correct the SQL of pay',
        ),
        (
            'statement look can\'t be planned (relation "nothing" does not exist): correct its SQL',
            ', line 9: relation "nothing" does not exist: correct the SQL of look',
        ),
        ('statement "pay": its statement "statement-4": deadlock detected (40P01)', ""),
        ("the server stopped answering (EOF)", ""),
    ],
    ids=["in a transaction", "by itself", "no slip", "no statement"],
)
def test_sql_that_the_server_refuses_is_told_with_its_line(tmp_path: Path, reason: str, told: str) -> None:
    file = tmp_path / "own.sql"
    file.write_text(
        "SELECT 1;\n-- name: pay\nBEGIN;\n\nSELECT 1;\nUPDATE acounts\nSET a = 1;\nCOMMIT; -- name: look\n"
        "SELECT * FROM nothing;\n"
    )
    workload = parse_workload(f"sql:{file},writes=yes")
    assert refused_sql(workload, reason) == (f"{file}{told}" if told else "")
    file.unlink()
    assert refused_sql(workload, reason) == ""
