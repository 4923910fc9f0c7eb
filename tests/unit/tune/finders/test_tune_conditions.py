"""Conditions of plans are read as PostgreSQL means them, and any text leaves the reader whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgassay.sql_text import identifier
from pgassay.tune.finders.evidence.conditions import (
    conditions,
    join_columns,
    normalised,
    sort_columns,
)

# Columns, operators and noise as EXPLAIN strings them together.
PIECES = st.sampled_from(
    [
        "o.a", "b", '"Odd name"', "=", "<", "~~", "@>", "ANY", "(", ")", "'x'::text", "'{1,2}'::integer[]",
        "AND", "OR", "NOT", "IS NULL", "$1", "(InitPlan 1).col1", "hashed SubPlan 2", "lower(", "::date",
        "\0", "'", "--",
        ";", "NULL", "ROW(", ",", "1", "-", "é", "\\",
    ]
)  # fmt: skip


def test_each_kind_is_told_by_its_operator() -> None:
    cases = {
        "(o.a = 5)": ("equal", "a", ("5",)),
        "(5 < o.a)": ("range", "a", ("5",)),
        "((o.s)::text = ANY ('{x,\"y z\"}'::text[]))": ("in", "s", ("x", "y z")),
        "((o.s)::text ~~ 'ab%'::text)": ("like", "s", ("ab%",)),
        "(o.s ~~* '%ab%'::text)": ("ilike", "s", ("%ab%",)),
        "(o.t @> '{1}'::integer[])": ("contains", "t", ("1",)),
        "(o.a IS NULL)": ("null", "a", ()),
        "(o.f)": ("true", "f", ()),
        "(NOT o.f)": ("false", "f", ()),
        "(o.a = c.id)": ("outer", "a", ()),
        "(o.a = $1)": ("equal", "a", ()),
        "(o.a = (InitPlan 1).col1)": ("equal", "a", ()),
        "((o.a = 1) OR (o.b = 2))": ("other", None, ()),
        "(o.a = o.b)": ("other", None, ()),
        "(o.a <> 3)": ("other", "a", ("3",)),
    }
    for text, (kind, column, values) in cases.items():
        (found,) = conditions(text, "o")
        assert (found.kind, found.column, found.values) == (kind, column, values), text


def test_a_comparison_the_other_way_round_is_turned() -> None:
    (found,) = conditions("(5 < o.a)", "o")
    assert found.operator == ">"
    (found,) = conditions("('{1}'::integer[] <@ o.t)", "o")
    assert (found.kind, found.operator) == ("contains", "@>")


def test_an_expression_is_indexable_only_when_it_is_immutable() -> None:
    cases = {
        "(lower((o.email)::text) = 'x'::text)": True,
        "((o.data ->> 'k'::text) = 'v'::text)": True,
        "((o.a % 7) = 3)": True,
        "(to_tsvector('english'::regconfig, o.body) @@ '''a'''::tsquery)": True,
        "(to_tsvector(o.body) @@ '''a'''::tsquery)": False,
        "(date_trunc('day'::text, o.at) = '2024-01-01 00:00:00'::timestamp without time zone)": False,
        "((o.at)::date = '2024-01-01'::date)": False,
        "(age(o.at) > '01:00:00'::interval)": False,
        "(my_function(o.a) = 3)": False,
    }
    for text, immutable in cases.items():
        (found,) = conditions(text, "o")
        assert found.expression is not None and found.immutable == immutable, text


def test_and_is_split_and_or_is_not() -> None:
    found = conditions("((o.a = 1) AND ((o.b = 2) OR (o.c = 3)) AND (o.d >= '-4'::integer))", "o")
    assert [(each.kind, each.column) for each in found] == [("equal", "a"), ("other", None), ("range", "d")]
    assert found[1].columns == ("b", "c") and found[2].values == ("-4",)


def test_keys_of_sorts_and_joins() -> None:
    first, second, third = sort_columns('o.a DESC NULLS LAST, o."B c", lower(o.d) DESC')
    assert (first.column, first.descending, first.nulls_first) == ("a", True, False)
    assert (second.column, second.descending, second.nulls_first) == ("B c", False, False)
    assert third.column is None and third.nulls_first
    pairs = join_columns("((o.a = c.id) AND ((o.b)::text = (c.d)::text) AND (o.x < c.y))")
    assert pairs == ((("o", "a"), ("c", "id")), (("o", "b"), ("c", "d")))


def test_expressions_of_the_catalog_and_of_plans_are_one_spelling() -> None:
    assert normalised("lower(email::text)") == normalised("lower((o.email)::text)")
    assert normalised("data ->> 'k'::text") == normalised("(o.data ->> 'k'::text)")
    assert (
        identifier("select") == '"select"'
        and identifier('a"b') == '"a""b"'
        and identifier("plain") == "plain"
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14).map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_left(text: str) -> None:
    for each in conditions(text, "o"):
        assert each.text
    sort_columns(text)
    join_columns(text)
    assert isinstance(normalised(text), str)


@pytest.mark.parametrize(
    "text", ["('abc'::text ~~ o.a)", "('abc'::text ~* o.a)", "('k'::text ? o.a)", "('{1}'::integer[] @> o.a)"]
)
def test_a_column_of_patterns_or_keys_is_none_that_is_searched(text: str) -> None:
    (found,) = conditions(text, "o")
    assert found.kind == "other"


@pytest.mark.parametrize(
    "text",
    [
        "('a'::text = ANY (o.tags))",
        "(5 = ANY (o.parts))",
        "(o.a < ALL ('{1,2}'::integer[]))",
        "(o.a = ALL ('{1,2}'::integer[]))",
        "(ROW(o.a, o.b) > ROW(1, 2))",
    ],
)
def test_what_no_index_on_a_column_is_read_for_is_no_search(text: str) -> None:
    """An element of an array column, ALL of several values; an index can't have a row as its key."""
    (found,) = conditions(text, "o")
    assert (found.kind, found.column, found.expression) == ("other", None, None)
    assert found.columns
