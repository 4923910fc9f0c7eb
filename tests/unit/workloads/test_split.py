"""Splitting SQL text into statements: lexical rules, and no text that breaks it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.workloads.statement_names import named_statements, split_statements, strip_comments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", " SELECT 2"]),
        (";;", []),
        ("-- only a comment", []),
        ("/* a; /* nested; */ b; */ SELECT 1;", ["/* a; /* nested; */ b; */ SELECT 1"]),
        ("SELECT ';'; SELECT 'it''s;'", ["SELECT ';'", " SELECT 'it''s;'"]),
        (r"SELECT E'a\';b'; SELECT 2", [r"SELECT E'a\';b'", " SELECT 2"]),
        (r"SELECT 'a\'; SELECT 2", [r"SELECT 'a\'", " SELECT 2"]),
        ('SELECT ";" FROM t', ['SELECT ";" FROM t']),
        ("DO $$ BEGIN; END; $$; SELECT 1", ["DO $$ BEGIN; END; $$", " SELECT 1"]),
        ("SELECT $a$ $b$ ; $a$; SELECT 1", ["SELECT $a$ $b$ ; $a$", " SELECT 1"]),
        ("SELECT a$b FROM t; SELECT 1", ["SELECT a$b FROM t", " SELECT 1"]),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3",
         ["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", " SELECT 3"]),
        ("SELECT 1 -- ; not here\n; SELECT 2", ["SELECT 1 -- ; not here\n", " SELECT 2"]),
        ("SELECT 4/2-1", ["SELECT 4/2-1"]),
    ],
)  # fmt: skip
def test_statements_end_at_their_own_semicolons(text: str, expected: list[str]) -> None:
    assert split_statements(text, "test.sql") == expected


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a', "SELECT $x$ a", "/* a", "SELECT 1;\n/* /* */ 'x"])
def test_what_never_closes_is_named_with_its_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"test\.sql, line \d+: .* is never closed"):
        split_statements(text, "test.sql")


@given(st.text(alphabet=st.sampled_from("a1 ;'\"$-/*()\n\\eE\x80"), max_size=60))
def test_no_text_breaks_it_and_nothing_is_lost(text: str) -> None:
    try:
        statements = split_statements(text, "t")
    except UsageError:
        return
    rest = text
    for statement in statements:
        assert statement in rest
        rest = rest.split(statement, 1)[1]
    assert len(strip_comments(text)) >= 0


@given(
    st.lists(st.sampled_from(["SELECT 1", "SELECT ';'", "TABLE t", "SELECT $$;$$"]), min_size=1, max_size=6)
)
def test_joined_statements_come_apart_again(statements: list[str]) -> None:
    assert split_statements(";".join(statements), "t") == statements


def test_names_come_from_the_comment_before_a_statement() -> None:
    text = "-- a heading\n-- name: first one\nSELECT 1;\nSELECT '\n-- name: inside a string\n';"
    named = named_statements(text, "t")
    assert [statement.name for statement in named] == ["first one", "statement-2"]
    assert named[0].sql == "SELECT 1"
    assert "inside a string" in named[1].sql


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="two statements are named 'a'"):
        named_statements("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;", "t")


def test_a_file_without_a_statement_is_refused() -> None:
    with pytest.raises(UsageError, match="has no SQL statement"):
        named_statements("-- nothing\n", "t")
