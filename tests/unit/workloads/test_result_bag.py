"""When two results are the same: bags of rows, order below ORDER BY, NULLs, rounding of floats, scales."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.experiment.running import result_bag
from pgassay.experiment.running.result_bag import (
    FLOATS_DIFFER,
    FLOATS_UNKNOWN,
    ORDER_DIFFERS,
    ROWS_DIFFER,
    Bag,
    ResultColumn,
    ResultRows,
    only_in,
    shown,
)
from pgassay.experiment.running.sort_keys import sort_keys

INTEGER, DOUBLE, NUMERIC = 23, 701, 1700
Text = tuple[str | None, ...]


def bag(*rows: Text, kinds: tuple[int, ...] = (INTEGER, INTEGER), keys: tuple[int, ...] = ()) -> Bag:
    made = Bag(tuple(ResultColumn(f"c{place}", kind, str(kind)) for place, kind in enumerate(kinds)), keys)
    for row in rows:
        made.add(as_bytes(row))
    return made


def as_bytes(row: Text) -> tuple[bytes | None, ...]:
    return tuple(None if value is None else value.encode() for value in row)


def test_rows_are_a_bag() -> None:
    one, turned = bag(("1", "2"), ("3", None)), bag(("3", None), ("1", "2"))
    assert one.difference(turned) is None and one.is_same_as(turned)
    assert bag(("1", "1")).difference(bag(("1", "1"), ("1", "1"))) == ROWS_DIFFER
    # NULL, the empty text and a shift between columns are different.
    assert bag((None, "")).difference(bag(("", None))) == ROWS_DIFFER
    assert bag(("ab", "c")).difference(bag(("a", "bc"))) == ROWS_DIFFER
    assert not bag().is_same_as(bag(kinds=(INTEGER, 20)))


def test_a_difference_is_in_as_many_buckets_as_it_has_rows() -> None:
    rows = [(str(n), str(n % 7)) for n in range(5000)]
    left, right = bag(*rows), bag(*random.Random(1).sample(rows, len(rows)))
    assert left.differing_buckets(right) == []
    right.add(as_bytes(rows[7]))
    assert left.differing_buckets(right) == [left.bucket_of(as_bytes(rows[7]))]
    left.add(as_bytes(rows[8]))
    assert len(left.differing_buckets(right)) == 2


def test_the_order_of_the_keys_alone_counts() -> None:
    one = bag(("1", "a"), ("1", "b"), ("2", "c"), keys=(0,))
    ties = bag(("1", "b"), ("1", "a"), ("2", "c"), keys=(0,))
    wrong = bag(("2", "c"), ("1", "b"), ("1", "a"), keys=(0,))
    assert one.difference(ties) is None
    assert one.difference(wrong) == ORDER_DIFFERS


def test_numbers_that_differ_in_scale_are_other_values_and_come_in_any_order() -> None:
    def of(*values: str) -> Bag:
        return bag(*((value,) for value in values), kinds=(NUMERIC,), keys=(0,))

    assert of("1.5").difference(of("1.50")) == ROWS_DIFFER
    assert of("1.0", "1.00", "2").difference(of("1.00", "1.0", "2")) is None
    assert of("1.0", "1.00", "2").difference(of("2", "1.0", "1.00")) == ORDER_DIFFERS
    assert of("1", "10").difference(of("10", "1")) == ORDER_DIFFERS


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("0.1", "0.1", True), ("0.30000000000000004", "0.3", True), ("0.3", "0.30001", False),
        ("NaN", "NaN", True), ("Infinity", "Infinity", True), (None, None, True), (None, "0", False),
        ("0", "-0", True), ("1e-13", "0", True), ("NaN", "1", False), ("Infinity", "-Infinity", False),
        ("1", "1.0000000009", True), ("1", "1.000000002", False),
    ],
)  # fmt: skip
def test_floats_are_equal_within_rounding_and_nothing_else_is(
    first: str | None, second: str | None, same: bool
) -> None:
    kinds = (INTEGER, DOUBLE)
    one, other = bag(("1", first), kinds=kinds), bag(("1", second), kinds=kinds)
    assert one.difference(other) == (None if same else FLOATS_DIFFER)
    assert one.is_rounded_to(other) == (first != second)
    exact = bag(("1", first)).difference(bag(("1", second)))
    assert (exact is None) == (first == second)


def test_floats_keep_their_order_within_rounding() -> None:
    def of(*floats: str | None, keys: tuple[int, ...] = ()) -> Bag:
        return bag(*((one,) for one in floats), kinds=(DOUBLE,), keys=keys)

    sorted_ones, turned = ("0.1", "0.3", "2"), ("2", "0.1", "0.3")
    assert of(*sorted_ones).difference(of(*turned)) is None
    rounded = of("0.1", "0.30000000000000004", "2", keys=(0,))
    assert of(*sorted_ones, keys=(0,)).difference(rounded) is None
    assert of(*sorted_ones, keys=(0,)).difference(of(*turned, keys=(0,))) == ORDER_DIFFERS
    # NULL and NaN are told apart in whatever order they come.
    assert of("NaN", None).difference(of(None, "NaN")) is None
    assert of("NaN", None).difference(of("NaN", "NaN")) is not None


def test_floats_belong_to_their_rows() -> None:
    kinds = (INTEGER, DOUBLE)
    one, other = bag(("1", "0.5"), ("2", "0.7"), kinds=kinds), bag(("1", "0.7"), ("2", "0.5"), kinds=kinds)
    assert one.difference(other) == FLOATS_DIFFER and len(one.differing_buckets(other)) == 2


def test_rows_of_several_floats_are_matched_whatever_rounding_does_to_their_order() -> None:
    kinds, more = (DOUBLE, DOUBLE), "0.30000000000000004"
    one, other = bag(("0.3", "5"), (more, "1"), kinds=kinds), bag((more, "5"), ("0.3", "1"), kinds=kinds)
    assert one.difference(other) is None
    assert one.difference(bag((more, "5"), ("0.3", "5"), kinds=kinds)) == FLOATS_DIFFER


def test_in_very_many_rows_floats_are_the_same_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_bag, "FLOAT_ROWS_MAX", 5)
    kinds = (INTEGER, DOUBLE)
    rows: list[Text] = [(str(number), f"0.{number}") for number in range(1, 20)]
    one = bag(*rows, kinds=kinds)
    assert not one.floats and one.difference(bag(*reversed(rows), kinds=kinds)) is None
    other = bag(*rows[:-1], ("19", "0.19000000000000003"), kinds=kinds)
    assert one.difference(other) == FLOATS_UNKNOWN and len(one.differing_buckets(other)) == 1
    assert one.difference(bag(*rows[:-1], ("20", "0.19"), kinds=kinds)) == ROWS_DIFFER
    whole = [(first, "1") for first, _ in rows]
    assert bag(*whole).difference(bag(*reversed(whole))) is None


def test_a_row_that_is_the_same_within_rounding_is_not_shown_as_a_difference() -> None:
    made = bag(kinds=(INTEGER, DOUBLE))
    some = ResultRows(map(as_bytes, [("1", "0.3"), ("1", "0.3"), ("2", None)]))
    others = ResultRows(map(as_bytes, [("1", "0.30000000000000004"), ("1", "0.4"), ("2", None)]))
    assert only_in(made, some, others) == [(b"1", b"0.3")]
    assert only_in(made, others, some) == [(b"1", b"0.4")]


def test_a_row_is_shown_in_short() -> None:
    assert shown([b"1", None, b"a"]) == r"1 | \N | a"
    assert len(shown([b"b" * 500])) < 200


ROWS = st.lists(st.tuples(st.sampled_from("123"), st.sampled_from(["a", None, "0.5", "NaN"])), max_size=12)


@given(ROWS, st.randoms(use_true_random=False))
def test_a_bag_is_equal_to_itself_shuffled_and_to_no_other(rows: list[Text], chance: random.Random) -> None:
    shuffled = chance.sample(rows, len(rows))
    assert bag(*rows).difference(bag(*shuffled)) is None
    assert bag(*rows).difference(bag(*rows, ("4", None))) == ROWS_DIFFER


PAIRS = st.lists(st.tuples(st.sampled_from("12"), st.floats()), max_size=8)


@given(PAIRS, st.randoms(use_true_random=False))
def test_floats_with_noise_in_another_order_are_the_same_and_another_value_is_not(
    pairs: list[tuple[str, float]], chance: random.Random
) -> None:
    kinds = (INTEGER, DOUBLE)
    rows: list[Text] = [(name, repr(value)) for name, value in pairs]
    noisy: list[Text] = [(name, repr(value * (1 + chance.uniform(-1e-12, 1e-12)))) for name, value in pairs]
    chance.shuffle(noisy)
    one = bag(*rows, kinds=kinds)
    assert one.difference(bag(*noisy, kinds=kinds)) is None
    assert bag(*noisy, kinds=kinds).difference(one) is None
    more, other = bag(*rows, ("3", "5.0"), kinds=kinds), bag(*rows, ("3", "5.001"), kinds=kinds)
    assert more.difference(other) == FLOATS_DIFFER


@given(st.lists(st.integers(0, 3), max_size=8), st.randoms(use_true_random=False))
def test_what_is_sorted_may_change_places_among_equals_alone(keys: list[int], chance: random.Random) -> None:
    rows: list[Text] = [(str(key), str(number)) for number, key in enumerate(sorted(keys))]
    shuffled = chance.sample(rows, len(rows))
    is_sorted = [row[0] for row in shuffled] == [row[0] for row in rows]
    found = bag(*rows, keys=(0,)).difference(bag(*shuffled, keys=(0,)))
    assert found == (None if is_sorted else ORDER_DIFFERS)


@pytest.mark.parametrize(
    ("query", "columns", "keys"),
    [
        (
            "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC NULLS LAST, a LIMIT 5",
            ["a", "n"],
            (1, 0),
        ),
        ("SELECT t.a, t.b FROM t ORDER BY t.b, t.a", ["a", "b"], (1, 0)),
        ("SELECT a - b FROM t ORDER BY a - b", ["?column?"], (0,)),
        ('select "A b" from t order by "A b"', ["A b"], (0,)),
        ("select a from t union all select b from u order by 1 desc fetch first 3 rows only", ["a"], (0,)),
        # What is not plainly a column of the output ends the list.
        ("SELECT a, b FROM t ORDER BY a, lower(b), b", ["a", "b"], (0,)),
        ("SELECT a AS x, b AS x FROM t ORDER BY x", ["x", "x"], ()),
        ("SELECT a FROM t ORDER BY random()", ["a"], ()),
        # Another's order is not the query's.
        ("WITH x AS (SELECT 1 AS a ORDER BY 1) SELECT * FROM x", ["a"], ()),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", ["row_number"], ()),
        ("SELECT a FROM t -- ORDER BY a\n/* ORDER BY 1 */", ["a"], ()),
        ("SELECT 'ORDER BY 1' FROM t", ["?column?"], ()),
        ("VALUES (2), (1) ORDER BY 1", ["column1"], (0,)),
    ],
)
def test_the_columns_that_a_query_sorts_by(query: str, columns: list[str], keys: tuple[int, ...]) -> None:
    assert sort_keys(query, columns) == keys
