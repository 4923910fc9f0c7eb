"""The factors `prepare` and `sql`, datasets as typed, and the lexical rules they rest on; no server."""

from pathlib import Path

import pytest
from plans_for_tests import base_spec

from pgassay.environment.datasets.registry import content
from pgassay.environment.datasets.run_sql_text import shown
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_baseline import prepare_of
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.same_results import pairs_of, returns_rows
from pgassay.factors.prepare import parse_prepare
from pgassay.factors.registry import parse_factor, parse_factors
from pgassay.factors.sql import workload_of
from pgassay.model.arm import DatasetSpec
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.sql_text import split_at_commas, split_statements
from pgassay.workloads.registry import parse_workload


def workload(folder: Path, name: str, text: str) -> WorkloadSpec:
    (folder / name).write_text(text)
    return parse_workload(f"sql:{folder / name}")


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("none,index.sql", ("none", "index.sql")),
        (",CREATE INDEX ON t (a, b)", ("none", "CREATE INDEX ON t (a, b)")),
        ("none,'VACUUM a, b'", ("none", "VACUUM a, b")),
        ("'','SELECT ''x'', 1'", ("none", "SELECT 'x', 1")),
        ("none,SELECT $$a,b$$,SELECT 'c,d'", ("none", "SELECT $$a,b$$", "SELECT 'c,d'")),
    ],
)
def test_levels_of_prepare_keep_their_commas(text: str, levels: tuple[str, ...]) -> None:
    assert parse_factor(f"prepare={text}").levels == levels


def test_prepare_is_sql_a_file_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "index.sql"
    file.write_text("CREATE INDEX ON t (a);\n-- and\nVACUUM t;\n")
    assert parse_prepare(str(file), "x") == ("CREATE INDEX ON t (a)", "-- and\nVACUUM t")
    assert parse_prepare("none", "x") == ()
    assert prepare_of(CompareRequest(factors=(), prepare=("ANALYZE; VACUUM", "none"))) == (
        "ANALYZE",
        "VACUUM",
    )
    with pytest.raises(UsageError, match=r"nowhere\.sql"):
        parse_prepare("nowhere.sql", "x")
    with pytest.raises(UsageError, match="x has no SQL statement"):
        parse_prepare("-- nothing", "x")
    with pytest.raises(UsageError, match="given twice"):
        parse_factor("prepare=none,''")


def test_the_workload_of_sql_levels_is_that_of_the_first(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.sql").write_text(f"SELECT '{name}'")
    factors = parse_factors([f"sql={tmp_path}/b.sql,{tmp_path}/a.sql"])
    assert workload_of(factors, "full-scan", "full-scan").statements[0].sql == "SELECT 'b'"
    with pytest.raises(UsageError, match="--workload tpcb can't be used"):
        workload_of(factors, "tpcb", "full-scan")


def test_ways_to_write_a_question_are_executed_alike(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.sql").write_text(f"SELECT '{name}'")
    (factor,) = parse_factors([f"sql='{tmp_path}/a.sql,clients=4',{tmp_path}/b.sql"])
    spec = base_spec().model_copy(update={"workload": workload_of([factor], "full-scan", "full-scan")})
    with pytest.raises(UsageError, match="write the same clients= and executions= for each"):
        factor.kind.apply("sql", factor.levels[1], spec)


def test_statements_belong_together_by_name_else_by_place(tmp_path: Path) -> None:
    named = workload(tmp_path, "a.sql", "-- name: x\nSELECT 1; -- name: y\nSELECT 2;")
    # A heading stands on a line of its own.
    swapped = workload(tmp_path, "b.sql", "-- name: statement-2\nSELECT 4;\n-- name: x\nSELECT 3;")
    plain = workload(tmp_path, "c.sql", "SELECT 5; SELECT 6")
    assert [(one.sql, two.sql) for one, two in pairs_of(named, plain)] == [
        (named.statements[0].sql, "SELECT 5"), (named.statements[1].sql, "SELECT 6"),
    ]  # fmt: skip
    again = workload(tmp_path, "d.sql", "-- name: x\nSELECT 7;\n-- name: statement-2\nSELECT 8;")
    assert [(one.sql, two.sql) for one, two in pairs_of(swapped, again)] == [
        ("SELECT 4", "SELECT 8"), ("SELECT 3", "SELECT 7"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("(SELECT 1)", True),
        ("-- x\nWITH a AS (VALUES (1)) TABLE a", True),
        ("SELECT 1 INTO t", False),
        ("UPDATE t SET a = 1 RETURNING a", False),
        ("EXPLAIN SELECT 1", False),
    ],
)
def test_what_returns_rows(sql: str, expected: bool) -> None:
    assert returns_rows(Statement(name="x", sql=sql)) is expected


def test_a_function_body_is_one_statement() -> None:
    text = (
        "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; "
        "END;"
        "\nSELECT 3; BEGIN; SELECT 4; END"
    )
    assert [len(part) > 50 for part in split_statements(text, "x")] == [True, False, False, False, False]
    assert split_at_commas("a(b,c),'d,e',f", "x") == ["a(b,c)", "'d,e'", "f"]


def test_a_long_statement_is_cut_in_a_message() -> None:
    assert shown("SELECT\n  1") == "SELECT 1"
    assert len(shown("x" * 5_000_000)) < 250


def test_where_a_source_lies_does_not_decide_the_content() -> None:
    one = DatasetSpec(kind="dump", source="/a", source_sha256="1")
    assert content(one) == content(one.model_copy(update={"source": "/b", "scale": 9}))
    assert content(one) != content(one.model_copy(update={"source_sha256": "2"}))
    assert content(DatasetSpec(scale=1)) != content(DatasetSpec(scale=2))


def test_a_file_names_its_sources_beside_itself(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        'dataset = "folder:data,database=shop"\nprepare = ["ANALYZE", "more.sql"]\n'
        '[factors]\nsql = ["a.sql", "b.sql,writes=no"]\nprepare = ["none", "CREATE INDEX ON t (a, b)"]\n'
    )
    request = read_file(file, None, ())
    assert request.dataset == f"folder:{tmp_path}/data,database=shop"
    assert request.prepare == ("ANALYZE", f"{tmp_path}/more.sql")
    factors = parse_factors(list(request.factors))
    assert factors[0].levels == (f"{tmp_path}/a.sql", f"{tmp_path}/b.sql,writes=no")
    assert factors[1].levels == ("none", "CREATE INDEX ON t (a, b)")
    file.write_text('prepare = [1]\n[factors]\nsql = ["a.sql", "b.sql"]\n')
    with pytest.raises(UsageError, match=r"prepare = 1 is not a text"):
        read_file(file, None, ())
