r"""`\gset` in a transaction of a file, and what stands for what it keeps."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.sql_text import split_statements
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.row_variables import bound, documents, pieces, split_at_gset
from pgassay.workloads.transactions import with_transactions

ORDER = r"""
-- name: order
BEGIN;
-- name: new
INSERT INTO orders DEFAULT VALUES RETURNING id \gset o_
-- name: line
INSERT INTO lines VALUES (:o_id, :'o_id');
COMMIT;
"""


def test_gset_ends_a_statement_and_is_kept_with_it() -> None:
    (order,) = with_transactions(ORDER, "file")
    assert [(part.name, part.gset) for part in order.parts] == [
        *(("BEGIN", None), ("new", "o_"), ("line", None), ("COMMIT", None))
    ]
    assert "RETURNING id \\gset o_\nINSERT" in order.sql
    # What was stored before there was such a thing has no key for it.
    assert "gset" not in order.parts[0].model_dump()
    (again,) = with_transactions(order.sql, "file")
    assert [(part.sql, part.gset) for part in again.parts] == [(part.sql, part.gset) for part in order.parts]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT :id", [("id", "plain")]),
        ("SELECT x=:id, -:id,(:id)", [("id", "plain")] * 3),
        ("SELECT :'id', :\"id\"", [("id", "literal"), ("id", "identifier")]),
        ("SELECT :id::text, now()::date, '1'::int, x:=id, a[1 : n]", [("id", "plain")]),
        ("SELECT a[:n], a[1:n], f():n", [("n", "plain")] * 3),
        (r"SELECT 'a\':id, E'a\':id', x$:id", [("id", "plain")] * 2),
        ("SELECT :{?id}, :{? id}, :::id", [("id", "test"), ("id", "plain")]),
        ("SELECT ':id', $$ :id $$, \":id\" -- :id\n/* :id */", []),
        ("SELECT 'a'':id', E'\\':id'", []),
    ],
)
def test_a_name_is_a_variable_where_psql_takes_it_for_one(sql: str, names: list[tuple[str, str]]) -> None:
    found = pieces(sql)
    assert [(each.text, each.quote) for each in found if each.quote] == names


@given(st.text(alphabet="a1 :'\"[](),-\n\\$;=E{?}", max_size=40))
def test_the_pieces_are_the_text(sql: str) -> None:
    try:
        statements = split_statements(sql, "file")
    except UsageError:
        return
    for each in statements:
        assert "".join(piece.as_written for piece in pieces(each)) == each


def test_values_stand_as_they_are_as_literals_and_as_names() -> None:
    values = {"a": "O'Neill", "b": 'x"y', "c": "7", "d": r"a\b"}

    def made(sql: str) -> str:
        return bound(pieces(sql), values)

    assert made("SELECT :'a', :\"b\", :c + 1, a[1:c]") == "SELECT 'O''Neill', \"x\"\"y\", 7 + 1, a[17]"
    assert made("SELECT x LIKE:'d', :{?d}, :{?e}") == r"SELECT x LIKE E'a\\b', TRUE, FALSE"
    assert made("SELECT :e, :'e', :\"e\", a[:e]") == "SELECT :e, :'e', :\"e\", a[:e]"


def test_before_the_first_gset_all_is_text() -> None:
    (statement,) = with_transactions(
        r"""BEGIN;
        SELECT a[:n] FROM t \gset
        SELECT a[:n] FROM t;
        COMMIT;""",
        "file",
    )
    assert ["pieces" in each for each in documents(statement)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT 1 AS a \\gset\n", "between BEGIN and COMMIT: write BEGIN;"),
        ("BEGIN \\gset\nSELECT 1; COMMIT;", "between BEGIN and COMMIT"),
        ("BEGIN; SELECT 1; \\gset\nCOMMIT;", "gset has no statement: write it instead of the semicolon"),
        ("BEGIN; SELECT 1 \\gset a b\nCOMMIT;", "write \\\\gset or \\\\gset PREFIX at the end of a line"),
        (
            "BEGIN; SELECT :a; SELECT 1 AS a \\gset\nCOMMIT;",
            ":a is a psql variable, which no \\\\gset before it",
        ),
        ("BEGIN; SELECT 1 AS a \\gset\nCOMMIT; BEGIN; SELECT :a; COMMIT;", ":a is a psql variable"),
        ("BEGIN; \\set a 1\nSELECT :a; COMMIT;", "\\\\set is a psql command"),
        ("BEGIN; SELECT 1 AS a \\gset\n\\echo :a;\nCOMMIT;", "\\\\echo is a psql command"),
    ],
)
def test_what_can_not_be_meant_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "mine.sql"
    file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        parse_workload(f"sql:{file}")


def test_a_text_without_gset_is_one_statement() -> None:
    assert list(split_at_gset("SELECT '\\gset', $$\\gset$$ -- \\gset\n", "file")) == [
        ("SELECT '\\gset', $$\\gset$$ -- \\gset\n", None)
    ]
