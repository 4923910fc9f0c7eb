"""The statements of a file: their sets of values, their weights, and what is refused in one sentence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pglast import parse_sql
from plans_for_tests import make_arms, make_record

from pgassay.analysis.verdicts.blocks import primary_measure
from pgassay.errors import UsageError
from pgassay.model.experiment import Protocol
from pgassay.model.trial import StatementObservation, TrialSpec
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.statement_errors import refused
from pgassay.tune.tuned_statements import measured, sql_with, statements_of, with_values, workload_of
from pgassay.workloads.registry import parse_workload


def read(folder: Path, text: str) -> tuple[TunedStatement, ...]:
    file = folder / "slow.sql"
    file.write_text(text)
    return statements_of(parse_workload(f"sql:{file}"))


def test_statements_have_their_values_and_weights(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "-- name: list\n-- weight: 50\n-- parameters: 42, 'o''pen'\n-- parameters: -7, NULL\n"
        "SELECT * FROM orders WHERE customer = $1 AND status = $2;\n"
        "-- name: place\nINSERT INTO orders VALUES (1);\n",
    )
    assert [(each.name, each.parameters, each.weight, each.writes) for each in found] == [
        ("list", (("42", "o'pen"), ("-7", None)), 50.0, False),
        ("place", (), 1.0, True),
    ]
    run = measured(found)
    assert [each.name for each in run] == ["list [1]", "list [2]", "place"]
    assert run[0].sql == "SELECT * FROM orders WHERE customer = '42' AND status = 'o''pen'"
    assert run[1].sql == "SELECT * FROM orders WHERE customer = '-7' AND status = NULL"


def test_a_statement_that_is_named_as_a_set_of_anothers_values_is_refused(tmp_path: Path) -> None:
    """Times, verdicts and trials are told apart by these names."""
    with pytest.raises(UsageError, match=r"named 'list \[2\]'.* give it another name"):
        read(
            tmp_path,
            "-- name: list\n-- parameters: 1\n-- parameters: 2\nSELECT $1;\n-- name: list [2]\nSELECT 3;\n",
        )


def test_a_mark_of_the_byte_order_belongs_to_no_statement(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "\ufeff-- name: list\n-- weight: 5\n-- parameters: 42\nSELECT $1;\n")
    assert (found.name, found.sql, found.parameters, found.weight) == ("list", "SELECT $1", (("42",),), 5.0)


def test_weights_decide_what_the_whole_workload_takes(tmp_path: Path) -> None:
    found = measured(read(tmp_path, "-- name: a\n-- weight: 10\nSELECT 1;\n-- name: b\nSELECT 2;\n"))
    workload = workload_of(found, parse_workload(f"sql:{tmp_path / 'slow.sql'}"), {"b": "SELECT 3"})
    assert workload.weights == {"a": 10.0, "b": 1.0}
    assert [each.sql for each in workload.statements] == ["SELECT 1", "SELECT 3"]
    arm = make_arms(["work_mem=4MB,8MB"])[0][0]
    spec = TrialSpec(number=0, attempt=0, block=0, position=0, arm=arm, protocol=Protocol(cache="as-is"))
    record = make_record(spec).model_copy(
        update={
            "statements": tuple(
                StatementObservation(name=name, elapsed_s=seconds, rows=1, cold=False, aio=False)
                for name, seconds in (("a", 2.0), ("b", 0.5))
            )
        }
    )
    assert primary_measure(workload.metric, workload.weights).value(record) == pytest.approx(20.5)
    assert primary_measure(workload.metric).value(record) == pytest.approx(2.5)


def test_weights_that_are_all_one_leave_the_experiment_as_it_always_was(tmp_path: Path) -> None:
    found = measured(read(tmp_path, "SELECT 1;\n"))
    workload = workload_of(found, parse_workload(f"sql:{tmp_path / 'slow.sql'}"), {})
    assert "weights" not in workload.model_dump()


def test_a_rewritten_statement_gets_the_same_values() -> None:
    statement = TunedStatement(name="a", sql="SELECT $1::int", parameters=(("1",), ("2",)))
    assert (
        sql_with(measured([statement])[1], {"a": "SELECT 1 + $1::int"}) == "SELECT 1 + CAST('2' AS integer)"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT * FROM orders WHERE customer = $1;", "has 1 parameters, and a set of their values 0"),
        ("-- parameters: 1, 2\nSELECT $1;", "a set of their values 2"),
        ("-- parameters: now()\nSELECT $1;", "not a list of literals"),
        ("-- parameters: 1,\nSELECT $1;", "not a list of literals"),
        ("-- parameters: 1; 2\nSELECT $1;", "not a list of literals"),
        ("-- weight: often\nSELECT 1;", "not a number above 0"),
        ("-- weight: nan\nSELECT 1;", "not a number above 0"),
        ("VACUUM orders;", "has no plan"),
        ("SELECT 1 INTO t;", "has no plan"),
        ("COPY orders TO PROGRAM 'true';", "has no plan"),
        ("SELECT pg_read_file('/etc/passwd');", "accesses something outside the database"),
        (
            "SELECT * FROM dblink('host=x', 'SELECT 1') AS t (a int);",
            "accesses something outside the database",
        ),
        ("SELEC 1;", "correct its SQL"),
    ],
)
def test_what_cannot_be_tuned_is_one_sentence(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        read(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_a_load_is_no_list_of_statements() -> None:
    with pytest.raises(UsageError, match="write --workload sql:FILE"):
        statements_of(parse_workload("tpcb"))


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40))
def test_any_value_stays_one_value(value: str) -> None:
    made = with_values("SELECT $1, 2", (value,))
    targets = parse_sql(made)[0].stmt.targetList
    assert [target.val.val.sval for target in targets[:1]] == [value]
    assert len(targets) == 2


def test_of_a_table_that_is_not_found_the_search_path_is_named() -> None:
    """A dump has no search path of a role or a database."""
    hint = "--set search_path=SCHEMA"
    assert hint in str(refused("q", 'relation "orders" does not exist', "42P01"))
    assert hint not in str(refused("q", 'relation "shop.orders" does not exist', "42P01"))
    assert hint not in str(refused("q", 'column "x" does not exist', "42703"))


def test_a_function_that_writes_is_named_as_the_reason_and_not_the_statements_sql() -> None:
    said = str(refused("q", "cannot execute INSERT in a read-only transaction", "25006"))
    assert "a function that it calls writes, leave it out" in said and "correct its SQL" not in said
