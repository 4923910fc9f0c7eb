"""Literals of SQL text: none survives, whatever stands around it, and names stay."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.sql_text import literals, without_literals


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a = 'it''s' AND b = 5", "a = ? AND b = ?"),
        ("E'it\\'s' || e'x\\\\' || U&'d\\0061t' || n'x' || b'01' || X'ff'", "? || ? || ? || ? || ? || ?"),
        ("$$one$$ || $tag$two $$ 2$tag$", "? || ?"),
        ("date'2026-01-01' + '1 day'::interval", "date? + ?::interval"),
        ("-1.5e-10 + .5 + 1_000 + 0xFF + 1. + 7::numeric(10,2)", "-? + ? + ? + ? + ? + ?::numeric(?,?)"),
        ("t1.c2 + \"Q 5\".\"a'b\" + $1 + foo$2", "t1.c2 + \"Q 5\".\"a'b\" + $1 + foo$2"),
        ("SELECT 1 -- of 42\n, 2 /* 43 /* 44 */ 45 */ FROM t", "SELECT ?  \n, ?   FROM t"),
        ("a = ANY ('{1,2}'::integer[]) AND x[3:4]", "a = ANY (?::integer[]) AND x[?:?]"),
        ("a IS NULL AND b IS TRUE", "a IS NULL AND b IS TRUE"),
        # Text that was cut, in a string, a comment, a body, a name.
        ("a = 'never clo", "a = ?"), ("a /* never", "a  "), ("$x$ never", "?"), ('a = "never', "a = ?"),
        # With standard_conforming_strings off the string goes on: what follows can't be told.
        ("a = 'it\\'s secret' AND b", "a = ?"),
    ],
)  # fmt: skip
def test_each_kind_is_found(text: str, left: str) -> None:
    assert without_literals(text) == left


def test_numbers_that_explain_itself_gives_stay_in_plans_alone() -> None:
    condition = "((hashed SubPlan 2).col1 = 5) OR (x = (InitPlan 1).col1)"
    assert without_literals(condition, is_plan=True) == condition.replace("= 5", "= ?")
    assert "SubPlan ?" in without_literals(condition)


SECRET = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs",)), max_size=12
)
NAMES = st.sampled_from(["t", "größe", "t1", '"Name 7"', "$1", "a$b", "count", "date", "e", "b", "x", "u"])
GAPS = st.sampled_from([" ", "\n", " = ", ", ", "(", ")", "::", " + ", " || "])


def quoted(secret: str) -> "st.SearchStrategy[tuple[str, str]]":
    """A literal that holds the secret, in each way to write one; the secret as it stands in the text."""
    plain = f"«{secret}»".replace("\\", "").replace("'", "''")
    escaped = f"«{secret}»".replace("\\", "\\\\").replace("'", "\\'")
    body = f"«{secret}»".replace("$", "")
    comment = f"«{secret}»".replace("*/", "").replace("/*", "").replace("\n", " ")
    return st.sampled_from(
        [
            (f"'{plain}'", plain), (f"E'{escaped}'", escaped), (f"$${body}$$", body), (f"$q${body}$q$", body),
            (f"N'{plain}'", plain), (f"U&'{plain}'", plain), (f"date '{plain}'", plain),
            (f"'{plain}'::date", plain), (f"/*{comment}*/", comment), (f"--{comment}\n", comment),
        ]
    )  # fmt: skip


@given(st.lists(st.tuples(NAMES, GAPS, SECRET.flatmap(quoted), GAPS), min_size=1, max_size=6))
def test_no_string_survives_and_every_name_does(parts: "list[tuple[str, str, tuple[str, str], str]]") -> None:
    text = "".join(f"{name} {gap} {literal} {after} " for name, gap, (literal, _), after in parts)
    left = without_literals(text)
    assert "«" not in left and "»" not in left
    for name, _, _, _ in parts:
        assert name in left
    found = [text[each.begin : each.end] for each in literals(text)]
    assert all(any(secret in each for each in found) for _, _, (_, secret), _ in parts)


NUMBERS = st.one_of(
    st.integers(0, 10**30).map(str),
    st.floats(0, 1e300, allow_nan=False).map(repr),
    st.integers(0, 2**70).map(hex),
    st.integers(0, 2**40).map(oct),
    st.integers(0, 2**40).map(bin),
    st.integers(1000, 10**12).map(lambda value: f"{value:_}"),
    st.integers(0, 10**9).map(lambda value: f".{value}E+{value % 300}"),
)


@given(st.lists(st.tuples(NAMES, GAPS, NUMBERS, GAPS), min_size=1, max_size=6))
def test_no_number_survives(parts: "list[tuple[str, str, str, str]]") -> None:
    text = "".join(f"{name} {gap} {number} {after} " for name, gap, number, after in parts)
    kept = ["t1", "7", "$1"]
    left = without_literals(text)
    for name in kept:
        left = left.replace(name, "")
    assert not any(character.isdigit() for character in left), left


@given(st.text(st.sampled_from("'\"\\$eEbBxXuU&-/*\n;a1.t "), max_size=40))
def test_of_any_text_no_quote_is_left_but_within_names(text: str) -> None:
    found = list(literals(text))
    assert all(one.end <= other.begin for one, other in pairwise(found))
    assert all(0 <= each.begin < each.end <= len(text) for each in found)
    left = re.sub(r'"(?:[^"]|"")*"', "", without_literals(text))
    assert "'" not in left and '"' not in left
